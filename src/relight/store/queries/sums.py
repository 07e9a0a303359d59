"""The sums of a report, and how those of two parts of the record add up."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from relight.model import TokenColumns


class UsageSums(TokenColumns, frozen=True):
    """One row of sums; None where no record has a value."""

    sessions: int
    turns: int | None
    partial_turns: int | None
    cost_nanos: int | None
    included_nanos: int | None
    unpriced_turns: int | None
    tool_calls: int | None
    tool_failures: int | None
    wall_ms: float | None
    failed_turns: int | None = None


class OutcomeSums(Struct, frozen=True):
    """The sessions that succeeded and failed, and sums of those two kinds; None for single calls.

    A session without a known outcome says nothing about the cost of a success.
    """

    successes: int
    failures: int
    turns: int | None = None
    unpriced_turns: int | None = None
    cost_nanos: int | None = None


class GroupSums(Struct, frozen=True):
    """The sums of one group of a report, with the group's value for each key."""

    keys: dict[str, str | int | None]
    sums: UsageSums
    outcomes: OutcomeSums


class SessionCounts(Struct, frozen=True):
    """The number of sessions, and of those that succeeded and failed."""

    sessions: int
    successes: int
    failures: int


def merge_groups(first: Sequence[GroupSums], second: Sequence[GroupSums]) -> list[GroupSums]:
    """Return the groups of two parts of the record, ordered by their keys."""
    found = {(*one.keys.values(),): one for one in first}
    for one in second:
        keys = (*one.keys.values(),)
        found[keys] = _merge(found[keys], one) if keys in found else one
    return sorted(found.values(), key=lambda one: [_place(key) for key in one.keys.values()])


def _place(key: str | int | None) -> tuple[bool, str]:
    """Return the place of a key in the order of both engines, which is that of its bytes."""
    return key is not None, str(key or "")


def _merge(one: GroupSums, other: GroupSums) -> GroupSums:
    sums = [_add(*pair) for pair in zip(astuple(one.sums), astuple(other.sums), strict=True)]
    counts = [
        _add(*pair) for pair in zip(astuple(one.outcomes), astuple(other.outcomes), strict=True)
    ]
    return replace(one, sums=UsageSums(*sums), outcomes=OutcomeSums(*counts))


def _add(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other
