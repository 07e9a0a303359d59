"""Commands that start, continue and stop an experiment."""

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import (
    current_store,
    endpoint_options,
    json_option,
    name_option,
    print_json,
    relight_command,
    split_words,
)
from relight.errors import RelightError, as_typed

if TYPE_CHECKING:
    from relight.store import Store
    from relight.work.experiments.conduct import TrialEvent
    from relight.work.experiments.plan import ExperimentPlan
    from relight.work.experiments.register import Experiment

WAIT_SECONDS = 0.3
# options that may change when an experiment continues
LIMITS = ("budget_usd", "budget_tokens")


@relight_command("start", example="relight experiment start warm-1 --tasks tasks.toml --model m")
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
@json_option
def start(name: str, file: Path | None, as_json: bool, **given: Any) -> None:
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
        ended = conduct(store, name, on_event=None if as_json else _Progress(store, name))
        found = read_paired_report(store, ended)
    if as_json:
        print_json(found)
        return
    from relight.cli.experiment_tables import print_paired

    print_paired(found)
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

        what, result = f"{clean(event.task)} {clean(event.arm)}", event.result
        if result is None:
            if sys.stderr.isatty():
                click.echo(f"[{self.done + 1}/{self.planned}] {what} …", err=True)
            return
        self.done += 1
        if result.status == "skipped":
            text = f"skipped: {result.why}"
        else:
            time_taken, cost = seconds(result.duration_seconds), dollars(result.cost_usd)
            text = f"{result.outcome}, {time_taken}, {cost}"
            if result.outcome != "success" and result.evidence:
                text += f" ({clean(result.evidence[0])[:100]})"
        click.echo(f"[{self.done}/{self.planned}] {what}: {text}", err=True)


@relight_command("stop", example="relight experiment stop warm-1")
@click.argument("name")
@click.option("--now", "at_once", is_flag=True, help="Interrupt the current run.")
@json_option
def stop(name: str, at_once: bool, as_json: bool) -> None:
    """Stop an experiment that another process runs, after its current run.

    `relight experiment start NAME` continues it later; an interrupted run then starts again.
    """
    from relight.store.experiments import read_trial_runs
    from relight.work.experiments.register import (
        ask_stop,
        find_experiment,
        is_running,
        now_ms,
    )

    with current_store() as store:
        was_running = ask_stop(store, name, at_once=at_once, now=now_ms())
        if was_running and not as_json:
            wait = "" if at_once else " after its current run; --now interrupts it"
            click.echo(f"{name} is asked to stop{wait}", err=True)
        while is_running(store, found := find_experiment(store, name), now=now_ms()):
            time.sleep(WAIT_SECONDS)
        done = sum(run.status == "done" for run in read_trial_runs(store, found.id))
    _print_stopped(found, done, was_running=was_running, as_json=as_json)


def _print_stopped(found: "Experiment", done: int, *, was_running: bool, as_json: bool) -> None:
    planned = 2 * found.plan.planned_pairs
    if as_json:
        print_json(
            {
                "name": found.name,
                "was_running": was_running,
                "status": found.status,
                "note": found.note,
                "runs_done": done,
                "runs_planned": planned,
            }
        )
        return
    state = "has stopped" if was_running else "is not running"
    click.echo(f"{found.name} {state}: {done} of {planned} runs are done")
