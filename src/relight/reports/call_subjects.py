"""The subject of a tool call: its command, its path, and the sub-agent that it started."""

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from relight.chat.messages import read_object
from relight.store.queries.steps import SubAgent
from relight.times import read_time

if TYPE_CHECKING:
    from relight.reports.trace import Step

# the names that agents' tools have for these arguments
COMMANDS = ("command", "cmd", "commands", "script", "code")
PATHS = (
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "filename",
    "file",
    "target_file",
    "dir_path",
)
# what a person needs to read of a call without a command
SEARCHED = ("pattern", "query")
SUBJECTS = (*SEARCHED, "url", "skill", "name", "description", "prompt", "message", "input")
# lists of tasks, which are no line
TASKS = frozenset(("todos", "plan"))
MOST_READ = 20_000  # longer arguments are the content of a file
MOST_ARGUMENTS = 300  # characters of arguments that stand for a call
# words in the names of tools that start a sub-agent
STARTERS = re.compile(r"(?i)task|agent|delegate|spawn")
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
LONGEST = 200_000  # characters of arguments that are looked through
LOCAL_MS = 120_000  # a sub-agent begins within this time of its call


class CallSubject(Struct, frozen=True):
    """The command that a call runs, and the file that it is about."""

    command: str | None = None
    path: str | None = None


def find_subject(tool: str, arguments: str | None) -> CallSubject:
    """Return a call's command and path, as far as its arguments have them.

    >>> find_subject("Bash", '{"command": "ls -l", "timeout": 3}')
    CallSubject(command='ls -l', path=None)
    >>> find_subject("shell", '{"command": ["bash", "-lc", "git status"]}').command
    'git status'
    """
    text = (arguments or "")[:LONGEST]
    fields = _read_fields(arguments)
    command = next((_join(fields[name]) for name in COMMANDS if fields.get(name)), None)
    path = next((fields[name] for name in PATHS if isinstance(fields.get(name), str)), None)
    if command is not None and path is not None and " " not in command:
        command = None  # an editor's order: view, create
    if patched := PATCHED.search(text.replace("\\n", "\n") if "*** " in text else ""):
        path = patched[1].strip()
        command = command if fields and "*** Begin Patch" not in (command or "") else None
    elif not fields and text and text.lstrip()[:1] != "{" and "patch" not in tool:
        command = text
    return CallSubject(command, path)


def describe_call(step: "Step") -> str:
    """Return a call's command or path, with what it searched there; else what says most."""
    if step.command:
        return step.command
    fields = _read_fields(step.arguments) if len(step.arguments or "") <= MOST_READ else {}
    names = SEARCHED if step.path else SUBJECTS
    words = next((fields[one] for one in names if isinstance(fields.get(one), str)), "")
    if step.path:
        return f"{words} in {step.path}" if words else step.path
    return words or ("" if fields.keys() & TASKS else (step.arguments or "")[:MOST_ARGUMENTS])


def _read_fields(arguments: str | None) -> dict[str, Any]:
    """The arguments by name; none if they are no object, or too long to be looked through."""
    found = read_object(arguments) if len(arguments or "") <= LONGEST else None
    return found if isinstance(found, dict) else {}


def _join(value: Any) -> str | None:
    """A command as one text; of a shell's own words, its script."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    words = [str(word) for word in value]
    is_shell = len(words) == 3 and words[1] in ("-c", "-lc", "-ic")
    return words[2] if is_shell else " ".join(words)


def find_child(child: SubAgent, steps: "Sequence[Step]", taken: Container[int]) -> int | None:
    """Return the place of the call that started a sub-agent; None if it cannot be known.

    Its result or arguments name the sub-agent; else the sub-agent's first words are in its
    arguments; else it is the only call of such a tool that ran when the sub-agent began.
    """
    calls = [
        (place, step)
        for place, step in enumerate(steps)
        if step.kind == "call" and place not in taken and STARTERS.search(step.tool or "")
    ]
    name = child.key.rpartition("/")[2]
    for place, step in calls:
        if name in (step.result or "") or name in (step.arguments or ""):
            return place
    words = " ".join((child.title or "").split())[:80]
    for place, step in calls:
        if words and words in " ".join(_texts(step.arguments)):
            return place
    running = [place for place, step in calls if _is_near(step, child.started_at)]
    return running[0] if len(running) == 1 else None


def _texts(arguments: str | None) -> list[str]:
    texts: list[str] = []
    waiting: list[Any] = list(_read_fields(arguments).values())
    while waiting and len(texts) < 1000:
        value = waiting.pop(0)
        if isinstance(value, str):
            texts.append(" ".join(value.split()))
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
    return texts


def _is_near(step: "Step", began_at: int | None) -> bool:
    at, end = read_time(step.at), read_time(step.ended_at)
    if at is None or began_at is None:
        return False
    return at - 1000 <= began_at <= (at + LOCAL_MS if end is None else end)
