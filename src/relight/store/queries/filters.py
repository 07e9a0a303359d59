"""The part of the record that a query is about: days, sources, models and projects."""

import re

from msgspec import Struct


class Filter(Struct, frozen=True, kw_only=True):
    """The part of the record that a report covers; days are in the store's time zone.

    A model or project is a part of its name; in double quotes it is the whole name, and `""`
    stands for records without one.
    """

    since: str | None = None
    until: str | None = None
    source: str | None = None
    model: str | None = None
    project: str | None = None


def where(chosen: Filter) -> tuple[str, list[str]]:
    """Return the `where` clause of a filter and its values, over columns of the same names."""
    tests, values = [], []
    for test, value in (
        ("day >= ?", chosen.since),
        ("day <= ?", chosen.until),
        ("source = ?", chosen.source),
        _test_name("model", chosen.model),
        _test_name("project", chosen.project),
    ):
        if value is not None:
            tests.append(test)
            values.append(value)
    return f"where {' and '.join(tests)}" if tests else "", values


def _test_name(column: str, wanted: str | None) -> tuple[str, str | None]:
    if wanted is None or not is_whole(wanted):
        return f"{column} like ? escape '\\'", None if wanted is None else escape_like(wanted)
    name = wanted[1:-1]
    return f"{column} = ?" if name else f"coalesce({column}, '') = ?", name


def is_whole(wanted: str) -> bool:
    """True if a filter gives a whole name in quotes, not a part of one."""
    return len(wanted) > 1 and wanted[0] == wanted[-1] == '"'


def escape_like(text: str) -> str:
    """Return the pattern of `like … escape '\\'` that matches any text with this in it."""
    escaped = re.sub(r"([%_\\])", r"\\\1", text)
    return f"%{escaped}%"
