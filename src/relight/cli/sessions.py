from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import (
    Answer,
    TypedFilter,
    current_store,
    filter_options,
    print_no_match,
    reading_command,
)
from relight.errors import as_typed
from relight.times import read_time

if TYPE_CHECKING:
    from relight.reports.listing import ListedSession, SessionPage

SORTS = ("started", "cost", "turns", "duration", "tokens", "failures")
WIDE = 120  # columns from which a table also has what only some people ask for


@reading_command("sessions", example="relight sessions invoice --failed --since 2w")
@click.argument("words", nargs=-1)
@filter_options()
@click.option("--succeeded", "outcome", flag_value="success", help="Only those that succeeded.")
@click.option("--failed", "outcome", flag_value="failure", help="Only those that failed.")
@click.option("--unknown", "outcome", flag_value="unknown", help="Only those without an outcome.")
@click.option(
    "--sort",
    default="started",
    show_default=True,
    metavar="KEY",
    help=f"The largest first: {', '.join(SORTS)}.",
)
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="At most so many."
)
@click.option("--after", metavar="NEXT", help="Go on after a page: its `next`.")
@click.option(
    "--subagents",
    "with_subagents",
    is_flag=True,
    help="Also list sub-agents, each with its own figures.",
)
def command(words: tuple[str, ...], typed: TypedFilter, **given: Any) -> Answer:
    """List sessions, newest first: when, project, title, outcome, cost and id.

    WORDS are beginnings of words in the title, the folder or the id; all must match. `relight
    search` looks through everything that was said. A sub-agent is counted in its parent. The id is
    what `relight show` takes.
    """
    from relight.reports.listing import list_sessions
    from relight.reports.narrowing import explain_no_session
    from relight.reports.sessions import shorten_names
    from relight.store.queries.listing import Listing

    wanted = Listing(search=" ".join(words) or None, **given)
    with current_store() as store:
        chosen = typed.read(store)
        found = list_sessions(store, chosen, wanted)
        short = shorten_names(store, [one.session_id for one in found.sessions])
        why = None if found.sessions or wanted.after else explain_no_session(store, chosen, wanted)
        timezone = store.timezone
    yield found
    if found.sessions:
        _print(found, short, timezone=timezone)
    elif wanted.after is not None:
        click.echo("there are no more sessions")
    else:
        print_no_match(why)
        if words:
            import shlex

            asked = shlex.join(["relight", "search", *words])
            click.echo(as_typed(f"in all that was said and done: {asked}"))


def _print(found: "SessionPage", short: dict[str, str], *, timezone: str) -> None:
    import time

    from relight.cli import screen
    from relight.reports.listing import name_outcome

    rows = found.sessions
    now = int(time.time() * 1000)
    is_wide = screen.Printer().width >= WIDE
    ages = [format_age(one.started_at, now=now, timezone=timezone) for one in rows]
    outcomes = [name_outcome(one.outcome, one.points_to) for one in rows]
    more = [
        screen.Column("turns", [screen.count(one.turns) for one in rows]),
        screen.Column("time", [screen.seconds(one.wall_seconds or None) for one in rows]),
        screen.Words("model", [one.model or "" for one in rows]),
    ]
    when = ages if is_wide else [age.removesuffix(" ago") for age in ages]
    projects = [screen.last_folder(one.project) for one in rows]
    screen.print_columns(
        screen.Words("when", when, is_name=True),
        screen.Words("project", projects, is_spare=True, least=8),
        screen.Words("title", [_name_title(one) for one in rows], is_title=True),
        screen.Words("outcome", outcomes, is_name=True, colour=screen.colour_state),
        screen.Column("cost", [screen.format_cost(one) for one in rows]),
        *(more if is_wide else []),
        screen.Words("id", [short[one.session_id] for one in rows], is_name=True),
    )
    if any(one.points_to for one in rows):
        note = "success? and failure?: signs point there and prove nothing"
        screen.print_text(as_typed(f"{note}; `relight show` lists them"), style="dim")
    if one := next((one for one in rows if one.resume), None):
        hint = f"continue one in its agent: relight resume {short[one.session_id]}"
        screen.print_text(as_typed(hint), style="dim")
    if found.next:
        least = " and more" if found.is_more else ""
        text = f"{len(rows):,} of {found.count:,}{least}: --limit shows more, --after {found.next}"
        screen.print_text(f"{text} goes on", style="dim")


def _name_title(one: "ListedSession") -> str:
    title = one.title or "(no title)"
    if one.parent_session_id is not None:
        return f"└ {title}"
    return f"{title} (+{one.subagents} sub-agents)" if one.subagents > 1 else title


def format_age(started_at: str | None, *, now: int, timezone: str) -> str:
    """Return how long ago a session began; the day if that is more than a week.

    >>> now = 1_794_712_320_000
    >>> [format_age(one, now=now, timezone="UTC") for one in ("2026-11-15T01:12Z", "2026-10-21")]
    ['2h ago', '21 Oct']
    """
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    at = read_time(started_at)
    if at is None:
        return "unknown"
    minutes = (now - at) // 60_000
    if 0 <= minutes < 7 * 24 * 60:
        number, unit = (minutes, "m") if minutes < 60 else (minutes // 60, "h")
        if number >= 24 and unit == "h":
            number, unit = number // 24, "d"
        return f"{number}{unit} ago" if number else "now"
    here, today = (
        datetime.fromtimestamp(one / 1000, UTC).astimezone(ZoneInfo(timezone)) for one in (at, now)
    )
    return f"{here.day} {here:%b}" if here.year == today.year else f"{here:%Y-%m-%d}"
