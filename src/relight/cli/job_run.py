"""The commands `job run` and `job retry`."""

import signal
import sys
from typing import TYPE_CHECKING

import click

from relight.cli.options import current_store, json_option, print_json, relight_command

if TYPE_CHECKING:
    from relight.store import Store
    from relight.store.queries.runs import RunReport


@relight_command("run", example="relight job run inbox")
@click.argument("name")
@json_option
def run(name: str, as_json: bool) -> None:
    """Run a job now, and print its result.

    The schedule stays as it is; a paused job runs too. Exit 1 if the run failed.
    """
    with current_store() as store:
        _run(store, name, as_json=as_json)


@relight_command("retry", example="relight job retry inbox@20261115T030000Z")
@click.argument("run_id")
@click.option("--anyway", is_flag=True, help="Also if it did not fail, or was asked to wait.")
@json_option
def retry(run_id: str, anyway: bool, as_json: bool) -> None:
    """Run the job of a failed run again, now, and print its result.

    The schedule stays as it is. Refused if the job has succeeded since, or if the other side asked
    to wait longer. Exit 1 if it fails again.
    """
    from relight.work.jobs.repeated import find_failed_run

    with current_store() as store:
        failed = find_failed_run(store, run_id, anyway=anyway)
        if failed.advice and not as_json:
            click.echo(failed.advice, err=True)
        _run(store, failed.job, note=f"retry of {failed.run_id}", as_json=as_json)


def _run(store: "Store", name: str, *, as_json: bool, note: str | None = None) -> None:
    """Run a job in this process, and print its result; exit 1 if it failed."""
    import msgspec

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
    if as_json:
        print_json(msgspec.structs.asdict(found) | {"answer": result.answer})
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
        unpriced = found.unpriced_turns or 0
        cost = screen.dollars(found.cost_usd, unpriced=unpriced, included=found.included_usd)
        figures += [cost, found.session_id]
    click.echo(" · ".join(figures), err=True)
    for line in (*found.evidence, *found.warnings):
        click.echo(f"  {screen.clean(line)}", err=True)
    if found.answer_file:
        click.echo(f"  answer in {found.answer_file}", err=True)
    delivery = found.delivery
    if delivery and delivery.status == "failed":
        line = f"not delivered to {delivery.to}: {delivery.error}"
        click.echo(f"  {screen.clean(line)}", err=True)
