import time
from pathlib import Path

import click

from relight.cli.options import (
    confirm,
    current_store,
    json_option,
    print_json,
    relight_command,
    yes_option,
)


@relight_command("export", example="relight job export > jobs.toml")
@click.argument("names", nargs=-1)
@json_option
def export(names: tuple[str, ...], as_json: bool) -> None:
    """Print jobs as TOML, all or those named, to keep or to take elsewhere."""
    import msgspec

    from relight.work.jobs.registry import find_job, find_paused, read_own_jobs
    from relight.work.jobs.sharing import write_tables

    with current_store() as store:
        jobs = [find_job(store, name) for name in names] or read_own_jobs(store)
        paused = find_paused(store)
    if as_json:
        told = [{**msgspec.to_builtins(job), "paused": job.name in paused} for job in jobs]
        print_json({"jobs": told})
    else:
        click.echo(write_tables(jobs, paused=paused), nl=False)


@relight_command("import", example="relight job import jobs.toml --replace")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Also those that are there already.")
@yes_option
@json_option
def import_jobs(file: Path, replace: bool, yes: bool, as_json: bool) -> None:
    """Add the jobs in a TOML file, after showing what they would do.

    All are checked before the first is added. Jobs whose one time has passed are left out.
    """
    from relight.cli import screen
    from relight.work.jobs.registry import add_jobs, is_past
    from relight.work.jobs.sharing import read_tables, write_tables
    from relight.work.jobs.view import describe_job

    now = int(time.time() * 1000)
    with current_store() as store:
        found, paused = read_tables(store, file)
        jobs = [job for job in found if not is_past(store, job, now=now)]
        for name in sorted({job.name for job in found} - {job.name for job in jobs}):
            click.echo(f"left out {name}: its time has passed", err=True)
        if not yes:
            click.echo(screen.clean_lines(write_tables(jobs, paused=paused)), err=True)
            confirm(f"Add {len(jobs)} jobs?")
        add_jobs(store, jobs, now=now, replace=replace, paused=paused)
        told = [describe_job(store, job.name, now=now) for job in jobs]
    if as_json:
        print_json({"jobs": told})
        return
    for one in told:
        state = ", paused" if one["state"] == "paused" else ""
        click.echo(f"added {one['name']}: {one['schedule_words']} ({one['timezone']}){state}")
