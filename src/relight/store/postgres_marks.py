"""The marks of values in Relight's statements, as psycopg wants them."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

# texts and comments stay as they are; `%` is psycopg's own
_MARK = re.compile(r"'(?:[^']|'')*'|--[^\n]*|\?\d+|\?|(?<![:\w]):[a-z_]\w*|%")


@lru_cache(4096)
def write_marks(statement: str) -> tuple[str, str]:
    """Return a statement with psycopg's marks for values, and their kind.

    >>> write_marks("select 'a?' from turn where id = ? and at > ?")
    ("select 'a?' from turn where id = %s and at > %s", 'list')
    >>> write_marks("select :day, '5%'")
    ("select %(day)s, '5%%'", 'named')
    """
    kind = "none"

    def replace(found: re.Match[str]) -> str:
        nonlocal kind
        mark = found[0]
        if mark[0] in "'%":
            return mark.replace("%", "%%")
        if mark.startswith("--"):
            return ""
        if mark == "?":
            kind = "list"
            return "%s"
        kind = "numbered" if mark[0] == "?" else "named"
        return f"%(p{mark[1:]})s" if kind == "numbered" else f"%({mark[1:]})s"

    text = _MARK.sub(replace, statement)
    return (text.replace("%%", "%") if kind == "none" else text), kind


def arrange_values(kind: str, values: Any) -> Sequence[Any] | Mapping[str, Any] | None:
    """Return values for marks of this kind."""
    if kind == "none":
        return None
    if kind == "numbered":
        return {f"p{number}": value for number, value in enumerate(values, start=1)}
    return values if isinstance(values, Mapping) else tuple(values)
