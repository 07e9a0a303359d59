"""`relight` without a command: what is recorded, the last 30 days, what to do next."""

import os

import click

from relight.cli import screen
from relight.cli.news import refresh, take_news
from relight.cli.options import use_currency
from relight.cli.report import name_key, print_report
from relight.errors import as_typed
from relight.intake.importing import find_work, has_news
from relight.reports import filters, totals
from relight.reports.failed_work import describe_failed, read_failed_totals
from relight.sources import list_agents, list_sources
from relight.store import Store, open_store
from relight.store.keep.migrate import find_old_rules
from relight.store.queries import sessions
from relight.store.queries.costs import sum_costs
from relight.store.queries.filters import Filter
from relight.text import format_cost, join_words, plural

FAILING_SHOWN = 5
NAMED = 3  # agents in a sentence; `relight doctor` lists all


def show_overview(home: str | None, *, is_fresh: bool = True) -> None:
    """Show the overview; `is_fresh` first takes in what is new."""
    with open_store(home) as store:
        use_currency(store)
        is_fresh = is_fresh and store.config.auto_import
        if is_fresh and sessions.has_sessions(store):
            refresh(store)
        elif is_fresh:
            _take_first(store)
        _print_failing_jobs(store)
        if sessions.has_sessions(store):
            _show(store, is_fresh=is_fresh)
        elif is_fresh:
            _print_none_found()
        else:
            click.echo(as_typed("Nothing is recorded yet: run `relight import`."))


def _take_first(store: Store) -> None:
    """Name the agents on this machine and read their sessions."""
    import time

    from relight.cli.importing import summarise

    found = {name: len(list(find_work(store, name, None, os.environ))) for name in list_sources()}
    names = ", ".join(f"{name} ({plural(files, 'file')})" for name, files in found.items() if files)
    if not names:
        return
    click.echo(f"Found {names}. Reading …")
    started = time.monotonic()
    if has_news(store) and (done := take_news(store)):
        click.echo(summarise(done, time.monotonic() - started))


def _print_none_found() -> None:
    titles = [one.title for one in list_agents()]
    more = plural(len(titles) - NAMED, "other agent")
    named = join_words([*titles[:NAMED], f"{more} that Relight reads"], "or")
    click.echo(f"No sessions of {named} were found on this machine.")
    hint = "Try `relight demo`, or name a folder: relight import --source NAME --from DIR"
    click.echo(as_typed(hint))


def _show(store: Store, *, is_fresh: bool) -> None:
    chosen = filters.read_filter(store)
    if failed := describe_failed(read_failed_totals(store, chosen)):
        screen.print_text(as_typed(f"{failed}: relight failures"), style="bold red")
    counts = sessions.count_by_source(store)
    by_source = ", ".join(f"{number:,} of {name}" for name, number in counts.items())
    total, parts = sum(counts.values()), sum(sessions.count_subagents(store).values())
    recorded = f"{plural(total, 'session')} ({by_source})"
    within = f", with {plural(parts, 'sub-agent')}" if parts else ""
    days = " to ".join((moment or "")[:10] for moment in sessions.find_span(store))
    screen.print_text(f"Recorded: {recorded}{within}, {days}", style="bold")
    by_day = totals.report(store, ("day",), chosen)
    if by_day.rows:
        print_report(by_day)
        _print_tops(store, chosen)
    else:
        hint = as_typed("`relight report --since all` shows the rest")
        click.echo(f"Nothing in the last 30 days; {hint}.")
    _print_plans(store)
    _print_needs(store, chosen)
    _print_next(store, is_fresh=is_fresh)


def _print_failing_jobs(store: Store) -> None:
    """Name the jobs that fail now, each with the command that shows why."""
    from relight.reports.needs import find_failing_jobs
    from relight.reports.runs import read_jobs

    failing = find_failing_jobs(read_jobs(store))
    for one in failing[:FAILING_SHOWN]:
        screen.print_text(f"{one.title}: {one.reason}: {one.command}", style="bold red")
    if len(failing) > FAILING_SHOWN:
        more = plural(len(failing) - FAILING_SHOWN, "more job fails", "more jobs fail")
        hint = f"{more}: relight job list"
        screen.print_text(as_typed(hint), style="bold red")


def _print_tops(store: Store, chosen: Filter) -> None:
    """Print the models and projects that cost most."""
    for key in ("model", "project"):
        rows = sorted(sum_costs(store, key, chosen), key=lambda row: -row.worth_usd)[:3]
        tops = " · ".join(f"{name_key(key, row.name)} {format_cost(row)}" for row in rows)
        screen.print_text(f"top {key}s: {tops}")


def _print_plans(store: Store) -> None:
    """Print what plans were worth this month, against their price."""
    if store.config.plans:
        from relight.reports.plan_worth import describe_plan, find_unknown_plans, read_plans

        for note in find_unknown_plans(store.config.plans):
            click.echo(f"warning: {note}", err=True)
        for plan in read_plans(store):
            screen.print_text(describe_plan(plan))


def _print_needs(store: Store, chosen: Filter) -> None:
    """Print what needs a person, one line of each kind with its command; jobs are above."""
    from relight.reports.needs import describe_needs, find_needs

    # spirals are left out: finding them takes long, and `relight failures` has them
    for line in describe_needs(find_needs(store, chosen, (), spirals=())):
        screen.print_text(f"→ {line}")


def _print_next(store: Store, *, is_fresh: bool) -> None:
    for note in find_old_rules(store):
        screen.print_text(f"→ {note}")
    if not is_fresh and store.config.auto_import:
        _print_waiting(store)
    hint = "→ relight report --by model · relight show last · relight doctor"
    screen.print_text(as_typed(hint))


def _print_waiting(store: Store) -> None:
    waiting = sum(1 for name in list_sources() for _ in find_work(store, name, None, os.environ))
    if waiting:
        files = plural(waiting, "file has", "files have")
        screen.print_text(as_typed(f"→ {files} something new: relight import"))
