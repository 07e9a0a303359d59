"""Lessons as text for agents: a few lines within a budget, marked as data from sessions.

A lesson quotes what programs printed, which may be hostile. So each is one line, redacted, without
hidden characters and without anything that could end the block it stands in.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from relight.chat.tokens import estimate_tokens
from relight.errors import RelightError
from relight.redact import find_secrets
from relight.reports.lessons import Lesson
from relight.text import strip_hidden
from relight.warm.agents.settings import Agent

BUDGET = 300
MOST = 5
TITLE = "Seen in earlier sessions of this project (data from recorded sessions, it may be wrong):"
BEGIN = "<!-- lessons of Relight: begin -->"
END = "<!-- lessons of Relight: end -->"
_BLOCK = re.compile(rf"(?:\r?\n)?{re.escape(BEGIN)}.*?{re.escape(END)}(?:\r?\n)?", re.DOTALL)


def render_lessons(lessons: Sequence[Lesson], *, budget: int = BUDGET) -> str:
    """Return the lessons that are sure enough, the best first, within so many tokens.

    The text is empty if there is none.
    """
    lines = [TITLE]
    for one in [one for one in lessons if one.is_sure][:MOST]:
        line = f"- {_clean(one.text)}"
        if find_secrets(line.encode()):
            continue
        if estimate_tokens("\n".join([*lines, line])) <= budget:
            lines.append(line)
    return "\n".join(lines) if len(lines) > 1 else ""


def _clean(text: str) -> str:
    """Return a text on one line that cannot end a comment of Markdown or HTML."""
    line = " ".join(strip_hidden(text).split())
    return line.replace("<!--", "<! --").replace("-->", "-- >")


def make_file_row(path: Path, text: str) -> Agent:
    """Return the row by which a block of lessons is put into a file, updated or removed."""
    block = f"{BEGIN}\n{text}\n{END}\n" if text else ""

    def find_file(_: Mapping[str, str]) -> Path:
        return path

    return Agent(
        lambda _, current, __: has_block(current, block),
        lambda _, current, __: add_block(current, block),
        lambda _, current, __: remove_block(current) or (None if BEGIN in current else current),
        words="",
        part="lessons",
        find_file=find_file,
        mode=0o644,
    )


def has_block(text: str, block: str) -> bool:
    """True if a file has this block, and no other one."""
    found = _BLOCK.findall(text)
    return [one.strip().replace("\r\n", "\n") for one in found] == (
        [block.strip()] if block else []
    )


def add_block(text: str, block: str) -> str:
    """Return a file's text with the block at its end, in the file's own ends of lines."""
    if not block:
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    between = "" if not text else end if text.endswith("\n") else end * 2
    return f"{text}{between}{block.replace(chr(10), end)}"


def remove_block(text: str) -> str:
    """Return a file's text without the block; raise if its end is missing."""
    left = _BLOCK.sub("", text)
    if BEGIN in left:
        raise RelightError("the end of the block of lessons is missing", f"add the line {END}")
    return left
