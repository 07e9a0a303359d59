import click

from relight.cli.job import run_and_print
from relight.cli.options import current_store, json_option, relight_command


@relight_command("retry", example="relight job retry inbox@20261115T030000Z")
@click.argument("run_id")
@click.option("--anyway", is_flag=True, help="Also if it did not fail, or was asked to wait.")
@json_option
def retry(run_id: str, anyway: bool, as_json: bool) -> None:
    """Run the job of a failed run again, now, and print its result.

    The schedule stays as it is. Refused if the job has succeeded since, or if the other side asked
    to wait longer. Exit 1 if it fails again.
    """
    from relight.work.jobs.claimed_run import find_failed_run

    with current_store() as store:
        failed = find_failed_run(store, run_id, anyway=anyway)
        if failed.advice and not as_json:
            click.echo(failed.advice, err=True)
        run_and_print(store, failed.job, note=f"retry of {failed.run_id}", as_json=as_json)
