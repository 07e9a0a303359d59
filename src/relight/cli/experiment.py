import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relight.cli import experiment_tables as tables
from relight.cli.options import (
    Answer,
    confirm,
    current_store,
    endpoint_options,
    name_option,
    relight_group,
    split_words,
    wants_json,
    yes_option,
)
from relight.errors import RelightError, as_typed
from relight.store import Store

if TYPE_CHECKING:
    from relight.work.experiments.conduct import TrialEvent
    from relight.work.experiments.plan import ExperimentPlan

WAIT_SECONDS = 0.3
# options that may change when an experiment continues
LIMITS = ("budget_usd", "budget_tokens")


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


@command.reading("report", example="relight experiment report --json")
@click.argument("name", required=False)
@click.option(
    "--template", metavar="NAME", help="Only sessions for which this template was chosen."
)
@click.option(
    "--plan", type=click.IntRange(1), metavar="N", help="An earlier plan (default: the present)."
)
@click.option("--effect", hidden=True, expose_value=False, callback=_refuse_effect)
def report(name: str | None, template: str | None, plan: int | None) -> Answer:
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
        yield from _report_pairs(name)
        return
    from relight.work.experiments.holdout import read_holdout

    with current_store() as store:
        found = read_holdout(store, template=template, plan=plan)
    yield found
    tables.print_holdout(found, template)


@command.plain("plan", example="relight experiment plan --measure success --effect 0.15")
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
def plan(**changes: Any) -> Answer:
    """Show how warm starts and lessons are compared, or change it for later sessions.

    The first session that is dealt to an arm begins with the default plan: both figures, 10 points
    of success, 3 points of early failures, 30 points of sessions that fail by the cause of a
    lesson, 5 wrong verdicts in 100. A changed plan begins a new
    comparison that counts only later sessions. `report --plan N` shows an earlier one.
    """
    from relight.warm.plans import WarmPlanList, change_plan, find_plan, read_warm_plans

    with current_store() as store:
        if any(value is not None for value in changes.values()):
            if find_plan(store).number is not None:
                confirm("begin a new comparison? it counts only sessions from now on")
            change_plan(store, **changes)
        plans = read_warm_plans(store)
    yield WarmPlanList(plans)
    tables.print_plans(plans)


def _report_pairs(name: str) -> Answer:
    from relight.work.experiments.pairs import read_paired_report
    from relight.work.experiments.register import find_experiment

    with current_store() as store:
        found = read_paired_report(store, find_experiment(store, name))
    yield found
    tables.print_paired(found)


@command.reading("list", example="relight experiment list --json")
def list_experiments() -> Answer:
    """List the experiments."""
    from relight.work.experiments import register

    with current_store() as store:
        rows = register.summarise_experiments(store)
    yield register.ExperimentList(rows)
    tables.print_experiments(rows)


@command.plain("delete", example="relight experiment delete warm-1")
@click.argument("name")
@yes_option
def delete(name: str) -> None:
    """Delete an experiment; its sessions stay."""
    from relight.cli.screen import clean
    from relight.work.experiments.register import delete_experiment, find_experiment, now_ms

    with current_store() as store:
        find_experiment(store, name)
        confirm(f"delete the experiment {clean(name)}?")
        delete_experiment(store, name, now=now_ms())
    click.echo(f"deleted {clean(name)}")


@command.plain("start", example="relight experiment start warm-1 --tasks tasks.toml --model m")
@click.argument("name")
@click.option(
    "--tasks", "file", type=click.Path(path_type=Path), metavar="FILE", help="The task list."
)
@click.option("--models", metavar="A,B", help="Compare two models instead of warm and cold.")
@click.option(
    "--runner", type=click.Choice(["chat", "command"]), help="Relight's agent, or a command."
)
@click.option("--command", metavar="ARGV", help="An agent's program, such as: claude -p")
@click.option("--shell", "use_shell", is_flag=True, help="The command is a shell line.")
@click.option("--model", metavar="M", help="The model (default: RELIGHT_MODEL).")
@endpoint_options
@click.option("--template", metavar="T", help="Start of the warm arm (default: auto).")
@click.option("--tools", metavar="T,…", help="Tools that the agent may use.")
@click.option(
    "--rounds", type=click.IntRange(1), help="Runs of each task in each arm (default: 1)."
)
@click.option("--timeout", "run_seconds", metavar="10m", help="Time limit of a run (default: 30m).")
@click.option(
    "--max-attempts", type=click.IntRange(1), help="Attempts of a run whose failure may pass."
)
@click.option("--budget-usd", type=float, metavar="X", help="Limit of cost of all runs.")
@click.option("--budget-tokens", type=int, metavar="N", help="Limit of tokens of all runs.")
@click.option("--in-place", is_flag=True, help="Work in the tasks' folders, not in copies.")
@click.option(
    "--measure",
    type=click.Choice(["success", "early_failures"]),
    help="What the verdict is about (default: success if a task has a check).",
)
def start(name: str, file: Path | None, **given: Any) -> Answer:
    """Run a list of tasks in both arms, or continue where it stopped.

    FILE has one task per line, or it is .jsonl, .json or .toml ([[task]]) with `prompt` and
    optionally `id`, `workdir`, `setup` and `check`: a command that exits with 0 if the task was
    done. Each run works in a fresh copy of its folder. Chance decides which arm runs first. A
    finished run is never repeated, also after a kill; to continue, give the NAME alone. With a
    budget it stops before a run that might exceed it; give a larger one to continue.
    """
    from relight.work.experiments.conduct import conduct
    from relight.work.experiments.pairs import read_paired_report

    with current_store() as store:
        _prepare(store, name, file, given)
        ended = conduct(store, name, on_event=None if wants_json() else _Progress(store, name))
        found = read_paired_report(store, ended)
    yield found
    tables.print_paired(found)
    if ended.status != "done":
        click.echo(as_typed(f"to continue: relight experiment start {shlex.quote(name)}"), err=True)


