"""Starting an experiment, going on with it, and stopping it."""

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import (
    current_store,
    json_option,
    name_option,
    print_json,
    relight_command,
    split_words,
)
from relight.errors import RelightError

if TYPE_CHECKING:
    from relight.store import Store
    from relight.work.experiments.plan import Plan
    from relight.work.experiments.register import Experiment

WAIT_SECONDS = 0.3
# what may be given again when an experiment goes on
LIMITS = ("budget_usd", "budget_tokens")


@relight_command("start", example="relight experiment start warm-1 --tasks tasks.toml --model m")
@click.argument("name")
@click.option(
    "--tasks", "file", type=click.Path(path_type=Path), metavar="FILE", help="The list of tasks."
)
@click.option("--models", metavar="A,B", help="Compare two models, in place of warm and cold.")
@click.option("--runner", type=click.Choice(["chat", "command"]), help="Who does the work.")
@click.option("--command", metavar="ARGV", help="An agent's program, such as: claude -p")
@click.option("--shell", "use_shell", is_flag=True, help="The command is a line for the shell.")
@click.option("--model", metavar="M", help="The model (else RELIGHT_MODEL).")
@click.option("--base-url", metavar="URL", help="Any OpenAI-compatible endpoint.")
@click.option("--key-variable", metavar="NAME", help="The variable that holds the endpoint's key.")
@click.option("--template", metavar="T", help="What the warm arm begins with (else auto).")
@click.option("--tools", metavar="T,…", help="The tools that the agent may use.")
@click.option("--rounds", type=click.IntRange(1), help="How often each task is run (else once).")
@click.option("--timeout", "run_seconds", metavar="10m", help="How long a run may take (else 30m).")
@click.option("--max-attempts", type=click.IntRange(1), help="Tries, if trying again can help.")
@click.option("--budget-usd", type=float, metavar="X", help="What all runs may cost together.")
@click.option("--budget-tokens", type=int, metavar="N", help="The tokens of all runs together.")
@click.option("--in-place", is_flag=True, help="Work in the tasks' folders, not in copies.")
@json_option
def start(name: str, file: Path | None, as_json: bool, **given: Any) -> None:
    """Run a list of tasks in both arms, or go on where it stopped.

    FILE has one task a line; or it is .jsonl, .json or .toml ([[task]]) with `prompt` and, as
    needed, `id`, `workdir`, `setup` and `check`: a command that exits with 0 if the task was done.
    Each run works in a fresh copy of its folder. Which arm comes first is dealt by chance. A run
    that is done is never done again, also after a kill; to go on, give the NAME alone. With a
    budget it stops before a run that might exceed it; a larger one may be given to go on.
    """
    from relight.work.experiments.conduct import conduct
    from relight.work.experiments.pairs import as_json as to_json
    from relight.work.experiments.pairs import read_paired_report

    with current_store() as store:
        _prepare(store, name, file, given)
        ended = conduct(store, name, on_event=None if as_json else _Progress(store, name))
        found = read_paired_report(store, ended)
    if as_json:
        print_json(to_json(found))
        return
    from relight.cli.experiment_tables import print_paired

    print_paired(found)
    if ended.status != "done":
        click.echo(f"to go on: relight experiment start {shlex.quote(name)}", err=True)


def _prepare(store: "Store", name: str, file: Path | None, given: Mapping[str, Any]) -> None:
    """Make the experiment, or see that it is there to go on with."""
    from relight.work.experiments.register import add_experiment, change_limits, find_experiment

    if file is not None:
        add_experiment(store, name, _read_plan(file, given), now=int(time.time() * 1000))
        return
    find_experiment(store, name)
    told = [key for key, value in given.items() if value not in (None, False) and key not in LIMITS]
    if told:
        option = name_option(start, told[0])
        raise click.UsageError(f"{option} goes with --tasks: an experiment goes on as it began")
    if any(given[limit] is not None for limit in LIMITS):
        change_limits(store, name, **{limit: given[limit] for limit in LIMITS})


