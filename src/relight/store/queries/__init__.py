"""The queries behind the reports: SQL here, its meaning in `relight.reports`; uses of any rows."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


def group_rows(rows: Iterable[R], find_key: Callable[[R], K]) -> dict[K, list[R]]:
    """Return rows by a key, in the order in which each key comes first."""
    groups: dict[K, list[R]] = {}
    for row in rows:
        groups.setdefault(find_key(row), []).append(row)
    return groups


def add_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def take_fields(one: Struct, shape: type[Struct], *, but: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values of the fields that a Struct of another shape has under the same names.

    The caller gives those in `but` itself, as keyword arguments whose types are checked.
    """
    names = {*one.__struct_fields__} & {*shape.__struct_fields__} - {*but}
    return {name: getattr(one, name) for name in names}
