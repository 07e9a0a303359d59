from typing import Any

import click

from relight.cli.experiment_run import start, stop
from relight.cli.experiment_tables import (
    print_experiments,
    print_holdout,
    print_paired,
    print_plans,
)
from relight.cli.options import (
    confirm,
    current_store,
    json_option,
    print_json,
    reading_command,
    relight_command,
    relight_group,
    yes_option,
)
from relight.errors import RelightError


@relight_group("experiment", example="relight experiment report")
def command() -> None:
    """Find out whether warm starts help, or which of two models is better.

    Sessions are compared as they come: some are held out cold. To know sooner, run a list of tasks
    in both arms with `start`.
    """


def _refuse_effect(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Raise for `report --effect`: an effect chosen after a look would decide the verdict."""
    if value is not None:
        raise RelightError(
            "report has no --effect: the planned effect is fixed before the sessions are seen",
            "`relight experiment plan --effect X` begins a new comparison with later sessions",
        )


@reading_command("report", example="relight experiment report --json")
@click.argument("name", required=False)
@click.option(
    "--template", metavar="NAME", help="Only sessions for which this template was chosen."
)
@click.option(
    "--plan", type=click.IntRange(1), metavar="N", help="An earlier plan (default: the present)."
)
@click.option("--effect", hidden=True, expose_value=False, callback=_refuse_effect)
@json_option
def report(name: str | None, template: str | None, plan: int | None, as_json: bool) -> None:
    """Show the effect of warm starts and lessons, or the result of an experiment.

    Without NAME, sessions that started warm are compared with those held out cold: whole sessions,
    never single calls, in the arms they were dealt to, without what Relight put into them. The
    verdict follows the plan that was written before these sessions (`relight experiment plan`). It
    holds however often you look. Sessions that began with the lessons of their project are compared
    with those held out from lessons, which chance deals apart. With NAME, the tasks of that
    experiment are compared pair by pair, once all of them are done.
    """
    if name is not None:
        if template is not None or plan is not None:
            raise click.UsageError("--template and --plan are for warm starts, without NAME")
        _report_pairs(name, as_json=as_json)
        return
    from relight.work.experiments.holdout import read_holdout

    with current_store() as store:
        found = read_holdout(store, template=template, plan=plan)
    if as_json:
        print_json(found)
    else:
        print_holdout(found, template)


@relight_command("plan", example="relight experiment plan --measure success --effect 0.15")
@click.option(
    "--measure",
    type=click.Choice(["success", "early_failures", "both"]),
    help="What is compared: outcomes, failures in the first 30 calls, or both.",
)
@click.option(
    "--effect", type=float, metavar="X", help="Planned gain in success: 0.1 is 10 points."
)
@click.option(
    "--early-effect", type=float, metavar="X", help="Planned fall of early failures, such as 0.03."
)
@click.option(
    "--cause-effect",
    type=float,
    metavar="X",
    help="Planned fall of failures by the causes of lessons, such as 0.3.",
)
@click.option(
    "--error", type=float, metavar="X", help="Wrong verdicts accepted without an effect: 0.05."
)
@yes_option
@json_option
def plan(yes: bool, as_json: bool, **changes: Any) -> None:
    """Show how warm starts and lessons are compared, or change it for later sessions.

    The first session that is dealt to an arm begins with the default plan: both figures, 10 points
    of success, 3 points of early failures, 30 points of sessions that fail by the cause of a
    lesson, 5 wrong verdicts in 100. A changed plan begins a new
    comparison that counts only later sessions. `report --plan N` shows an earlier one.
    """
    from relight.warm.plans import WarmPlanList, change_plan, find_plan, read_warm_plans

    with current_store() as store:
        if any(value is not None for value in changes.values()):
            if not yes and find_plan(store).number is not None:
                confirm("begin a new comparison? it counts only sessions from now on")
            change_plan(store, **changes)
        plans = read_warm_plans(store)
    if as_json:
        print_json(WarmPlanList(plans))
    else:
        print_plans(plans)


def _report_pairs(name: str, *, as_json: bool) -> None:
    from relight.work.experiments.pairs import read_paired_report
    from relight.work.experiments.register import find_experiment

    with current_store() as store:
        found = read_paired_report(store, find_experiment(store, name))
    if as_json:
        print_json(found)
    else:
        print_paired(found)


@reading_command("list", example="relight experiment list --json")
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


for sub in (report, plan, start, stop, list_experiments, delete):
    command.add_command(sub)
