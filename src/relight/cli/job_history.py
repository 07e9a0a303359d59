"""The command `job history`."""

import click

from relight.cli.options import Answer, current_store, reading_command, since_option, wants_json
from relight.reports.filters import read_start

SHOWN_RUNS = 50


@reading_command("history", example="relight job history --failed --since yesterday")
@click.argument("name", required=False)
@click.option("--failed", is_flag=True, help="Only runs that failed.")
@since_option("all")
@click.option("--limit", type=click.IntRange(1), help="The newest N (else 50; all with --json).")
def history(name: str | None, failed: bool, since: str, limit: int | None) -> Answer:
    """Show the runs of all jobs or of one, newest first."""
    from relight.reports.runs import RunList
    from relight.store.queries.runs import read_runs
    from relight.work.jobs.lost_runs import settle_lost

    most = limit if wants_json() else (limit or SHOWN_RUNS) + 1
    with current_store() as store:
        settle_lost(store)
        start = read_start(store, since)
        runs = read_runs(store, name, limit=most, has_failed=failed, since=start)
    yield RunList(runs)
    if runs:
        from relight.cli.job_tables import print_runs

        shown = limit or SHOWN_RUNS
        print_runs(runs[:shown], store.timezone)
        if len(runs) > shown:
            click.echo(f"there are more: --limit {shown * 10}", err=True)
    else:
        click.echo(_describe_none(name, failed=failed, since=None if start is None else since))


def _describe_none(name: str | None, *, failed: bool, since: str | None) -> str:
    """Return the sentence on an empty history.

    >>> _describe_none("inbox", failed=True, since="7d")
    'no run of inbox failed since 7d'
    """
    run = f"no run of {name}" if name else "no run"
    found = f"{run} failed" if failed else f"{run} is recorded"
    return f"{found} since {since}" if since else found
