"""Failures by kind, tool and day, and the calls among which spirals are found."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from relight.store import Store
from relight.store.derive.rollup import CALLS as CALLS_OF_DAYS
from relight.store.derive.rollup import NUMBERED, RANGES, find_range
from relight.store.queries.filters import Filter, where
from relight.store.queries.spirals import split_ids
from relight.store.queries.totals import SessionName
from relight.times import write_time

FAILED = "(tool_failures > 0 or failed_turns > 0)"
# what failed calls are grouped by; values of some are ranges of numbers
FAILURE_KEYS = ("kind", "tool", "position", "length", "category")
RANGE_KEYS = ("position", "length")
CALL_COLUMNS = "root_id, tool_calls, tool_failures, failed_turns, last_at"
SAMPLE = 3  # of the sessions of a group
# calls with what is known of their sessions: how many calls those made, and their kind of work
DESCRIBED = """(
    select used.*, {length} as length, coalesce(listing.category, 'unknown') as category
    from (select * from {table}) as used left join listing on listing.root_id = used.root_id
) as described"""
# calls one by one, for keys and filters that the sums by position lack
POSITIONED = f"""(
    select numbered.*, {find_range("number")} as position from (
        select calls.*, calls.at as last_at, {NUMBERED} as number
        from ({CALLS_OF_DAYS}) as calls
    ) as numbered
) as positioned"""
BY_POSITION = "(select *, failed_at as last_at from position_day) as by_position"
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


class FailureSums(Struct):
    """The calls of one group, and when each session failed last; a range by its first."""

    keys: dict[str, Any]
    tool_calls: int = 0
    tool_failures: int = 0
    failed_turns: int = 0
    # by the row of the session with its sub-agents; 0 if the time is not known
    failed_at: dict[int, int] = {}

    @property
    def count(self) -> int:
        return self.tool_failures + self.failed_turns

    @property
    def roots(self) -> list[int]:
        """The sessions that failed last."""
        return nsmallest(SAMPLE, self.failed_at, key=lambda root: (-self.failed_at[root], root))


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
    table, inner = _choose_table(chosen, by)
    test, values = _where_failed(chosen) if "kind" in by else where(chosen)
    rows = store.query(
        f"select {CALL_COLUMNS}, {', '.join(by)} from {table} {test}", inner + values
    )
    found = [one for one in _sum_failures(rows, by) if one.count]
    found.sort(key=lambda one: _place_group(one, by))
    roots = [one.roots for one in found]
    names = read_session_names(store, [root for own in roots for root in own])
    return [
        _make_group(store, by, one, roots=own, names=names)
        for one, own in zip(found, roots, strict=True)
    ]


def _sum_failures(rows: Iterable[Sequence[Any]], by: Sequence[str]) -> Iterable[FailureSums]:
    """Return the sums of calls by these keys; a database would sort the rows three times."""
    groups: dict[tuple[Any, ...], FailureSums] = {}
    for root, calls, failures, turns, last_at, *values in rows:
        keys = (*values,)
        sums = groups.get(keys)
        if sums is None:
            sums = groups[keys] = FailureSums(dict(zip(by, keys, strict=True)))
        sums.tool_calls += calls
        if failures or turns:
            sums.tool_failures += failures
            sums.failed_turns += turns
            sums.failed_at[root] = max(sums.failed_at.get(root, 0), last_at or 0)
    return groups.values()


def name_range(first: int) -> str:
    """Return a range of numbers by its first one.

    >>> [name_range(first) for first in RANGES]
    ['1-10', '11-30', '31-100', '101-300', '301+']
    """
    after = next((one for one in RANGES if one > first), None)
    return f"{first}+" if after is None else f"{first}-{after - 1}"


def _choose_table(chosen: Filter, by: Sequence[str]) -> tuple[str, list[str]]:
    """Return the table that has these keys, and the values of the filter in it."""
    table, values = "call_day", []
    if not {"kind", "tool"} & {*by} and chosen.model is None:
        table = BY_POSITION
    elif "position" in by:
        test, given = where(chosen)
        table = POSITIONED.format(test=f"session_id in (select session_id from call_day {test})")
        values = [*given, *given]
    if "length" in by or "category" in by:
        table = DESCRIBED.format(table=table, length=find_range("listing.tool_calls"))
    return table, values


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
        sessions=len(one.failed_at),
        last_at=write_time(max(one.failed_at.values()) or None),
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
    test, values = _where_failed(chosen)
    return store.read(
        FailureDay,
        "select day, coalesce(kind, 'unknown') as kind,"
        " sum(tool_failures) + sum(failed_turns) as failures"
        f" from call_day {test} group by day, kind",
        values,
    )


def find_failing_sessions(store: Store, chosen: Filter, *, least: int) -> list[SessionName]:
    """Return the sessions in which a tool failed at least so often."""
    test, values = _where_failed(chosen)
    return store.read(
        SessionName,
        "select id, source || ':' || key as session, title from session where id in ("
        f" select session_id from call_day {test} and tool is not null"
        f" group by session_id, tool having sum(tool_failures) >= {least})",
        values,
    )


def _where_failed(chosen: Filter) -> tuple[str, list[str]]:
    test, values = where(chosen)
    return f"{test} and {FAILED}" if test else f"where {FAILED}", values
