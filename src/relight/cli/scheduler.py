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
    wants_json,
    yes_option,
)
from relight.config import find_home
from relight.errors import StoreError, as_typed
from relight.store import Store
from relight.text import clean, plural


@relight_command("scheduler", example="relight scheduler --install")
@click.option("--once", is_flag=True, help="Run the jobs that are due now, and exit.")
@click.option("--max-parallel", type=click.IntRange(1, 64), metavar="N", help="Parallel runs.")
@click.option(
    "--install",
    is_flag=False,
    flag_value="auto",
    type=click.Choice(["auto", "systemd", "launchd"]),
    help="Start it, and import --watch, at every boot.",
)
@click.option("--remove", is_flag=True, help="Remove what --install wrote.")
@yes_option
@json_option
def command(
    once: bool,
    max_parallel: int | None,
    install: str | None,
    remove: bool,
) -> None:
    """Run jobs when they are due, until stopped.

    Any number of schedulers may share a store: each slot of a job runs once. Interrupted once, it
    ends after the last run; interrupted twice, at once. With --json it prints a line of JSON for
    each run that has ended.
    """
    if install or remove:
        _install(install or "auto", remove=remove)
        return
    from relight.work.jobs.scheduler import Scheduler
    from relight.work.kernel import hide_memory

    hide_memory()  # its environment holds the keys of all runs
    with current_store() as store:
        size = max_parallel or store.config.jobs.max_parallel

        def report(kind: str, value: Any) -> None:
            # jobs go on if the output is closed or the disk is full
            with suppress(OSError, StoreError):
                _print_event(store, kind, value)

        if not once:
            click.echo(f"running jobs of {store.config.home}, {size} at a time", err=True)
        Scheduler(store, max_parallel=size, report=report).run(once=once)


def _print_event(store: Store, kind: str, value: Any) -> None:
    match kind:
        case "done":
            _print_run(store, value)
        case "lost":
            hint = as_typed(
                f"{plural(value, 'run')} of an ended scheduler set to unknown: relight job history"
            )
            click.echo(hint, err=True)
        case "stopping":
            click.echo("no more runs begin; interrupt again to end the open ones", err=True)
        case "trouble":
            click.echo(f"error: {value}", err=True)


def _print_run(store: Store, run_id: int) -> None:
    from relight.store.queries.runs import read_own_run

    run = read_own_run(store, run_id)
    if wants_json():
        import msgspec

        click.echo(msgspec.json.encode(run).decode())
        return
    spent = "" if run.duration_seconds is None else f" {run.duration_seconds:.1f} s"
    why = f": {run.evidence[0]}" if run.outcome != "success" and run.evidence else ""
    moment = time.strftime("%H:%M:%S")
    click.echo(clean(f"{moment} {run.job} {run.outcome}{spent}{why}"))


def _install(kind: str, *, remove: bool) -> None:
    """Show the service files, ask, and write them; or remove them."""
    from relight.work.jobs.boot import find_service_manager, find_units, install_units, remove_units

    chosen = find_service_manager() if kind == "auto" else kind
    units = find_units(chosen, home=find_home(current_home()))
    if remove:
        there = [unit for unit in units if unit.path.exists()]
        if not there:
            click.echo("nothing is installed")
            return
        for unit in there:
            click.echo(f"remove {unit.path}", err=True)
        confirm("Remove these?")
        for line in remove_units(chosen, there):
            click.echo(line)
        return
    for unit in units:
        click.echo(f"{unit.path}:\n\n{unit.text}", err=True)
    confirm("Write these files and start the services?")
    for line in install_units(chosen, units):
        click.echo(line)
