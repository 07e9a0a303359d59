"""Sums of tool calls: those of days, and the calls that no sum of a day has.

Calls of days that have changed, and of sessions that went on elsewhere, are read one by one. A
session is in one of the two parts, so that counts add up. One statement reads both parts: between
two, another process may add days up.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.queries.filters import Filter, where
from relight.store.queries.sums import GroupSums, OutcomeSums, UsageSums

# the keys that the sums of days have
KEYS = ("day", "month", "source", "model", "provider", "project", "tool")
# every tool, found by skipping from one to the next in the index: a list of tools saves the sort
TOOLS = """
    with recursive known (tool) as (
        select min(tool) from call_day where tool is not null
        union all
        select (select min(tool) from call_day where tool > known.tool) from known
        where known.tool is not null
    )
    select tool from known where tool is not null
"""
IS_SUMMED = "day not in (select day from stale_day)"
_COLUMNS = """day, source, project, model, provider, machine_id, tool, root_id, outcome, tool_calls,
    tool_failures, failed_turns"""
# Written so, the test of the tool keeps SQLite from reading all days in the order of tools.
_HAS_TOOL = "case when tool is null then 0 else 1 end = 1"
SINGLE_CALLS = f"""(
    select {_COLUMNS} from call_day where is_spread = 1 and {_HAS_TOOL}
    union all
    select {_COLUMNS} from call_day where is_spread = 0 and {_HAS_TOOL}
        and day in (select day from stale_day)
) as single"""
SPREAD = """coalesce(sum(calls), 0) as calls, coalesce(sum(failed), 0) as failed,
    coalesce(sum(case when calls > 0 then 1 else 0 end), 0) as sessions,
    coalesce(sum(calls * calls), 0) as calls_squared,
    coalesce(sum(failed * failed), 0) as failed_squared,
    coalesce(sum(calls * failed), 0) as calls_times_failed"""
# what is known of calls, and of the sessions that made them
KNOWN = ("sessions", "tool_calls", "tool_failures", "failed_turns", "successes", "failures")
# a sum that PostgreSQL multiplies as a whole number, in half of the time
CALLS_OF_ONE = "cast(sum(tool_calls) as bigint)"
FAILED_OF_ONE = "cast(sum(tool_failures) as bigint)"


class CallSpread(Struct, frozen=True):
    """Calls and failures, and how they are spread over sessions: sums of squares and products."""

    calls: int
    failed: int
    sessions: int
    calls_squared: int
    failed_squared: int
    calls_times_failed: int


class ToolCount(CallSpread, frozen=True):
    """Calls of a tool, and how many of them failed."""

    tool: str


def is_summed(by: Sequence[str], chosen: Filter) -> bool:
    """True if the sums of days have all of these keys, and all that a filter tests."""
    return chosen.is_of_days and "tool" in by and all(key in KEYS for key in by)


def sum_tools(store: Store, keys: Mapping[str, str], chosen: Filter) -> list[GroupSums]:
    """Return the sums of each group by these columns, ordered by the keys."""
    test, values = where(chosen)
    named = ", ".join(f"{column} as {key}" for key, column in keys.items())
    grouped = ", ".join(keys.values())
    statement = f"""
        select {", ".join(keys)}, {", ".join(f"sum({name})" for name in KNOWN)} from (
            select {named}, sum(sessions) as sessions, sum(tool_calls) as tool_calls,
                sum(tool_failures) as tool_failures, 0 as failed_turns,
                sum(successes) as successes, sum(failures) as failures
            from tool_day {f"{test} and" if test else "where"} tool is not null and {IS_SUMMED}
            group by {grouped}
            union all
            select {named}, count(distinct root_id), sum(tool_calls), sum(tool_failures),
                sum(failed_turns), count(distinct case when outcome = 'success' then root_id end),
                count(distinct case when outcome = 'failure' then root_id end)
            from {SINGLE_CALLS} {test} group by {grouped}
        ) as parts
        group by {", ".join(keys)} order by {", ".join(f"{key} nulls first" for key in keys)}
    """
    unknown = dict.fromkeys(UsageSums.__struct_fields__)
    found = []
    for row in store.query(statement, [*values, *values]):
        *of_calls, successes, failures = row[len(keys) :]
        sums = UsageSums(**{**unknown, **dict(zip(KNOWN, of_calls, strict=False))})
        own = dict(zip(keys, row, strict=False))
        found.append(GroupSums(own, sums, OutcomeSums(successes, failures)))
    return found


def count_tools(store: Store, chosen: Filter, *, kind: str = "") -> list[ToolCount]:
    """Return calls and failures of every tool, the one with most failures first.

    With a kind, only the failures of that kind count.
    """
    found = (
        _count_singly(store, chosen, kind)
        if kind or not chosen.is_of_days
        else _count_by_days(store, chosen)
    )
    return sorted(found, key=lambda one: (-one.failed, -one.calls, one.tool))


def _count_by_days(store: Store, chosen: Filter) -> list[ToolCount]:
    test, values = where(chosen)
    spread = [name for name in CallSpread.__struct_fields__ if name not in ("calls", "failed")]
    names = {"calls": "tool_calls", "failed": "tool_failures"} | {name: name for name in spread}
    sums = ", ".join(f"cast(sum({column}) as bigint) as {name}" for name, column in names.items())
    single = f"""
        select tool, {SPREAD} from (
            select tool, {CALLS_OF_ONE} as calls, {FAILED_OF_ONE} as failed
            from {SINGLE_CALLS} {test} group by tool, root_id
        ) as one group by tool
    """
    summed = f"""
        select tool, {sums} from tool_day {f"{test} and" if test else "where"} tool is not null
            and {IS_SUMMED} group by tool
    """
    added = ", ".join(f"sum({name}) as {name}" for name in names)
    statement = f"select {added}, tool from ({summed} union all {single}) as parts group by tool"
    return store.read(ToolCount, statement, [*values, *values])


def _count_singly(store: Store, chosen: Filter, kind: str) -> list[ToolCount]:
    """Count the calls of one tool at a time: those of all would be sorted twice."""
    test, values = where(chosen)
    failed = FAILED_OF_ONE
    if kind:
        is_kind = "coalesce(kind, 'unknown') = ?"
        failed = f"cast(sum(case when {is_kind} then tool_failures else 0 end) as bigint)"
        values = [kind, *values]
    statement = f"""
        select {SPREAD}, cast(? as text) as tool from (
            select {CALLS_OF_ONE} as calls, {failed} as failed
            from call_day {test or "where 1 = 1"} and tool = ? group by root_id
        ) as one having count(*) > 0
    """
    return [
        one
        for (tool,) in store.query(TOOLS)
        for one in store.read(ToolCount, statement, [tool, *values, tool])
    ]


def spread_calls(store: Store, chosen: Filter) -> CallSpread:
    """Return all calls and failures, and how they are spread over sessions."""
    test, values = where(chosen)
    test = test or "where 1 = 1"
    found = store.read(
        CallSpread,
        # Most sessions have one row, and need no group. The sign before the group's column keeps
        # SQLite from reading the rows of all days in the order of that column.
        f"select {SPREAD} from (select tool_calls as calls, tool_failures as failed"
        f" from session_day {test} and is_alone = 1 union all"
        f" select {CALLS_OF_ONE}, {FAILED_OF_ONE}"
        f" from session_day {test} and is_alone = 0 group by +root_id) as one",
        [*values, *values],
    )
    return found[0]