def _read_plan(file: Path, given: Mapping[str, Any]) -> "Plan":
    import os

    from relight.work.experiments.plan import COLD, WARM, Plan
    from relight.work.experiments.tasks import read_tasks
    from relight.work.jobs.schedules import read_span

    arms = split_words(given["models"]) if given["models"] else [COLD, WARM]
    words: list[str] = []
    if given["command"]:
        try:
            words = [given["command"]] if given["use_shell"] else shlex.split(given["command"])
        except ValueError as error:
            raise RelightError(f"the command cannot be read: {error}", "mind its quotes") from None
    fields: dict[str, Any] = {
        "model": given["model"] or os.environ.get("RELIGHT_MODEL"),
        "runner": given["runner"] or ("command" if words else None),
        "run_seconds": read_span(given["run_seconds"]) if given["run_seconds"] else None,
        "tools": split_words(given["tools"]) if given["tools"] else None,
    }
    names = ("base_url", "key_variable", "template", "rounds", "max_attempts", *LIMITS)
    fields |= {key: given[key] for key in (*names, "use_shell", "in_place")}
    told = {key: value for key, value in fields.items() if value is not None}
    return Plan(tasks=read_tasks(file), arms=arms, command=words, **told)


class _Progress:
    """Tells what goes on, a line a run, on standard error."""

    def __init__(self, store: "Store", name: str) -> None:
        from relight.work.experiments.register import find_experiment, read_runs

        found = find_experiment(store, name)
        self.planned = 2 * found.plan.planned_pairs
        runs = read_runs(store, found.id)
        self.done = sum(run.status in ("done", "skipped") for run in runs)

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        from relight.text import clean, dollars, seconds

        what = f"{clean(facts['task'])} {clean(facts['arm'])}"
        if kind == "begun":
            if sys.stderr.isatty():
                click.echo(f"[{self.done + 1}/{self.planned}] {what} …", err=True)
            return
        self.done += 1
        if facts["status"] == "skipped":
            click.echo(f"[{self.done}/{self.planned}] {what}: left out: {facts['why']}", err=True)
            return
        told = f"{facts['outcome']}, {seconds(facts['duration_seconds'])}"
        told += f", {dollars(facts['cost_usd'])}"
        if facts["outcome"] != "success" and facts["evidence"]:
            told += f" ({clean(facts['evidence'][0])[:100]})"
        click.echo(f"[{self.done}/{self.planned}] {what}: {told}", err=True)


@relight_command("stop", example="relight experiment stop warm-1")
@click.argument("name")
@click.option("--now", "at_once", is_flag=True, help="Interrupt the run that it is at.")
@json_option
def stop(name: str, at_once: bool, as_json: bool) -> None:
    """Stop an experiment that another process runs, after the run it is at.

    `relight experiment start NAME` goes on with it later. An interrupted run is then begun anew.
    """
    from relight.work.experiments.register import ask_stop, find_experiment, is_running, read_runs

    with current_store() as store:
        was_running = ask_stop(store, name, at_once=at_once, now=int(time.time() * 1000))
        if was_running and not as_json:
            wait = "" if at_once else " after the run it is at; --now does not wait for that"
            click.echo(f"{name} is asked to stop{wait}", err=True)
        while is_running(store, found := find_experiment(store, name), now=_now()):
            time.sleep(WAIT_SECONDS)
        done = sum(run.status in ("done", "skipped") for run in read_runs(store, found.id))
    _tell_stopped(found, done, was_running=was_running, as_json=as_json)


def _tell_stopped(found: "Experiment", done: int, *, was_running: bool, as_json: bool) -> None:
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
    told = f"{found.name} {'has stopped' if was_running else 'is not running'}"
    click.echo(f"{told}: {done} of {planned} runs are done")


def _now() -> int:
    return int(time.time() * 1000)
