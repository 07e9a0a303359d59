from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from relight.cli.options import Answer, current_store, reading_command
from relight.errors import as_typed

if TYPE_CHECKING:
    from relight.reports.brief import Brief, BriefCause
    from relight.store.queries.costs import OtherSessions
    from relight.store.queries.runs import RunReport

SHOWN_CAUSES, SHOWN_EVIDENCE, SHOWN_JOBS = 20, 2, 8


@reading_command("brief", example="relight brief --since yesterday")
@click.option(
    "--since",
    metavar="DAY",
    help="The first day: 2026-11-15, 7d, yesterday … (default: last evening).",
)
def command(since: str | None) -> Answer:
    """Show the runs and sessions since last evening, failures first.

    Failures of one cause are one row, whatever their jobs: with the evidence, what they cost, and
    whether another run can help and when it happens.
    """
    from relight.reports.brief import read_brief
    from relight.reports.filters import read_start
    from relight.work.jobs.lost_runs import settle_lost
    from relight.work.jobs.registry import find_allowed_slots

    with current_store() as store:
        settle_lost(store)
        start = None if since is None else read_start(store, since) or 0
        found = read_brief(store, since=start, slots=find_allowed_slots(store))
        timezone = store.timezone
    yield found
    _print(found, timezone)


def _print(found: "Brief", timezone: str) -> None:
    from relight.cli import screen
    from relight.text import plural
    from relight.times import format_moment, read_time

    since = format_moment(read_time(found.since) or 0, timezone)
    cost = screen.dollars(found.cost_usd, unpriced=found.unpriced_turns)
    parts = [f"{plural(found.runs, 'run')}: {_count_ends(found)}"]
    parts += [f"{found.running} running"] if found.running else []
    parts += [f"{plural(found.skipped, 'slot')} skipped"] if found.skipped else []
    parts += [cost] if found.runs else []
    screen.print_text(f"Since {since}: {', '.join(parts)}", style="bold")
    own = found.sessions
    if own.sessions:
        cost = screen.dollars(own.cost_usd, unpriced=own.unpriced_turns)
        sessions = plural(own.sessions, "session")
        screen.print_text(f"{sessions} beside them: {_count_ends(own)}, {cost}")
    for one in found.causes[:SHOWN_CAUSES]:
        _print_cause(one)
    if len(found.causes) > SHOWN_CAUSES:
        more = plural(len(found.causes) - SHOWN_CAUSES, "more cause")
        screen.print_text(as_typed(f"… and {more}: relight failures"), style="dim")
    for alarm in found.alarms:
        screen.print_text(as_typed(f"alarm {alarm.id}: {alarm.sentence} → relight alarms"))
    if found.succeeded:
        screen.print_text(f"succeeded: {_list_jobs(found.succeeded)}", style="green")


def _print_cause(one: "BriefCause") -> None:
    """Print a cause in a few lines: who failed and what it cost, why, and what comes next."""
    from relight.cli import screen
    from relight.text import join_words, plural

    what = [plural(one.runs, "run")] if one.runs else []
    what += [plural(one.sessions, "session")] if one.sessions else []
    jobs = f" of {join_words(one.jobs[:SHOWN_JOBS])}" if one.jobs else ""
    cost = screen.dollars(one.cost_usd, unpriced=one.unpriced_turns)
    burnt = f", {screen.dollars(one.burnt_usd)} of it burnt in spirals" if one.burnt_usd else ""
    screen.print_text(f"\n{join_words(what)}{jobs} failed, {cost}{burnt}", style="bold red")
    screen.print_text(f"  {one.kind}: {one.cause}")
    for line in one.evidence[:SHOWN_EVIDENCE]:
        if line != one.cause:
            screen.print_text(f"  {line}", style="dim")
    if one.retry:
        screen.print_text(f"  {one.retry}")
    for run_id in one.run_ids:
        screen.print_text(as_typed(f"  → relight job retry {run_id}"))


def _count_ends(found: "Brief | OtherSessions") -> str:
    unknown = f", {found.unknown} unknown" if found.unknown else ""
    return f"{found.successes} succeeded, {found.failures} failed{unknown}"


def _list_jobs(runs: "Sequence[RunReport]") -> str:
    from collections import Counter

    names = Counter(run.name for run in runs)
    return ", ".join(
        name if number == 1 else f"{name} ({number})" for name, number in names.items()
    )
