"""The kind of work of a session, by the meaning of its tool calls."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar, get_args

from msgspec import Struct

from relight.chat.messages import list_own, read_entries
from relight.judging.meanings import Understood, read_taxonomy, understand_call

TaskType = Literal["code", "file", "research", "mixed"]
Category = Literal["coding", "research", "ops", "general"]
CATEGORIES: tuple[Category, ...] = get_args(Category)

_Name = TypeVar("_Name", bound=str)


class WorkKind(Struct, frozen=True):
    """The kind of work of a session, in the two views of the reports."""

    task_type: TaskType
    category: Category


class Sides(Struct, frozen=True):
    """The side of a call in each view, None for no side, and the kinds of files that it names."""

    task_type: str | None
    category: str | None
    files: frozenset[str] = frozenset()


def classify_session(messages: Iterable[object]) -> WorkKind:
    """Return the kind of work in OpenAI chat messages.

    >>> asked = {"id": "c1", "function": {"name": "Bash", "arguments": '{"command": "pytest -q"}'}}
    >>> classify_session([{"role": "assistant", "tool_calls": [asked]}])
    WorkKind(task_type='code', category='coding')
    """
    entries = read_entries(list_own(messages))
    return classify_calls((call.tool, call.arguments) for one in entries for call in one.calls)


def classify_calls(calls: Iterable[tuple[str, object]]) -> WorkKind:
    """Return the kind of work of tool calls, each a tool with its arguments.

    A command is code whatever it does, and so is work on files if commands are run as well and most
    of the files are source. Calls without a side (a plan, a thought) are left out.
    """
    sides = (take_sides(understand_call(tool, arguments)) for tool, arguments in calls)
    return judge_sides(Counter(sides))


def take_sides(call: Understood) -> Sides:
    """Return the side of a call in each view, and the kinds of files that it names."""
    view = read_taxonomy().views.get(call.meaning)
    if view is None:
        return Sides("mixed", "general", call.files)
    is_command = view.task_type == "file" and call.command
    return Sides("code" if is_command else view.task_type, view.category, call.files)


def judge_sides(counts: Mapping[Sides, int]) -> WorkKind:
    """Return the kind of work of so many calls of each side."""
    types: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for sides, count in counts.items():
        if sides.task_type:
            types[sides.task_type] += count
        if sides.category:
            categories[sides.category] += count
        files.update(dict.fromkeys(sides.files, count))
    if types["code"] and files["source"] > files["document"]:
        types["code"] += types.pop("file", 0)
    return WorkKind(
        _find_dominant(types, ("code", "file", "research"), "task_type") or "mixed",
        _find_dominant(categories, ("coding", "ops", "research"), "category") or "general",
    )


def _find_dominant(counts: Counter[str], names: tuple[_Name, ...], view: str) -> _Name | None:
    best = max(names, key=lambda name: counts[name])
    percent = read_taxonomy().dominance_percent[view]
    return best if 100 * counts[best] > percent * counts.total() else None
