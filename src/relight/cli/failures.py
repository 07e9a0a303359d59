from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from relight.cli.options import (
    Answer,
    TypedFilter,
    current_store,
    filter_options,
    format_options,
    print_no_match,
    reading_command,
    split_words,
)
from relight.errors import as_typed
from relight.text import make_csv, make_markdown, plural

if TYPE_CHECKING:
    from relight.reports.failed_work import FailedWork, FailureCause
    from relight.reports.failures import FailureReport
    from relight.reports.spirals import SessionSpiral

TEXT_ROWS = 20
NEWEST_ROWS = 10
READ_SECONDS = 1.0  # to find what cured failures
# the columns of failed calls, after the keys of --by
FIGURES = ("count", "tool_calls", "tool_failures", "failed_turns", "sessions", "last_at")
EXAMPLES = ("reason", "example", "sessions_sample")


@reading_command("failures", example="relight failures --by position --project .")
@click.option(
    "--by",
    metavar="KEYS",
    help="Only failed calls, by these keys, comma-separated: kind, tool, position (of the call in"
    " the session), length (of the session), category (kind of work).",
)
@filter_options()
@click.option(
    "--job",
    metavar="NAME",
    help="Only runs of this job, and their sessions.",
)
@format_options
def command(
    by: str | None,
    typed: TypedFilter,
    job: str | None,
    as_csv: bool,
    as_markdown: bool,
) -> Answer:
    """Show failed runs and sessions by cause, failed calls by kind and tool, and spirals.

    A failed call is a tool call that could not do what it was asked, or a model call without a
    response. A spiral is the same failing call three times or more, or one tool failing five times
    in a row. Its tokens and cost are those of the turns that made the calls. A failed run and its
    sessions count once. CSV and Markdown have the failed calls, JSON has everything.
    """
    from msgspec.structs import asdict

    from relight.reports.failures import KINDS, FailuresSince, explain_no_failure, read_failures
    from relight.reports.lessons import read_new
    from relight.reports.sessions import shorten_names
    from relight.store.queries.sessions import has_sessions
    from relight.work.jobs.registry import find_allowed_slots

    keys = KINDS if by is None else split_words(by)
    if not keys:
        raise click.UsageError("--by needs a key: kind, tool, position, length or category")
    with current_store() as store:
        chosen = typed.read(store, job=job)
        read_new(store, chosen, seconds=READ_SECONDS)
        found = read_failures(store, chosen, keys, slots=find_allowed_slots(store))
        yield FailuresSince(since=chosen.since, until=chosen.until, **asdict(found))
        why = explain_no_failure(store, chosen, job=job) if found.is_empty else None
        has_any = not found.is_empty or has_sessions(store) or store.has_rows("run")
        listed = [one.session_id for one in found.runs if one.session_id]
        short = shorten_names(store, [*listed, *(one.session_id for one in found.spirals)])
    if as_csv:
        names = [*found.by, *FIGURES, *EXAMPLES]
        rows = [[getattr(one, name) for name in names] for one in found.failures]
        click.echo(make_csv(names, rows), nl=False)
    elif as_markdown:
        names = [*found.by, *FIGURES, *EXAMPLES[:2]]
        rows = [[getattr(one, name) for name in names] for one in found.failures]
        click.echo(make_markdown(names, rows, is_number=FIGURES[:-1].__contains__))
    elif not has_any:
        print_no_match(None)
    elif found.is_empty or (by is not None and not found.failures):
        print_no_match(why, "no failure" if by is None else "no call failed")
    elif by is not None:
        _print_calls(found)
    else:
        _print(found, short)


def _print(found: "FailureReport", short: Mapping[str, str]) -> None:
    from relight.cli import screen

    if found.causes:
        _print_failed(found, short)
    if found.failures:
        screen.print_text("\nfailed calls" if found.causes else "failed calls", style="bold")
        _print_calls(found)
    if cured := [one for one in found.cures if one.cure][:NEWEST_ROWS]:
        screen.print_text("\nwhat cured them", style="bold")
    for cure in cured:
        screen.print_text(f"{cure.cause}, {cure.count} ×, cured {cure.cured} × by {cure.cure}")
    for spiral in found.spirals[:TEXT_ROWS]:
        name = short.get(spiral.session_id, spiral.session_id)
        screen.print_text(f"spiral: {name} {describe_spiral(spiral)}")


