"""The command `job compare`."""

import click

from relight.cli.comparison import (
    comparison_options,
    print_comparison,
    print_job_comparisons,
)
from relight.cli.options import current_store, json_option, print_json, reading_command


@reading_command("compare", example="relight job compare inbox --models opus,haiku")
@click.argument("name", required=False)
@click.option("--all", "is_all", is_flag=True, help="Every job that ran on two models or more.")
@comparison_options
@json_option
def compare(
    name: str | None, is_all: bool, models: list[str] | None, margin: float, as_json: bool
) -> None:
    """Show whether a cheaper model is good enough for a job.

    Compares the models that ran it, whatever skills they used; jobs of other schedulers too.
    """
    from relight.reports.comparison.models import compare_job, compare_jobs
    from relight.work.jobs.lost_runs import settle_lost

    if is_all is (name is not None):
        raise click.UsageError("name one job, or give --all")
    if is_all and models:
        raise click.UsageError("--models goes with one job")
    with current_store() as store:
        settle_lost(store)
        if name is None:
            every = compare_jobs(store, margin=margin)
            if as_json:
                print_json(every)
            elif every.jobs:
                print_job_comparisons(every)
            else:
                click.echo("no job ran on two models with known outcomes")
            return
        found = compare_job(store, name, models=models, margin=margin)
    if as_json:
        print_json(found)
    else:
        print_comparison(found)
