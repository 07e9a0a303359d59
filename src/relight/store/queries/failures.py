"""Failures by kind, tool and day, and the calls among which spirals are found."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from relight.store import Store
from relight.store.derive.failure_days import FAILED
from relight.store.derive.rollup import RANGES
from relight.store.queries.failure_sums import (
    FailureSums,
    has_days,
    select_days,
    select_failing,
    sum_failures,
)
from relight.store.queries.filters import Filter, where
from relight.store.queries.spirals import split_ids
from relight.store.queries.totals import SessionName
from relight.times import write_time

# what failed calls are grouped by; values of some are ranges of numbers
FAILURE_KEYS = ("kind", "tool", "position", "length", "category")
RANGE_KEYS = ("position", "length")
# the last failures of a kind and tool in a session with its sub-agents
LAST_TURN = """
    select at, failure as reason, failure_text as evidence from turn
    where session_id in (select id from session where root_id = :root) and failure = :kind
    order by at desc nulls last limit 1
"""
LAST_CALL = """
    select at, reason, evidence from tool_call
    where session_id in (select id from session where root_id = :root)
        and (:is_any = 1 or tool = :tool) and coalesce(kind, '') = coalesce(:kind, '')
        and label = 'error'
    order by at desc nulls last limit 1
"""


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Failed calls by the keys that are set, the last one as example; model calls have no tool.

    `position` is the place of a call in its conversation, `length` the number of tool calls of the
    whole session, `category` the kind of work. By kind, only failed calls are known: there is no
    `tool_calls` to compare them with. `sessions_sample` are the sessions that failed last.
    """

    kind: str | UnsetType = UNSET
    tool: str | UnsetType | None = UNSET
    position: str | UnsetType = UNSET
    length: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    count: int
    tool_calls: int | None
    tool_failures: int
    failed_turns: int
    sessions: int
    last_at: str | None
    reason: str | None
    example: str | None
    sessions_sample: list[str]


class FailureExample(Struct, frozen=True):
    """A failed call: its time, its kind, and the words that show it."""

    at: int | None
    reason: str | None
    evidence: str | None


class FailureDay(Struct, frozen=True):
    """Failures of one kind on one day."""

    day: str
    kind: str
    failures: int


def read_failure_groups(
    store: Store, chosen: Filter, by: Sequence[str] = ("kind", "tool")
) -> list[FailureGroup]:
    """Return failed calls by these keys: ranges in order, all else the most frequent first."""
    found = [one for one in sum_failures(store, chosen, by) if one.count]
    found.sort(key=lambda one: _place_group(one, by))
    roots = [one.roots for one in found]
    names = read_session_names(store, [root for own in roots for root in own])
    return [
        _make_group(store, by, one, roots=own, names=names)
        for one, own in zip(found, roots, strict=True)
    ]


def name_range(first: int) -> str:
    """Return a range of numbers by its first one.

    >>> [name_range(first) for first in RANGES]
    ['1-10', '11-30', '31-100', '101-300', '301+']
    """
    after = next((one for one in RANGES if one > first), None)
    return f"{first}+" if after is None else f"{first}-{after - 1}"


def _place_group(one: FailureSums, by: Sequence[str]) -> tuple[Any, ...]:
    """Return what groups are sorted by."""
    is_of_ranges = any(key in RANGE_KEYS for key in by)
    keys = [one.keys[key] or "" for key in by]
    return (*keys,) if is_of_ranges else (-one.count, *keys)


def _make_group(
    store: Store,
    by: Sequence[str],
    one: FailureSums,
    *,
    roots: Sequence[int],
    names: Mapping[int, str],
) -> FailureGroup:
    keys = one.keys | {key: name_range(one.keys[key]) for key in RANGE_KEYS if key in by}
    keys |= {"kind": one.keys["kind"] or "unknown"} if "kind" in by else {}
    reason, example = _find_example(store, one, roots[0]) if "kind" in by else (None, None)
    return FailureGroup(
        **keys,
        count=one.count,
        tool_calls=None if "kind" in by else one.tool_calls,
        tool_failures=one.tool_failures,
        failed_turns=one.failed_turns,
        sessions=one.sessions,
        last_at=write_time(one.last_at),
        reason=reason,
        example=example,
        sessions_sample=[names[root] for root in roots],
    )


def read_session_names(store: Store, ids: Iterable[int]) -> dict[int, str]:
    """Return the names of sessions by their ids."""
    statement = "select id, source || ':' || key as session, title from session where id in ({})"
    return {
        one.id: one.session
        for among in split_ids([*dict.fromkeys(ids)])
        for one in store.read(SessionName, statement.format(among))
    }


def _find_example(store: Store, one: FailureSums, root: int) -> tuple[str | None, str | None]:
    """Return reason and evidence of the last failure of a group's kind in one session."""
    tool, is_any = one.keys.get("tool"), "tool" not in one.keys
    values = {"root": root, "kind": one.keys["kind"]}
    found = store.read(FailureExample, LAST_TURN, values) if is_any or tool is None else []
    if is_any or tool is not None:
        more = {"tool": tool, "is_any": int(is_any)}
        found += store.read(FailureExample, LAST_CALL, values | more)
    last = max(found, key=lambda one: one.at or 0, default=FailureExample(None, None, None))
    return last.reason, last.evidence


def count_failures_by_day(store: Store, chosen: Filter) -> list[FailureDay]:
    """Return the number of failures of each kind on each day."""
    calls = "day, kind, tool_failures, failed_turns"
    if has_days(store, chosen):
        rows, values = select_days(chosen, what="kind", sums=calls, single=calls, test=FAILED)
    else:
        days, values = where(chosen)
        rows = f"select {calls} from call_day {days or 'where 1 = 1'} and {FAILED}"
    return store.read(
        FailureDay,
        "select day, coalesce(kind, 'unknown') as kind,"
        f" sum(tool_failures) + sum(failed_turns) as failures from ({rows}) as calls"
        " group by day, kind",
        values,
    )


def find_failing_sessions(store: Store, chosen: Filter, *, least: int) -> list[SessionName]:
    """Return the sessions in which a tool failed at least so often."""
    failing, values = select_failing(store, chosen, least=least)
    return store.read(
        SessionName,
        f"select id, source || ':' || key as session, title from session where id in ({failing})",
        values,
    )
