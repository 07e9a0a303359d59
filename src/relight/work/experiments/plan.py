"""The plan of an experiment: tasks, two arms, runner and limits."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError, check_count, check_number

NAME_LIMIT = 80
WARM, COLD = "warm", "cold"
FILE_LIMIT_BYTES = 50_000_000
ID_CHARACTERS = 100

TrialMeasure = Literal["success", "early_failures"]


class TrialTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task: its prompt, the folder to work in, and the check that decides on success.

    `setup` and `check` are commands run in that folder: a shell line, or a list of words. If the
    check exits with 0, the task was done.
    """

    id: str = ""
    prompt: str
    workdir: str | None = None
    setup: str | list[str] | None = None
    check: str | list[str] | None = None


class ExperimentPlan(Struct, frozen=True, kw_only=True):
    """The definition of an experiment, which does not change while it runs.

    The arms are `cold` and `warm`, or two models. The second is compared with the first.
    """

    tasks: list[TrialTask]
    arms: list[str]
    runner: Literal["chat", "command"] = "chat"
    command: list[str] = []
    use_shell: bool = False
    model: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    # for the warm arm: a template's name, or auto
    template: str = "auto"
    tools: list[str] | None = None
    # variables that the agent's commands get although they are named like secrets
    pass_variables: list[str] = []
    rounds: int = 1
    run_seconds: float = 1800.0
    max_attempts: int = 2
    # of all runs together
    budget_usd: float | None = None
    budget_tokens: int | None = None
    # work in the tasks' folders instead of fresh copies
    in_place: bool = False
    # what the verdict is about; None if the tasks decide
    measure: TrialMeasure | None = None

    @property
    def is_warm_start(self) -> bool:
        return set(self.arms) == {WARM, COLD}

    @property
    def judged_by(self) -> TrialMeasure:
        """The measure of the verdict, known before any run: success if a check decides on it."""
        has_check = any(task.check is not None for task in self.tasks)
        return self.measure or ("success" if has_check else "early_failures")

    @property
    def planned_pairs(self) -> int:
        return len(self.tasks) * self.rounds

    def find_model(self, arm: str) -> str | None:
        """Return the model of an arm."""
        return self.model if self.is_warm_start else arm

    def find_agent(self) -> str | None:
        """Return the source name of the agent that does the work; None if it is unknown."""
        if self.runner == "chat":
            return "relight"
        from relight.work.jobs.recipes import find_recipe

        found = None if self.use_shell else find_recipe(self.command)
        return found[0].source if found else None


def check_plan(plan: ExperimentPlan) -> ExperimentPlan:
    """Return the plan; raise if it cannot be carried out."""
    if len(plan.arms) != 2 or plan.arms[0] == plan.arms[1]:
        raise RelightError("an experiment has two arms", "warm and cold, or two models")
    if not plan.is_warm_start and set(plan.arms) & {WARM, COLD}:
        raise RelightError(
            "the arms are warm and cold, or two models", "use --models A,B to compare models"
        )
    if plan.runner == "command" and not plan.command:
        raise RelightError("which command?", "name one with --command, such as: claude -p {prompt}")
    if plan.runner == "chat" and plan.command:
        raise RelightError("--command needs --runner command")
    if plan.runner == "command" and plan.pass_variables:
        raise RelightError(
            "--pass-variable is for Relight's own agent", "a command gets all variables"
        )
    if plan.runner == "chat" and not plan.find_model(plan.arms[0]):
        raise RelightError("which model?", "name one with --model or RELIGHT_MODEL")
    if plan.runner == "command" and not plan.is_warm_start:
        from relight.work.jobs.recipes import can_choose_model

        if not can_choose_model(plan.command, use_shell=plan.use_shell):
            raise RelightError("the command has no place for the model", "put {model} into it")
    check_count("rounds", plan.rounds, least=1)
    check_count("max_attempts", plan.max_attempts, least=1)
    check_number("run_seconds", plan.run_seconds, least=1)
    if plan.budget_usd is not None:
        check_number("budget_usd", plan.budget_usd, least=0)
    if plan.budget_tokens is not None:
        check_count("budget_tokens", plan.budget_tokens, least=1)
    return plan


def check_experiment_name(name: str) -> str:
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise RelightError(
            f"{name[:NAME_LIMIT]!r} cannot name an experiment",
            f"give it one line of 1 to {NAME_LIMIT} characters",
        )
    return name


def read_tasks(path: Path) -> list[TrialTask]:
    """Return the tasks in a file: one per line, or `.jsonl`, `.json` or `.toml` with all fields.

    Folders are relative to the file. A task without an id gets its number.
    """
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise RelightError(f"{path} is too large for a task list")
        text = path.read_text(encoding="utf-8")
        given = (
            {"prompt": one} if isinstance(one, str) else one
            for one in _read(text, path.suffix.lower())
        )
        tasks = [msgspec.convert(one, TrialTask) for one in given]
    except OSError as error:
        raise RelightError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        fields = ", ".join(TrialTask.__struct_fields__)
        raise RelightError(
            f"{path} is not a task list: {error}",
            f"one task per line, or .jsonl, .json or .toml with {fields}",
        ) from error
    named = [_name(task, number, path.parent) for number, task in enumerate(tasks, start=1)]
    _check_tasks(named, path)
    return named


def _read(text: str, ending: str) -> Iterator[Any]:
    match ending:
        case ".jsonl":
            for line in text.splitlines():
                if line.strip():
                    yield msgspec.json.decode(line)
        case ".json":
            yield from msgspec.json.decode(text, type=list[Any])
        case ".toml":
            found = tomllib.loads(text)
            unknown = set(found) - {"task"}
            if unknown or not isinstance(found.get("task"), list):
                raise ValueError("it must have only [[task]] tables")
            yield from found["task"]
        case _:
            for line in text.splitlines():
                if line.strip() and not line.lstrip().startswith("#"):
                    yield line.strip()


def _name(task: TrialTask, number: int, folder: Path) -> TrialTask:
    workdir = task.workdir
    if workdir is not None:
        workdir = str((folder / Path(workdir).expanduser()).resolve())
    return replace(task, id=task.id.strip() or str(number), workdir=workdir)


def _check_tasks(tasks: list[TrialTask], path: Path) -> None:
    if not tasks:
        raise RelightError(f"{path} has no tasks")
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise RelightError(f"two tasks in {path} have the id {task.id!r}")
        seen.add(task.id)
        if len(task.id) > ID_CHARACTERS or not task.id.isprintable():
            raise RelightError(f"{task.id[:ID_CHARACTERS]!r} cannot be a task id")
        if not task.prompt.strip():
            raise RelightError(f"the task {task.id} in {path} has no prompt")
        if task.workdir is not None and not Path(task.workdir).is_dir():
            raise RelightError(f"the task {task.id} works in {task.workdir}: no such folder")
