"""A call's arguments in the form that reads best: a diff, a list of tasks, a command, fields."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from markupsafe import Markup, escape
from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.judging.edits import (
    LONGEST_LINE,
    MOST_CHARACTERS,
    DiffLine,
    FileDiff,
    find_edits,
    find_shape,
    read_edit_table,
    take_argument,
)
from relight.text import make_line, make_visible
from relight.web.reading.highlight import highlight

MOST_TASKS = 100
TaskState = Literal["done", "now", "dropped", "open"]
WORDS: dict[TaskState, str] = {
    "done": "done",
    "now": "in progress",
    "dropped": "dropped",
    "open": "to do",
}
MOST_LINES = 400  # that are shown of one file
CONTEXT = 3  # kept lines around a change; longer runs are left out
SIGNS = {"add": "+", "del": "−", "same": " ", "hunk": " "}
MOST_FILES = 30
SHELL_ARGUMENTS = ("command", "cmd")
CODE_ARGUMENTS = ("code", "script", "query", "sql")


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


def draw_diff(diff: FileDiff) -> Markup:
    """Return a file's diff as HTML, with its path and how many lines it adds and removes."""
    shown = list(_choose_lines(diff.lines))
    rest = len(shown) - MOST_LINES
    rows = "".join(map(_draw_line, shown[:MOST_LINES]))
    more = f'<span class="dl gap">… {rest:,} lines more</span>' if rest > 0 else ""
    note = (
        Markup(' <span class="soft">{}</span>').format(make_visible(diff.note)) if diff.note else ""
    )
    head = Markup('<p class="diffhead"><span class="code"><bdi>{}</bdi></span> {}{}</p>').format(
        make_visible(diff.path[:300]), draw_counts(diff.added, diff.removed), note
    )
    lines = Markup(f'<pre class="diff">{rows}{more}</pre>') if diff.lines else Markup("")
    return Markup('<div class="edit">{}{}</div>').format(head, lines)


def draw_counts(added: int, removed: int) -> Markup:
    """Return how many lines were added and removed.

    >>> draw_counts(2, 1)
    Markup('<span class="plus">+2</span> <span class="minus">−1</span>')
    """
    return Markup('<span class="plus">+{:,}</span> <span class="minus">−{:,}</span>').format(
        added, removed
    )


def _choose_lines(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Yield the changed lines with some around them; a run of kept lines in between is counted."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind == "same")]
    for at, run in enumerate(runs):
        if run[0].kind != "same" or len(run) <= 2 * CONTEXT + 1:
            yield from run
            continue
        head, tail = CONTEXT if at else 0, CONTEXT if at + 1 < len(runs) else 0
        yield from run[:head]
        yield DiffLine("hunk", f"… {len(run) - head - tail:,} lines unchanged")
        yield from run[len(run) - tail :]


def _draw_line(line: DiffLine) -> str:
    begin, end = (line.begin, line.end) if line.begin < line.end else (0, 0)
    text, more = line.text[:LONGEST_LINE], len(line.text) - LONGEST_LINE
    parts = [escape(make_visible(part)) for part in (text[:begin], text[begin:end], text[end:])]
    middle = f"<b>{parts[1]}</b>" if parts[1] else ""
    rest = f'<span class="soft">… {more:,} characters more</span>' if more > 0 else ""
    sign = SIGNS[line.kind]
    return f'<span class="dl {line.kind}"><i>{sign}</i>{parts[0]}{middle}{parts[2]}{rest}\n</span>'


class CallBody(Struct, frozen=True):
    """A call's arguments as HTML, and a few words about them for its line.

    `path` is the first file that an edit changes.
    """

    html: Markup
    note: Markup = Markup("")
    path: str = ""


def draw_call(
    tool: str, arguments: str, result: str | None = None, *, limit: int = 4000
) -> CallBody:
    """Return what a call asks for; `limit` is the number of characters of plain arguments."""
    if diffs := find_edits(tool, arguments):
        drawn = Markup("").join(map(draw_diff, diffs[:MOST_FILES]))
        rest = len(diffs) - MOST_FILES
        more = (
            Markup('<p class="small soft">… {:,} files more</p>').format(rest) if rest > 0 else ""
        )
        added, removed = sum(one.added for one in diffs), sum(one.removed for one in diffs)
        note = draw_counts(added, removed)
        if len(diffs) > 1:
            note = Markup("{} files {}").format(len(diffs), note)
        return CallBody(drawn + more, note, diffs[0].path)
    if tasks := find_tasks(tool, arguments, result):
        return CallBody(
            draw_tasks(tasks), Markup('<span class="soft">{}</span>').format(count_done(tasks))
        )
    fields = read_arguments(arguments) if len(arguments) <= 10 * limit else None
    if not fields:
        return CallBody(_draw_text(arguments, limit))
    return CallBody(_draw_fields(fields, limit))


def _draw_fields(fields: Mapping[str, Any], limit: int) -> Markup:
    """Return a command as code, and all other arguments by their names."""
    parts, plain = [], {}
    for name, value in fields.items():
        text = value if isinstance(value, str) else None
        if name in SHELL_ARGUMENTS and isinstance(value, list):
            text = " ".join(map(str, value))
        if text is not None and name in SHELL_ARGUMENTS:
            parts.append(_draw_code(text, "bash", limit))
        elif text is not None and (name in CODE_ARGUMENTS or "\n" in text):
            parts.append(Markup('<p class="small soft">{}</p>').format(make_visible(name[:80])))
            parts.append(_draw_text(text, limit))
        else:
            plain[name] = value
    if plain:
        row = Markup("<dt>{}</dt><dd>{}</dd>")
        rows = [
            row.format(make_visible(name[:80]), _shorten(_write_value(value), limit))
            for name, value in plain.items()
        ]
        parts.append(Markup('<dl class="facts small fields">{}</dl>').format(Markup("").join(rows)))
    return Markup("").join(parts)


def _write_value(value: object) -> str:
    # any JSON came in: not every text and number of it fits msgspec
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _draw_code(text: str, language: str, limit: int) -> Markup:
    cut = text[:limit]
    return Markup('<pre class="code">{}{}</pre>').format(
        highlight(cut, language), _rest(text, limit)
    )


def _draw_text(text: str, limit: int) -> Markup:
    return Markup('<pre class="code">{}</pre>').format(_shorten(text, limit))


def _shorten(text: str, limit: int) -> Markup:
    return Markup("{}{}").format(make_visible(text[:limit]), _rest(text, limit))


def _rest(text: str, limit: int) -> Markup:
    rest = len(text) - limit
    words = Markup(' <span class="soft">… {:,} characters more</span>')
    return words.format(rest) if rest > 0 else Markup("")
