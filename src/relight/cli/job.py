import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relight.cli.options import (
    Answer,
    confirm,
    current_store,
    json_option,
    print_json,
    relight_group,
    wants_json,
    yes_option,
)
from relight.errors import as_typed
from relight.store import Store

if TYPE_CHECKING:
    from relight.store.queries.runs import RunReport


@relight_group("job", example='relight job add inbox --schedule "daily 07:00" --prompt "…"')
def command() -> None:
    """Schedule agent work, and see the outcome of each run.

    `relight scheduler` runs the jobs that are due. Jobs of other agents' schedulers are listed too,
    as `source:id`. A run's outcome comes from exit codes, scripts, the answer and the session,
    never from how the session was closed.
    """


@command.reading("list", example="relight job list --json")
def list_jobs() -> Answer:
    """List the jobs with their last outcome."""
    from relight.reports.runs import JobList
    from relight.work.jobs import registry
    from relight.work.jobs.leases import find_alive
    from relight.work.jobs.lost_runs import settle_lost

    with current_store() as store:
        settle_lost(store)
        jobs, zone = registry.list_jobs(store), store.timezone
        is_run = bool(find_alive(store.config.home))
    yield JobList(jobs)
    if not jobs:
        hint = (
            "there are no jobs; `relight job add --help` shows how to add one,"
            " and `relight import` reads those of other agents"
        )
        click.echo(as_typed(hint))
        return
    from relight.cli.job_tables import print_jobs

    print_jobs(jobs, zone)
    is_needed = any(job.runner and job.place is None and job.state == "scheduled" for job in jobs)
    if is_needed and not is_run:
        click.echo(as_typed("no scheduler is running: start it with `relight scheduler`"), err=True)


@command.reading("show", example="relight job show inbox")
@click.argument("name")
def show(name: str) -> Answer:
    """Show one job: its settings, its next times and its last runs."""
    from relight.work.jobs.lost_runs import settle_lost
    from relight.work.jobs.registry import describe_job

    with current_store() as store:
        settle_lost(store)
        job, zone = describe_job(store, name, now=current_ms()), store.timezone
    yield job

    from relight.cli.job_tables import print_job

    print_job(job, zone)


@command.plain("pause", example="relight job pause inbox")
@click.argument("name")
def pause(name: str) -> Answer:
    """Begin no more runs of a job until it is resumed."""
    from relight.work.jobs.registry import JobChange, pause_job

    with current_store() as store:
        pause_job(store, name)
    yield JobChange(name, "paused")
    click.echo(as_typed(f"{name} is paused: relight job resume {name}"))


@command.plain("resume", example="relight job resume inbox")
@click.argument("name")
def resume(name: str) -> Answer:
    """Resume a paused job from its next time on."""
    from relight.times import format_moment
    from relight.work.jobs.registry import JobChange, find_job, resume_job

    with current_store() as store:
        due = resume_job(store, name, now=current_ms())
        zone = find_job(store, name).timezone or store.timezone
    yield JobChange(name, "scheduled")
    click.echo(f"{name} is resumed: {format_moment(due, zone)}")


@command.plain("remove", example="relight job remove inbox --yes")
@click.argument("name")
@yes_option
def remove(name: str) -> Answer:
    """Remove a job; its history stays."""
    from relight.work.jobs.registry import JobChange, find_job, remove_job

    with current_store() as store:
        find_job(store, name)
        confirm(f"Remove the job {name}?")
        remove_job(store, name)
    yield JobChange(name, "removed")
    click.echo(f"{name} is removed; its history stays")


@command.plain("export", example="relight job export > jobs.toml")
@click.argument("names", nargs=-1)
def export(names: tuple[str, ...]) -> Answer:
    """Print jobs as TOML, all or those named, for backup or another machine."""
    from msgspec.structs import asdict

    from relight.work.jobs.registry import find_job, find_paused, read_own_jobs
    from relight.work.jobs.toml_tables import ExportedJob, ExportedJobs, write_tables

    with current_store() as store:
        jobs = [find_job(store, name) for name in names] or read_own_jobs(store)
        paused = find_paused(store)
    yield ExportedJobs([ExportedJob(**asdict(job), paused=job.name in paused) for job in jobs])
    click.echo(write_tables(jobs, paused=paused), nl=False)


