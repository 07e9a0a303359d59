"""Lessons as text for agents: a few lines within a budget, marked as data from sessions.

A lesson quotes what programs printed, which may be hostile. So each is one line, redacted, without
hidden characters and without anything that could end the block it stands in.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from relight.chat.blocks import wrap_lessons
from relight.chat.tokens import estimate_tokens
from relight.errors import RelightError
from relight.redact import find_secrets
from relight.store import Store
from relight.store.provisions import DealtLesson
from relight.text import strip_hidden

if TYPE_CHECKING:
    from relight.judging.lessons import Taught
    from relight.reports.lessons import Lesson
    from relight.warm.agents.settings import Agent

BUDGET = 300
# how long a session that begins waits at most for earlier ones to be read
READ_SECONDS = 0.3
MOST = 5
TITLE = "Seen in earlier sessions of this project (data from recorded sessions, it may be wrong):"
BEGIN = "<!-- lessons of Relight: begin -->"
END = "<!-- lessons of Relight: end -->"
_BLOCK = re.compile(rf"(?:\r?\n)?{re.escape(BEGIN)}.*?{re.escape(END)}(?:\r?\n)?", re.DOTALL)


S = TypeVar("S", bound="Lesson | Taught")


def choose_lessons(lessons: Iterable[S], *, budget: int = BUDGET) -> list[tuple[S, str]]:
    """Return the lessons that are sure enough, the best first, each with its line of text.

    As a block for a session they are within so many tokens.
    """
    chosen: list[tuple[S, str]] = []
    for one in [one for one in lessons if one.is_sure][:MOST]:
        line = _clean(one.text)
        lines = [*(line for _, line in chosen), line]
        has_room = estimate_tokens(wrap_lessons(write_lines(lines))) <= budget
        if has_room and not find_secrets(line.encode()):
            chosen.append((one, line))
    return chosen


def render_lessons(lessons: "Sequence[Lesson]") -> str:
    """Return the lessons that are sure enough as text for a file; empty if there is none."""
    return write_lines([line for _, line in choose_lessons(lessons)])


def write_lines(lines: Sequence[str]) -> str:
    """Return lessons under their title; empty if there is none."""
    return "\n".join([TITLE, *(f"- {line}" for line in lines)]) if lines else ""


def prepare_lessons(
    store: Store, project: str | None, *, budget: int, now: int
) -> list[DealtLesson]:
    """Return the lessons for a session that begins in a project: those of earlier sessions there.

    There are none if the settings say so.
    """
    if not project or not store.config.lessons.give:
        return []
    from relight.reports.lessons import find_sure_lessons

    found = find_sure_lessons(store, project, before=now, seconds=READ_SECONDS)
    chosen = choose_lessons(found, budget=min(budget, BUDGET))
    return [DealtLesson(one.id, *one.key, line) for one, line in chosen]


def render_dealt(lessons: Sequence[DealtLesson]) -> str:
    """Return lessons as a block before a task, the same bytes every time; empty without any."""
    text = write_lines([one.text for one in lessons])
    return wrap_lessons(text) if text else ""


def _clean(text: str) -> str:
    """Return a text on one line that cannot end a comment of Markdown or HTML."""
    line = " ".join(strip_hidden(text).split())
    return line.replace("<!--", "<! --").replace("-->", "-- >")


def make_file_row(path: Path, text: str) -> "Agent":
    """Return the row by which a block of lessons is put into a file, updated or removed."""
    from relight.warm.agents.settings import Agent

    block = f"{BEGIN}\n{text}\n{END}\n" if text else ""

    def has(_: Path, current: str, __: str) -> bool:
        found = [one.strip().replace("\r\n", "\n") for one in _BLOCK.findall(current)]
        return found == ([block.strip()] if block else [])

    def add(_: Path, current: str, __: str) -> str:
        """Return the text with the block at its end, in the file's own ends of lines."""
        if not block:
            return current
        end = "\r\n" if "\r\n" in current else "\n"
        between = "" if not current else end if current.endswith("\n") else end * 2
        return f"{current}{between}{block.replace(chr(10), end)}"

    def remove(_: Path, current: str, __: str) -> str | None:
        left = _BLOCK.sub("", current)
        if BEGIN in left:
            raise RelightError("the end of the block of lessons is missing", f"add the line {END}")
        return left or (None if BEGIN in current else current)

    return Agent(has, add, remove, words="", part="lessons", find_file=lambda _: path, mode=0o644)
