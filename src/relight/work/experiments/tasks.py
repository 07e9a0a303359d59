"""The list of tasks that an experiment runs in both arms."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError

FILE_LIMIT_BYTES = 50_000_000
ID_CHARACTERS = 100


class Task(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task: what the agent is asked, where it works, and how one sees that it succeeded.

    `setup` and `check` are commands run in the folder it works in: a line for the shell, or a
    list of words. A check that exits with 0 says that the task was done.
    """

    id: str = ""
    prompt: str
    workdir: str | None = None
    setup: str | list[str] | None = None
    check: str | list[str] | None = None


def read_tasks(path: Path) -> list[Task]:
    """The tasks in a file: one a line, or `.jsonl`, `.json` or `.toml` with more of each.

    Folders are meant from where the file lies. A task without an id is known by its number.
    """
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise RelightError(f"{path} is too large for a list of tasks")
        text = path.read_text(encoding="utf-8")
        tasks = [_convert(one) for one in _read(text, path.suffix.lower())]
    except OSError as error:
        raise RelightError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RelightError(
            f"{path} is no list of tasks: {error}",
            f"one task a line, or .jsonl, .json or .toml with {', '.join(Task.__struct_fields__)}",
        ) from error
    named = [_name(task, number, path.parent) for number, task in enumerate(tasks, start=1)]
    _check(named, path)
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
                raise ValueError("it must have [[task]] tables and nothing else")
            yield from found["task"]
        case _:
            for line in text.splitlines():
                if line.strip() and not line.lstrip().startswith("#"):
                    yield line.strip()


def _convert(value: Any) -> Task:
    return msgspec.convert({"prompt": value} if isinstance(value, str) else value, Task)


def _name(task: Task, number: int, folder: Path) -> Task:
    workdir = task.workdir
    if workdir is not None:
        workdir = str((folder / Path(workdir).expanduser()).resolve())
    return replace(task, id=task.id.strip() or str(number), workdir=workdir)


def _check(tasks: list[Task], path: Path) -> None:
    if not tasks:
        raise RelightError(f"there are no tasks in {path}")
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise RelightError(f"two tasks in {path} have the id {task.id!r}")
        seen.add(task.id)
        if len(task.id) > ID_CHARACTERS or not task.id.isprintable():
            raise RelightError(f"{task.id[:ID_CHARACTERS]!r} cannot be the id of a task")
        if not task.prompt.strip():
            raise RelightError(f"the task {task.id} in {path} has no prompt")
        if task.workdir is not None and not Path(task.workdir).is_dir():
            raise RelightError(f"the task {task.id} is to work in {task.workdir}: no such folder")
