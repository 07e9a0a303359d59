import time
from typing import Any

import click

from relight.cli.job_add import add, edit
from relight.cli.job_exchange import export, import_jobs
from relight.cli.job_run import run
from relight.cli.options import (
    confirm,
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
    yes_option,
)

SHOWN_RUNS = 50
SHOWN_WITH_JOB = 5


@relight_group("job", example='relight job add inbox --schedule "daily 07:00" --prompt "…"')
def command() -> None:
    """Give agents work at times you choose, and see how it really went.

    `relight scheduler` runs what is due. Jobs of Hermes' own scheduler are shown too, as
    `hermes:<id>`. A run's outcome comes from exit codes, scripts, the answer and the session,
    never from how the session was closed.
    """


@relight_command("list", example="relight job list --json")
@json_option
def list_jobs(as_json: bool) -> None:
    """List the jobs, with their last outcome."""
    from relight.reports.runs import read_jobs
    from relight.work.jobs.leases import find_alive

    with current_store() as store:
        _settle_dead(store)
        jobs, zone = read_jobs(store), store.timezone
        is_run = bool(find_alive(store.config.home))
    if as_json:
        print_json({"jobs": jobs})
        return
    if not jobs:
        click.echo(
            "no jobs are known; `relight job add --help` shows how to make one,"
            " and `relight import` reads those of other schedulers"
        )
        return
    from relight.cli.job_tables import print_jobs

    print_jobs(jobs, zone)
    if not is_run and any(job["runner"] and job["state"] == "scheduled" for job in jobs):
        click.echo("no scheduler is running: `relight scheduler` runs what is due", err=True)


@relight_command("show", example="relight job show inbox")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one job: what it does, when it is due, how its last runs went."""
    from relight.reports.runs import find_foreign, read_runs
    from relight.work.jobs.view import describe_job

    with current_store() as store:
        _settle_dead(store)
        told = find_foreign(store, name) or describe_job(store, name, now=_now())
        runs = read_runs(store, told["job"], limit=SHOWN_WITH_JOB)
    if as_json:
        print_json(told | {"runs": runs})
    else:
        from relight.cli.job_tables import print_job

        print_job(told, runs, store.timezone)


@relight_command("history", example="relight job history inbox --json")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1), help="The newest N (else 50; all with --json).")
@json_option
def history(name: str | None, limit: int | None, as_json: bool) -> None:
    """Show runs, newest first, of all jobs or of one."""
    from relight.reports.runs import read_runs

    most = limit if as_json else (limit or SHOWN_RUNS) + 1
    with current_store() as store:
        _settle_dead(store)
        runs = read_runs(store, name, limit=most)
    if as_json:
        print_json({"runs": runs})
    elif runs:
        from relight.cli.job_tables import print_runs

        shown = limit or SHOWN_RUNS
        print_runs(runs[:shown], store.timezone)
        if len(runs) > shown:
            click.echo(f"there are more: --limit {shown * 10}", err=True)
    else:
        click.echo("no runs are known")


@relight_command("pause", example="relight job pause inbox")
@click.argument("name")
@json_option
def pause(name: str, as_json: bool) -> None:
    """Begin no more runs of a job until it is resumed."""
    from relight.work.jobs.registry import pause_job

    with current_store() as store:
        pause_job(store, name)
    _tell_state(name, "paused", f"{name} is paused: relight job resume {name}", as_json=as_json)


@relight_command("resume", example="relight job resume inbox")
@click.argument("name")
@json_option
def resume(name: str, as_json: bool) -> None:
    """Go on with a job that was paused, from its next time on."""
    from relight.work.jobs.registry import find_job, resume_job
    from relight.work.jobs.schedules import tell_moment

    with current_store() as store:
        due = resume_job(store, name, now=_now())
        zone = find_job(store, name).timezone or store.timezone
    told = f"{name} goes on: {tell_moment(due, zone)}"
    _tell_state(name, "scheduled", told, as_json=as_json)


@relight_command("remove", example="relight job remove inbox --yes")
@click.argument("name")
@yes_option
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove a job; its history stays."""
    from relight.work.jobs.registry import find_job, remove_job

    with current_store() as store:
        find_job(store, name)
        if not yes:
            confirm(f"Remove the job {name}?")
        remove_job(store, name)
    _tell_state(name, "removed", f"{name} is removed; its history stays", as_json=as_json)


def _tell_state(name: str, state: str, told: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"job": name, "state": state})
    else:
        click.echo(told)


def _settle_dead(store: Any) -> None:
    """A run whose process is gone is not shown as running, and with what it left."""
    from relight.work.jobs.lost_runs import find_dead, find_untold, settle_dead

    settle_dead(store, find_dead(store, now=_now()))
    if find_untold(store):
        from relight.work.jobs.aftermath import follow_up

        follow_up(store)


def _now() -> int:
    return int(time.time() * 1000)


for each in (add, edit, list_jobs, show, run, pause, resume, remove, history, export, import_jobs):
    command.add_command(each)
