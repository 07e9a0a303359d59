"""The table of causes and commands by which lessons are read: `data/lessons.toml`."""

import re
from functools import cache, cached_property

from msgspec import Struct

from relight import data
from relight.judging.command_forms import OWN

# foreign text must not end its own quotation
_QUOTES = str.maketrans("`“”", "'''")


class _Cause(Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    words: str
    patterns: list[str]


class _Names(Struct, frozen=True, forbid_unknown_fields=True):
    own: str
    affairs: str
    affair_kinds: frozenset[str]


class _Commands(Struct, frozen=True, forbid_unknown_fields=True):
    around: frozenset[str]
    looking: frozenset[str]
    with_action: frozenset[str]
    steps: list[str]


class LessonTable(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The whole of `lessons.toml`."""

    causes: list[_Cause]
    names: _Names
    commands: _Commands

    @cached_property
    def patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(row.kind, re.compile(one)) for row in self.causes for one in row.patterns]

    @cached_property
    def words(self) -> dict[str, str]:
        return {row.kind: row.words for row in self.causes}

    @cached_property
    def own(self) -> re.Pattern[str]:
        return re.compile(self.names.own)

    @cached_property
    def affairs(self) -> re.Pattern[str]:
        return re.compile(self.names.affairs)

    @cached_property
    def steps(self) -> re.Pattern[str]:
        return re.compile("|".join(self.commands.steps))


@cache
def read_table() -> LessonTable:
    """Return the table of causes and commands."""
    return data.read_table("lessons.toml", LessonTable)


def describe_cause(kind: str, name: str) -> str:
    """Return a cause in words.

    >>> describe_cause("missing", "pytest")
    'no module or command `pytest`'
    """
    if name == OWN:
        return "a module that the session's own script names is missing"
    return read_table().words[kind].format(name=name.translate(_QUOTES))
