"""Tool calls that keep a list of tasks, as lists."""

from collections.abc import Mapping
from typing import Literal

from markupsafe import Markup
from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.judging.edits import MOST_CHARACTERS, find_shape, read_edit_table, take_argument
from relight.text import make_line

MOST_TASKS = 100
TaskState = Literal["done", "now", "dropped", "open"]
WORDS: dict[TaskState, str] = {
    "done": "done",
    "now": "in progress",
    "dropped": "dropped",
    "open": "to do",
}


class TaskItem(Struct, frozen=True):
    """One task of a list."""

    text: str
    state: TaskState


def find_tasks(tool: str, arguments: str, result: str | None = None) -> list[TaskItem]:
    """Return the tasks that a call wrote, or read if it wrote none; empty for other calls."""
    if find_shape(tool) != "tasks":
        return []
    for text in (arguments, result or ""):
        fields = read_arguments(text) if len(text) <= MOST_CHARACTERS else None
        items = take_argument(fields, "tasks") if fields else None
        if isinstance(items, list) and items:
            return [_read_item(one) for one in items]
    return []


def _read_item(item: object) -> TaskItem:
    if not isinstance(item, Mapping):
        return TaskItem(str(item), "open")
    state = str(take_argument(item, "state") or "").lower()
    known = (name for name, words in read_edit_table().states.items() if state in words)
    return TaskItem(str(take_argument(item, "task") or ""), next(known, "open"))


def count_done(tasks: list[TaskItem]) -> str:
    """Return how many of the tasks are done.

    >>> count_done([TaskItem("a", "done"), TaskItem("b", "now")])
    '1 of 2 done'
    """
    return f"{sum(one.state == 'done' for one in tasks)} of {len(tasks)} done"


def draw_tasks(tasks: list[TaskItem]) -> Markup:
    """Return the tasks as an HTML list; each says its state in words, too."""
    row = Markup('<li class="{}"><span class="sr">{}: </span><bdi>{}</bdi></li>')
    rows = [row.format(one.state, WORDS[one.state], make_line(one.text, 300)) for one in tasks]
    rest = len(rows) - MOST_TASKS
    more = Markup("<li>… {:,} more</li>").format(rest) if rest > 0 else ""
    return Markup('<ul class="tasks">{}{}</ul>').format(Markup("").join(rows[:MOST_TASKS]), more)
