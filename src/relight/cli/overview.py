"""`relight` without a command: what is recorded, the last 30 days, what to do next."""

import os

import click

from relight.cli import screen
from relight.cli.report import print_report
from relight.reports import filters, totals
from relight.reports.failed_work import describe_failed, read_failed_totals
from relight.store import Store, open_store
from relight.store.keep.rules import find_old_rules
from relight.store.queries import sessions
from relight.store.queries.filters import Filter
from relight.store.queries.totals import CostRow, sum_costs
from relight.text import dollars


def show_overview(home: str | None) -> None:
    with open_store(home) as store:
        if not sessions.has_sessions(store) and not _first_run(store):
            return
        _show(store)


def _first_run(store: Store) -> bool:
    """Find the agents on this machine and import them; True if there were any."""
    from relight.cli.importing import summarise
    from relight.intake.importing import find_work
    from relight.sources import list_sources
    from relight.text import join_words
    from relight.warm.automatic import import_and_propose

    sources = list_sources()
    found = {name: len(list(find_work(store, name, None, os.environ))) for name in sources}
    if not any(found.values()):
        titles = [one.title for one in sources.values() if one.variable]
        click.echo(f"No sessions of {join_words(titles, 'or')} were found on this machine.")
        click.echo("Try `relight demo`, or name a folder: relight import --source NAME --from DIR")
        return False
    names = ", ".join(
        f"{name} ({files:,} file{'s' if files > 1 else ''})"
        for name, files in found.items()
        if files
    )
    click.echo(f"Found {names}. Reading …")
    import time

    started = time.monotonic()
    with screen.progress_bar("importing") as progress:
        done = import_and_propose(store, progress=progress)
    click.echo(summarise(done, time.monotonic() - started))
    return True


def _show(store: Store) -> None:
    chosen = filters.read_filter(store)
    if failed := describe_failed(read_failed_totals(store, chosen)):
        screen.print_text(f"{failed}: relight failures", style="bold red")
    counts = sessions.count_by_source(store)
    by_source = ", ".join(f"{number:,} of {name}" for name, number in counts.items())
    total, parts = sum(counts.values()), sessions.count_subagents(store)
    recorded = f"{total:,} session{'' if total == 1 else 's'} ({by_source})"
    within = f", {parts:,} of sub-agents within them" if parts else ""
    days = " to ".join((moment or "")[:10] for moment in sessions.find_span(store))
    screen.print_text(f"Recorded: {recorded}{within}, {days}", style="bold")
    by_day = totals.report(store, ("day",), chosen)
    if by_day.rows:
        print_report(by_day)
        _print_tops(store, chosen)
    else:
        click.echo("Nothing in the last 30 days; `relight report --since all` shows the rest.")
    _print_next(store)


def _print_tops(store: Store, chosen: Filter) -> None:
    """Print the models and projects that cost most."""
    for key in ("model", "project"):
        rows = sorted(sum_costs(store, key, chosen), key=lambda row: -row.worth_usd)
        tops = " · ".join(
            f"{str(row.name or 'unknown').rsplit('/', 1)[-1]} {_format_cost(row)}"
            for row in rows[:3]
        )
        screen.print_text(f"top {key}s: {tops}")


def _format_cost(row: CostRow) -> str:
    return dollars(row.cost_usd, unpriced=row.unpriced_turns, included=row.included_usd)


def _print_next(store: Store) -> None:
    for note in find_old_rules(store):
        screen.print_text(f"→ {note}")
    from relight.intake.importing import find_work
    from relight.sources import list_sources

    waiting = sum(1 for name in list_sources() for _ in find_work(store, name, None, os.environ))
    if waiting:
        files = "1 file has" if waiting == 1 else f"{waiting:,} files have"
        screen.print_text(f"→ {files} something new: relight import")
    screen.print_text("→ relight report --by model · relight show SESSION · relight doctor")
