import click

from relight.cli.experiment_run import start, stop
from relight.cli.experiment_tables import print_experiments, print_holdout, print_paired
from relight.cli.options import (
    confirm,
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
    yes_option,
)


@relight_group("experiment", example="relight experiment report")
def command() -> None:
    """Find out whether warm starts help, or which of two models is better.

    Sessions are compared as they come: some are held out cold. To know sooner, run a list of tasks
    in both arms with `start`.
    """


@relight_command("report", example="relight experiment report --json")
@click.argument("name", required=False)
@click.option(
    "--template", metavar="NAME", help="Only sessions for which this template was chosen."
)
@click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="The gain that it is planned for.",
)
@json_option
def report(name: str | None, template: str | None, effect: float, as_json: bool) -> None:
    """Show the effect of warm starts, or the result of an experiment.

    Without NAME, sessions that started warm are compared with those held out cold: whole sessions,
    never single calls, in the arms they were dealt to, without what Relight put into them. The
    verdict is "not enough data" until enough outcomes are known. With NAME, the tasks of that
    experiment are compared pair by pair.
    """
    if name is not None:
        _report_pairs(name, as_json=as_json)
        return
    from relight.work.experiments.holdout import read_holdout

    with current_store() as store:
        found = read_holdout(store, template=template, effect=effect)
    if as_json:
        print_json(found)
    else:
        print_holdout(found, template)


def _report_pairs(name: str, *, as_json: bool) -> None:
    from relight.work.experiments.pairs import read_paired_report
    from relight.work.experiments.register import find_experiment

    with current_store() as store:
        found = read_paired_report(store, find_experiment(store, name))
    if as_json:
        print_json(found)
    else:
        print_paired(found)


@relight_command("list", example="relight experiment list --json")
@json_option
def list_experiments(as_json: bool) -> None:
    """List the experiments."""
    from relight.work.experiments import budget

    with current_store() as store:
        rows = budget.summarise_experiments(store)
    if as_json:
        print_json(budget.ExperimentList(rows))
    else:
        print_experiments(rows)


@relight_command("delete", example="relight experiment delete warm-1")
@click.argument("name")
@yes_option
def delete(name: str, yes: bool) -> None:
    """Delete an experiment; its sessions stay."""
    from relight.cli.screen import clean
    from relight.work.experiments.register import delete_experiment, find_experiment, now_ms

    with current_store() as store:
        find_experiment(store, name)
        if not yes:
            confirm(f"delete the experiment {clean(name)}?")
        delete_experiment(store, name, now=now_ms())
    click.echo(f"deleted {clean(name)}")


for sub in (report, start, stop, list_experiments, delete):
    command.add_command(sub)
