import signal
import sys
from typing import Any

import click

from relight.cli.options import current_store, json_option, print_json, relight_command


@relight_command("run", example="relight job run inbox")
@click.argument("name")
@json_option
def run(name: str, as_json: bool) -> None:
    """Run a job now, and print what came of it.

    The schedule goes on as before; a paused job is run too. Exit 1 if the run failed.
    """
    from relight.reports.runs import read_run
    from relight.work.jobs.claimed_run import run_now
    from relight.work.jobs.leases import Holder
    from relight.work.jobs.run import execute_run

    # told to end, a run puts its things away and says that it was
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with current_store() as store, Holder(store.config.home) as holder:
        begun, result = run_now(store, name, holder=holder.name, execute=execute_run)
        told = read_run(store, begun.id)
    if as_json:
        print_json(told | {"answer": result.answer})
    else:
        _print_result(told, result.answer)
    if result.outcome == "failure":
        click.get_current_context().exit(1)


def _print_result(told: dict[str, Any], answer: str | None) -> None:
    from relight.cli import screen

    if answer:
        click.echo(screen.clean_lines(answer))
    figures = [told["run_id"], f"outcome {told['outcome']}"]
    figures.append(screen.seconds(told["duration_seconds"]))
    if told["session_id"]:
        cost = screen.dollars(told["cost_usd"], unpriced=told["unpriced_turns"] or 0)
        figures += [cost, told["session_id"]]
    click.echo(" · ".join(figures), err=True)
    for line in (*told["evidence"], *told["warnings"]):
        click.echo(f"  {screen.clean(line)}", err=True)
    if told["answer_file"]:
        click.echo(f"  answer kept in {told['answer_file']}", err=True)
    delivery = told["delivery"]
    if delivery and delivery["status"] == "failed":
        line = f"not delivered to {delivery['to']}: {delivery['error']}"
        click.echo(f"  {screen.clean(line)}", err=True)
