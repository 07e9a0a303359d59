from typing import Any

import click

from relight.cli.options import (
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
)


@relight_group("job", example="relight job history --json")
def command() -> None:
    """Show scheduled jobs and how their runs really went.

    Jobs of Hermes' own scheduler are named `hermes:<id>`. A run's outcome comes from the
    scheduler's ledger, the script, the answer and the session, never from how the session was
    closed.
    """


@relight_command("list", example="relight job list --json")
@json_option
def list_jobs(as_json: bool) -> None:
    """List the jobs, with their last outcome."""
    from relight.cli import screen
    from relight.ledger import read_jobs

    with current_store() as store:
        jobs = read_jobs(store)
    if as_json:
        print_json({"jobs": jobs})
        return
    if not jobs:
        click.echo("no jobs are known; `relight import` reads those of Hermes")
        return
    columns = [screen.Column("job", is_number=False), screen.Column("schedule", is_number=False)]
    columns += [screen.Column("runs"), screen.Column("failed")]
    columns += [screen.Column("last", is_number=False), screen.Column("outcome", is_number=False)]
    rows = [
        [
            job["name"],
            job["schedule"] or "",
            screen.count(job["runs"]),
            screen.count(job["failures"]),
            (job["last_run_at"] or "")[:16].replace("T", " "),
            job["last_outcome"] or "",
        ]
        for job in jobs
    ]
    screen.print_table(columns, rows)


@relight_command("history", example="relight job history daily-report --json")
@click.argument("name", required=False)
@json_option
def history(name: str | None, as_json: bool) -> None:
    """Show runs, newest first, of all jobs or of one."""
    from relight.ledger import read_runs

    with current_store() as store:
        runs = read_runs(store, name)
    if as_json:
        print_json({"runs": runs})
    elif runs:
        _print_runs(runs)
    else:
        click.echo("no runs are known")


def _print_runs(runs: list[dict[str, Any]]) -> None:
    from relight.cli import screen

    columns = [screen.Column("started", is_number=False), screen.Column("job", is_number=False)]
    columns += [screen.Column("outcome", is_number=False), screen.Column("took")]
    columns += [screen.Column("cost"), screen.Column("evidence", is_number=False)]
    rows = [
        [
            (run["started_at"] or "")[:16].replace("T", " "),
            run["name"],
            run["outcome"],
            screen.seconds(run["duration_seconds"]),
            screen.dollars(run["cost_usd"]) if run["session_id"] else "–",
            run["evidence"][0] if run["evidence"] else "",
        ]
        for run in runs
    ]
    screen.print_table(columns, rows)


command.add_command(list_jobs)
command.add_command(history)