def _print_failed(found: "FailureReport", short: Mapping[str, str]) -> None:
    """Print failed runs and sessions: a sentence, their causes, and the newest of them."""
    from relight.cli import screen
    from relight.reports.failed_work import describe_failed

    screen.print_text(describe_failed(found.failed) or "", style="bold red")
    if left := found.failed.unrecorded_runs:
        runs = plural(left, "run left no session: its cost", "runs left no session: their cost")
        screen.print_text(f"{runs} is not recorded", style="dim")
    causes = found.causes[:TEXT_ROWS]
    costs = [
        _format_cost(one, is_recorded=one.unrecorded_runs < one.runs + one.sessions)
        for one in causes
    ]
    screen.print_columns(
        screen.Words("kind", [one.kind for one in causes]),
        screen.Words("cause", [one.cause for one in causes], lines=3),
        screen.Column("runs", [screen.count(one.runs) for one in causes]),
        screen.Column("sess.", [screen.count(one.sessions) for one in causes]),
        screen.Column("cost", costs),
        screen.Words("jobs", [", ".join(one.jobs) for one in causes], is_spare=True),
    )
    if len(found.causes) > TEXT_ROWS:
        more = plural(len(found.causes) - TEXT_ROWS, "more cause")
        screen.print_text(f"… and {more}", style="dim")
    for one in [one for one in found.runs if one.retry][:TEXT_ROWS]:
        screen.print_text(f"{one.name}: {one.retry}")
    newest = found.runs[:NEWEST_ROWS]
    screen.print_text(as_typed("\nnewest, for `relight show SESSION`"), style="bold")
    names = [short.get(one.session_id or "", "no session") for one in newest]
    what = [one.name or "" if one.what == "run" else one.title or "(no title)" for one in newest]
    costs = [_format_cost(one, is_recorded=one.session_id is not None) for one in newest]
    screen.print_columns(
        screen.Words("at", [screen.minute(one.at) for one in newest], is_name=True),
        screen.Words("what", what, is_title=True),
        screen.Words("cause", [one.cause for one in newest], lines=3),
        screen.Column("cost", costs),
        screen.Words("session", names, is_name=True),
    )
    total = found.failed.runs + found.failed.sessions
    if total > len(newest):
        screen.print_text(
            f"… and {total - len(newest):,} more: --json shows {len(found.runs)}", style="dim"
        )


def _format_cost(one: "FailureCause | FailedWork", *, is_recorded: bool) -> str:
    """Return the cost of failed work; a dash if no session and no cost is recorded."""
    from relight.cli import screen

    if one.cost_usd is None and not is_recorded:
        return "–"
    return screen.dollars(one.cost_usd, unpriced=one.unpriced_turns)


def _print_calls(found: "FailureReport") -> None:
    """Print failed calls by the keys of the report."""
    from relight.cli import screen
    from relight.reports.metrics import format_share, read_failure_rate

    rows = found.failures[:TEXT_ROWS]
    examples = [one.example or one.reason or "" for one in rows]
    shares = [format_share(read_failure_rate(one)) for one in rows]
    calls = screen.Column("of calls", [screen.count(one.tool_calls) for one in rows])
    has_shares = "kind" not in found.by
    columns: list[screen.Column] = [
        screen.Words(key, [getattr(one, key) or "(model call)" for one in rows]) for key in found.by
    ]
    columns.append(screen.Column("count", [screen.count(one.count) for one in rows]))
    columns += [calls, screen.Column("failed", shares)] if has_shares else []
    columns.append(screen.Column("sess.", [screen.count(one.sessions) for one in rows]))
    columns += [] if has_shares else [screen.Words("example", examples, lines=2)]
    screen.print_columns(*columns)
    if len(found.failures) > TEXT_ROWS:
        more = plural(len(found.failures) - TEXT_ROWS, "more row")
        screen.print_text(f"… and {more}", style="dim")


def describe_spiral(spiral: "SessionSpiral") -> str:
    from relight.cli.screen import count, dollars

    what = "the same failing call" if spiral.kind == "identical" else "failed"
    times = f"{spiral.tool}: {what} {spiral.count} times"
    if spiral.tokens is None:
        return times
    cost = dollars(spiral.cost_usd, unpriced=spiral.unpriced_turns)
    about = "about " if spiral.is_estimated else ""
    return f"{times}, {about}{count(spiral.tokens)} tokens, {cost}"
