import time
from contextlib import suppress
from typing import Any

import click

from relight.cli.options import (
    confirm,
    current_home,
    current_store,
    json_option,
    relight_command,
    yes_option,
)
from relight.errors import StoreError
from relight.store import Store


@relight_command("scheduler", example="relight scheduler --install")
@click.option("--once", is_flag=True, help="Run what is due now, and leave.")
@click.option("--max-parallel", type=click.IntRange(1, 64), metavar="N", help="Runs at a time.")
@click.option(
    "--install",
    is_flag=False,
    flag_value="auto",
    type=click.Choice(["auto", "systemd", "launchd"]),
    help="Have it start at every boot, and import --watch with it.",
)
@click.option("--remove", is_flag=True, help="Take away what --install made.")
@yes_option
@json_option
def command(
    once: bool,
    max_parallel: int | None,
    install: str | None,
    remove: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Run jobs when they are due, until stopped.

    Any number of schedulers may share a store: each slot of a job is run once. Interrupted once
    it ends with the last run, interrupted twice at once. With --json each run is a line of JSON
    when it has ended.
    """
    if install or remove:
        _install(install or "auto", remove=remove, yes=yes)
        return
    from relight.work.jobs.scheduler import Scheduler

    with current_store() as store:
        size = max_parallel or store.config.jobs.max_parallel

        def tell(kind: str, told: Any) -> None:
            # whoever listens may be gone, or the disk that it is written to be full: jobs go on
            with suppress(OSError, StoreError):
                _tell(store, kind, told, as_json=as_json)

        if not once:
            click.echo(f"running jobs of {store.config.home}, {size} at a time", err=True)
        Scheduler(store, max_parallel=size, tell=tell).run(once=once)


def _tell(store: Store, kind: str, told: Any, *, as_json: bool) -> None:
    match kind:
        case "done":
            _tell_run(store, told, as_json=as_json)
        case "lost":
            runs = "1 run" if told == 1 else f"{told} runs"
            click.echo(
                f"{runs} of a scheduler that ended are unknown: relight job history", err=True
            )
        case "stopping":
            click.echo("no more runs begin; interrupt again to end those that run", err=True)
        case "trouble":
            click.echo(f"error: {told}", err=True)


def _tell_run(store: Store, run_id: int, *, as_json: bool) -> None:
    from relight.reports.runs import read_run
    from relight.text import clean

    run = read_run(store, run_id)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(run).decode())
        return
    spent = "" if run["duration_seconds"] is None else f" {run['duration_seconds']:.1f} s"
    why = f": {run['evidence'][0]}" if run["outcome"] != "success" and run["evidence"] else ""
    moment = time.strftime("%H:%M:%S")
    click.echo(clean(f"{moment} {run['job']} {run['outcome']}{spent}{why}"))


def _install(kind: str, *, remove: bool, yes: bool) -> None:
    """Show the files that start Relight at boot, ask, and write them; or take them away."""
    from relight.config import find_home
    from relight.work.jobs.boot import find_kind, find_units, install_units, remove_units

    chosen = find_kind() if kind == "auto" else kind
    units = find_units(chosen, home=find_home(current_home()))
    if remove:
        there = [unit for unit in units if unit.path.exists()]
        if not there:
            click.echo("nothing is installed")
            return
        for unit in there:
            click.echo(f"remove {unit.path}", err=True)
        if not yes:
            confirm("Remove these?")
        for line in remove_units(chosen, there):
            click.echo(line)
        return
    for unit in units:
        click.echo(f"{unit.path}:\n\n{unit.text}", err=True)
    if not yes:
        confirm("Write these files and start what they say?")
    for line in install_units(chosen, units):
        click.echo(line)