def _prepare(store: "Store", name: str, file: Path | None, given: Mapping[str, Any]) -> None:
    """Add the experiment, or check that it exists."""
    from relight.work.experiments.register import (
        add_experiment,
        change_limits,
        find_experiment,
        now_ms,
    )

    if file is not None:
        add_experiment(store, name, _read_plan(file, given), now=now_ms())
        return
    find_experiment(store, name)
    fixed = [
        key for key, value in given.items() if value not in (None, False, ()) and key not in LIMITS
    ]
    if fixed:
        option = name_option(start, fixed[0])
        raise click.UsageError(f"{option} needs --tasks: a plan cannot change later")
    if any(given[limit] is not None for limit in LIMITS):
        change_limits(store, name, **{limit: given[limit] for limit in LIMITS})


def _read_plan(file: Path, given: Mapping[str, Any]) -> "ExperimentPlan":
    import os

    from relight.work.experiments.plan import COLD, WARM, ExperimentPlan, read_tasks
    from relight.work.jobs.schedules import read_span

    arms = split_words(given["models"]) if given["models"] else [COLD, WARM]
    words: list[str] = []
    if given["command"]:
        try:
            words = [given["command"]] if given["use_shell"] else shlex.split(given["command"])
        except ValueError as error:
            raise RelightError(f"the command cannot be read: {error}", "check its quotes") from None
    fields: dict[str, Any] = {
        "model": given["model"] or os.environ.get("RELIGHT_MODEL"),
        "runner": given["runner"] or ("command" if words else None),
        "run_seconds": read_span(given["run_seconds"]) if given["run_seconds"] else None,
        "tools": split_words(given["tools"]) if given["tools"] else None,
        "pass_variables": list(given["pass_variables"]),
    }
    names = ("base_url", "key_variable", "template", "rounds", "max_attempts", "measure", *LIMITS)
    fields |= {key: given[key] for key in (*names, "use_shell", "in_place")}
    known = {key: value for key, value in fields.items() if value is not None}
    return ExperimentPlan(tasks=read_tasks(file), arms=arms, command=words, **known)


class _Progress:
    """Prints a line per run on standard error."""

    def __init__(self, store: "Store", name: str) -> None:
        from relight.store.experiments import read_trial_runs
        from relight.work.experiments.register import find_experiment

        found = find_experiment(store, name)
        self.planned = 2 * found.plan.planned_pairs
        self.done = sum(run.is_settled for run in read_trial_runs(store, found.id))

    def __call__(self, event: "TrialEvent") -> None:
        from relight.text import clean, dollars, seconds

        what, result = f"{clean(event.task)} {clean(event.arm)}", event.record
        if result is None:
            if sys.stderr.isatty():
                click.echo(f"[{self.done + 1}/{self.planned}] {what} …", err=True)
            return
        self.done += 1
        if result.status == "skipped":
            text = f"skipped: {result.evidence[0]}"
        else:
            nanos, took = result.cost_nanos, (result.duration_ms or 0) / 1000
            time_taken, cost = seconds(took), dollars(None if nanos is None else nanos / 1e9)
            text = f"{result.outcome}, {time_taken}, {cost}"
            if result.outcome != "success" and result.evidence:
                text += f" ({clean(result.evidence[0])[:100]})"
        click.echo(f"[{self.done}/{self.planned}] {what}: {text}", err=True)


@command.plain("stop", example="relight experiment stop warm-1")
@click.argument("name")
@click.option("--now", "at_once", is_flag=True, help="Interrupt the current run.")
def stop(name: str, at_once: bool) -> Answer:
    """Stop an experiment that another process runs, after its current run.

    `relight experiment start NAME` continues it later; an interrupted run then starts again.
    """
    from relight.store.experiments import read_trial_runs
    from relight.work.experiments.register import (
        StoppedExperiment,
        ask_stop,
        find_experiment,
        is_running,
        now_ms,
    )

    with current_store() as store:
        was_running = ask_stop(store, name, at_once=at_once, now=now_ms())
        if was_running and not wants_json():
            wait = "" if at_once else " after its current run; --now interrupts it"
            click.echo(f"{name} is asked to stop{wait}", err=True)
        while is_running(store, found := find_experiment(store, name), now=now_ms()):
            time.sleep(WAIT_SECONDS)
        done = sum(run.status == "done" for run in read_trial_runs(store, found.id))
    planned = 2 * found.plan.planned_pairs
    yield StoppedExperiment(found.name, was_running, found.status, found.note, done, planned)
    state = "has stopped" if was_running else "is not running"
    click.echo(f"{found.name} {state}: {done} of {planned} runs are done")
