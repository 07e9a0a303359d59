from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from relight.cli.filters import TypedFilter, filter_options, print_no_match
from relight.cli.options import current_store, json_option, print_json, reading_command
from relight.errors import as_typed

if TYPE_CHECKING:
    from relight.reports.failed_work import FailedReport, FailedWork
    from relight.reports.failures import FailureReport, SessionSpiral

TEXT_ROWS = 20
NEWEST_ROWS = 10


@reading_command("failures", example="relight failures --since 7d")
@filter_options()
@click.option(
    "--job",
    metavar="NAME",
    help="Only runs of this job, and their sessions.",
)
@json_option
def command(typed: TypedFilter, job: str | None, as_json: bool) -> None:
    """Show failed runs and sessions by cause, failed calls by kind and tool, and spirals.

    A failed call is a tool call that could not do what it was asked, or a model call without a
    response. A spiral is the same failing call three times or more, or one tool failing five times
    in a row. Its tokens and cost are those of the turns that made the calls. A failed run and its
    sessions count once.
    """
    from msgspec.structs import asdict

    from relight.reports.failures import FailuresSince, explain_no_failure, read_failures
    from relight.reports.sessions import shorten_names
    from relight.work.jobs.registry import find_allowed_slots

    with current_store() as store:
        chosen = typed.read(store, job=job)
        found = read_failures(store, chosen, slots=find_allowed_slots(store))
        why = explain_no_failure(store, chosen, job=job) if found.is_empty else None
        listed = [one.session_id for one in found.failed.newest if one.session_id]
        short = shorten_names(store, [*listed, *(one.session_id for one in found.spirals)])
    if as_json:
        print_json(FailuresSince(since=chosen.since, until=chosen.until, **asdict(found)))
    elif found.is_empty:
        print_no_match(why, "no failure")
    else:
        _print(found, short)


def _print(found: "FailureReport", short: Mapping[str, str]) -> None:
    from relight.cli import screen

    if found.failed.causes:
        _print_failed(found.failed, short)
    if found.failures:
        screen.print_text("\nfailed calls", style="bold")
        _print_calls(found)
    for spiral in found.spirals[:TEXT_ROWS]:
        name = short.get(spiral.session_id, spiral.session_id)
        screen.print_text(f"spiral: {name} {describe_spiral(spiral)}")


def _print_failed(found: "FailedReport", short: Mapping[str, str]) -> None:
    """Print failed runs and sessions: a sentence, their causes, and the newest of them."""
    from relight.cli import screen
    from relight.reports.failed_work import describe_failed
    from relight.text import plural

    screen.print_text(describe_failed(found.total) or "", style="bold red")
    if left := found.total.unrecorded_runs:
        runs = plural(left, "run left no session: its cost", "runs left no session: their cost")
        screen.print_text(f"{runs} is not recorded", style="dim")
    columns = [
        screen.Column("kind", is_number=False),
        screen.Column("cause", is_number=False, lines=3),
        screen.Column("runs"),
        screen.Column("sess."),
        screen.Column("cost"),
        screen.Column("jobs", is_number=False, is_spare=True),
    ]
    rows = [
        [
            one.kind,
            one.cause,
            screen.count(one.runs),
            screen.count(one.sessions),
            screen.dollars(one.cost_usd, unpriced=one.unpriced_turns),
            ", ".join(one.jobs),
        ]
        for one in found.causes[:TEXT_ROWS]
    ]
    screen.print_table(columns, rows)
    if len(found.causes) > TEXT_ROWS:
        more = plural(len(found.causes) - TEXT_ROWS, "more cause")
        screen.print_text(f"… and {more}", style="dim")
    for one in [one for one in found.newest if one.retry][:TEXT_ROWS]:
        screen.print_text(f"{one.job_name}: {one.retry}")
    newest = found.newest[:NEWEST_ROWS]
    screen.print_text(as_typed("\nnewest, for `relight show SESSION`"), style="bold")
    columns = [
        screen.Column("at", is_number=False, is_name=True),
        screen.Column("what", is_number=False, is_title=True),
        screen.Column("cause", is_number=False, lines=3),
        screen.Column("cost"),
        screen.Column("session", is_number=False, is_name=True),
    ]
    screen.print_table(columns, [_newest_cells(one, short) for one in newest])
    total = found.total.runs + found.total.sessions
    if total > len(newest):
        screen.print_text(
            f"… and {total - len(newest):,} more: --json shows {len(found.newest)}", style="dim"
        )


def _newest_cells(one: "FailedWork", short: Mapping[str, str]) -> list[str]:
    from relight.cli import screen

    return [
        (one.at or "unknown")[5:16].replace("T", " "),
        f"{one.job_name}" if one.what == "run" else one.title or "(no title)",
        one.cause,
        screen.dollars(one.cost_usd, unpriced=one.unpriced_turns),
        short.get(one.session_id or "", "no session"),
    ]


def _print_calls(found: "FailureReport") -> None:
    from relight.cli import screen
    from relight.text import plural

    columns = [
        screen.Column("kind", is_number=False),
        screen.Column("tool", is_number=False),
        screen.Column("count"),
        screen.Column("sess."),
        screen.Column("example", is_number=False, lines=2),
    ]
    rows = [
        [
            one.kind,
            one.tool or "(model call)",
            screen.count(one.count),
            screen.count(one.sessions),
            one.example or one.reason or "",
        ]
        for one in found.failures[:TEXT_ROWS]
    ]
    screen.print_table(columns, rows)
    if len(found.failures) > TEXT_ROWS:
        more = plural(len(found.failures) - TEXT_ROWS, "more kind")
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
