"""Sealed rows of what words and calls tell of a session's kind and score."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from relight.ids import hash_names, row_id
from relight.judging.features import is_submission, says
from relight.judging.kinds import Sides, take_sides
from relight.judging.meanings import Meaning, Understood, changes_nothing, understand_call
from relight.model import Parsed, Spoken

NOTHING, FILES = "-", {"s": "source", "d": "document"}
SUBMITTED, UNREADABLE, HARMLESS = "submitted", "unreadable", "harmless"


def read_object(arguments: str | None) -> Any:
    """A call's arguments, decoded once for all who look at them; text that is no object stays."""
    if arguments is not None and arguments.lstrip()[:1] == "{":
        try:
            return msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            pass  # it stays text
    return arguments


def fingerprint_call(tool: str, arguments: Any) -> int:
    """Equal for calls that ask the same of a tool, whatever the order and spacing of their JSON.

    >>> fingerprint_call("get", {"a": 1, "b": 2}) == fingerprint_call("get", {"b": 2, "a": 1})
    True
    """
    if isinstance(arguments, str):
        text = arguments
    else:  # a call without arguments is the same as one with an empty object
        text = msgspec.json.encode(arguments or {}, order="sorted").decode()
    return hash_names("arguments", tool, text or "{}")


def write_work(tool: str, arguments: Any) -> str:
    """What kind of work a call was, in a few words that are counted later.

    >>> write_work("Bash", {"command": "pytest -q tests/test_app.py"})
    'code coding s'
    """
    known = understand_call(tool, arguments)
    work = _write_sides(known.meaning, bool(known.command), known.files)
    if is_submission(tool, known.command):
        work += f" {SUBMITTED}"
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        work += f" {UNREADABLE}"
    if changes_nothing(known):
        work += f" {HARMLESS}"
    return work


@lru_cache(maxsize=1024)
def _write_sides(meaning: Meaning, is_command: bool, files: frozenset[str]) -> str:
    sides = take_sides(Understood(meaning, "…" if is_command else None, files))
    letters = "".join(sorted(kind[0] for kind in sides.files))
    return " ".join(part or NOTHING for part in (sides.task_type, sides.category, letters))


@lru_cache(maxsize=1024)
def read_work(work: str) -> tuple[Sides, frozenset[str]]:
    """The sides that `write_work` wrote, and its marks."""
    task_type, category, files, *marks = work.split(" ")
    return (
        Sides(
            None if task_type == NOTHING else task_type,
            None if category == NOTHING else category,
            frozenset(FILES[letter] for letter in files if letter in FILES),
        ),
        frozenset(marks),
    )


def count_words(source: str, parsed: Parsed) -> list[tuple[int, ...]]:
    """What each session's messages in a stretch of records came to, as rows without a place."""
    by_session: dict[str, list[Spoken]] = {session: [] for session in parsed.messages}
    for one in parsed.spoken:
        by_session.setdefault(one.session, []).append(one)
    return [
        (row_id("session", source, session), parsed.messages.get(session, 0), *_count(some))
        for session, some in by_session.items()
    ]


def _count(spoken: Iterable[Spoken]) -> tuple[int, ...]:
    users = corrections = malformed = give_ups = first = 0
    for one in spoken:
        if one.role == "assistant":
            give_ups += says("give_ups", one.text)
            continue
        is_correction = says("user_corrections", one.text)
        first = int(is_correction) if not users else first
        users += 1
        corrections += is_correction
        malformed += says("malformed", one.text)
    return users, corrections, first, malformed, give_ups
