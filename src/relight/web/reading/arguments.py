"""A call's arguments in the form that reads best: a diff, a list of tasks, a command, fields."""

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.judging.edits import find_edits
from relight.text import make_visible
from relight.web.reading.diffs import draw_counts, draw_diff
from relight.web.reading.highlight import highlight
from relight.web.reading.task_lists import count_done, draw_tasks, find_tasks

MOST_FILES = 30
SHELL_ARGUMENTS = ("command", "cmd")
CODE_ARGUMENTS = ("code", "script", "query", "sql")


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