@command.plain("import", example="relight job import jobs.toml --replace")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace existing jobs of the same name.")
@yes_option
def import_jobs(file: Path, replace: bool) -> Answer:
    """Add the jobs in a TOML file, after showing them.

    All are checked before the first is added. Jobs whose only time has passed are left out.
    """
    from relight.cli import screen
    from relight.text import plural
    from relight.work.jobs.registry import JobDescriptions, add_jobs, describe_job, is_past
    from relight.work.jobs.toml_tables import read_tables, write_tables

    now = current_ms()
    with current_store() as store:
        found, paused = read_tables(store, file)
        jobs = [job for job in found if not is_past(store, job, now=now)]
        for name in sorted({job.name for job in found} - {job.name for job in jobs}):
            click.echo(f"left out {name}: its time has passed", err=True)
        preview = screen.clean_lines(write_tables(jobs, paused=paused))
        confirm(f"Add {plural(len(jobs), 'job')}?", preview=preview)
        add_jobs(store, jobs, now=now, replace=replace, paused=paused)
        added = [describe_job(store, job.name, now=now) for job in jobs]
    yield JobDescriptions(added)
    for one in added:
        state = ", paused" if one.state == "paused" else ""
        click.echo(f"added {one.name}: {one.schedule_words} ({one.timezone}){state}")


@command.plain("run", example="relight job run inbox")
@click.argument("name")
@json_option
def run(name: str) -> None:
    """Run a job now, and print its result.

    The schedule stays as it is; a paused job runs too. Exit 1 if the run failed.
    """
    with current_store() as store:
        run_and_print(store, name)


@command.plain("retry", example="relight job retry inbox@20261115T030000Z")
@click.argument("run_id")
@click.option("--anyway", is_flag=True, help="Also if it did not fail, or was asked to wait.")
@json_option
def retry(run_id: str, anyway: bool) -> None:
    """Run the job of a failed run again, now, and print its result.

    The schedule stays as it is. Refused if the job has succeeded since, or if the other side asked
    to wait longer. Exit 1 if it fails again.
    """
    from relight.work.jobs.claimed_run import find_failed_run

    with current_store() as store:
        failed = find_failed_run(store, run_id, anyway=anyway)
        if failed.advice and not wants_json():
            click.echo(failed.advice, err=True)
        run_and_print(store, failed.job, note=f"retry of {failed.run_id}")


def run_and_print(store: "Store", name: str, *, note: str | None = None) -> None:
    """Run a job in this process, and print its result; exit 1 if it failed."""
    from msgspec.structs import asdict

    from relight.reports.runs import AnsweredRun
    from relight.store.queries.runs import read_own_run
    from relight.work.jobs.claimed_run import run_now
    from relight.work.jobs.leases import Holder
    from relight.work.jobs.run import execute_run
    from relight.work.processes import own_children

    if click.get_current_context().obj:
        own_children()
    # an ended run cleans up, and records that it was ended
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with Holder(store.config.home) as holder:
        begun, result = run_now(store, name, holder=holder.name, execute=execute_run, note=note)
        found = read_own_run(store, begun.id)
    if wants_json():
        print_json(AnsweredRun(**asdict(found), answer=result.answer))
    else:
        _print_result(found, result.answer)
    if result.outcome == "failure":
        click.get_current_context().exit(1)


def _print_result(found: "RunReport", answer: str | None) -> None:
    from relight.cli import screen

    if answer:
        click.echo(screen.clean_lines(answer))
    figures = [found.run_id, f"outcome {found.outcome}"]
    figures.append(screen.seconds(found.duration_seconds))
    if found.session_id:
        figures += [screen.format_cost(found), found.session_id]
    click.echo(" · ".join(figures), err=True)
    for line in (*found.evidence, *found.warnings):
        click.echo(f"  {screen.clean(line)}", err=True)
    if found.answer_file:
        click.echo(f"  answer in {found.answer_file}", err=True)
    delivery = found.delivery
    if delivery and delivery.status == "failed":
        line = f"not delivered to {delivery.to}: {delivery.error}"
        click.echo(f"  {screen.clean(line)}", err=True)


def current_ms() -> int:
    return int(time.time() * 1000)


command.more = {
    "add": "job_add",
    "edit": "job_add",
    "compare": "comparison",
    "history": "job_history",
    "canary": "job_canary",
}
