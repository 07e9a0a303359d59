"""Sums of failed calls: those of days, and the calls that no sum of a day has.

Sums of days are of all sessions. A filter by more than days reads single calls, and so does a
person who does not see all rows, to whom the table of sums is empty.
"""

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from msgspec import Struct

from relight.judging.spirals import SPIRAL_MINIMUM
from relight.store import Store
from relight.store.derive.failure_days import CATEGORY, FAILED, KEYS, LENGTH, NEWEST, SUMS
from relight.store.derive.rollup import CALLS as CALLS_OF_DAYS
from relight.store.derive.rollup import NO_NUMBER, NUMBERED, find_range
from relight.store.queries.filters import Filter, where

SAMPLE = 3  # of the sessions of a group
# calls with what is known of their sessions: how many calls those made, and their kind of work
DESCRIBED = f"""(
    select used.*, {LENGTH} as length, {CATEGORY} as category
    from (select * from {{table}}) as used left join listing on listing.root_id = used.root_id
) as described"""
# calls one by one, for keys and filters that the sums by position lack
POSITIONED = f"""(
    select numbered.*, {find_range("number")} as position from (
        select calls.*, calls.at as last_at, {NUMBERED} as number
        from ({CALLS_OF_DAYS}) as calls
    ) as numbered
) as positioned"""
BY_POSITION = "(select *, failed_at as last_at from position_day) as by_position"
# The sums of days with the rows of days that have changed, and of sessions of several days. One
# statement reads them all: between two, another process may add days up.
DAYS = """
    select {sums} from failure_day {days} and what = '{what}'
        and day not in (select day from stale_day)
    union all
    select {single} from {table} {days} and day in (select day from stale_day) and {test}
    union all
    select {single} from {table} {days} and day not in (select day from stale_day) and {test}
        and session_id in (select session_id from failure_session {days} and has_days = 1)
"""
SINGLE = ("root_id", "last_at", *[NO_NUMBER] * (len(NEWEST) - 2))


class FailureSums(Struct):
    """The calls of one group, and when each session failed last; a range by its first."""

    keys: dict[str, Any]
    tool_calls: int = 0
    tool_failures: int = 0
    failed_turns: int = 0
    # by the row of the session with its sub-agents; 0 if the time is not known
    failed_at: dict[int, int] = {}
    # the number of failed sessions in the sums of days, and those of them that failed last
    summed: int = 0
    summed_at: dict[int, int] = {}

    @property
    def count(self) -> int:
        return self.tool_failures + self.failed_turns

    @property
    def sessions(self) -> int:
        return self.summed + len(self.failed_at)

    @property
    def last_at(self) -> int | None:
        """When the last session failed; None if no time is known."""
        return max(*self.failed_at.values(), *self.summed_at.values(), 0) or None

    @property
    def roots(self) -> list[int]:
        """The sessions that failed last."""
        failed_at = self.summed_at | self.failed_at
        return nsmallest(SAMPLE, failed_at, key=lambda root: (-failed_at[root], root))


def sum_failures(store: Store, chosen: Filter, by: Sequence[str]) -> Iterable[FailureSums]:
    """Return the sums of calls by these keys; a database would sort the rows three times."""
    table, inner = _choose_table(chosen, by)
    test = FAILED if "kind" in by else "1 = 1"
    keys, sums = ", ".join(by), ", ".join(SUMS)
    if (what := _find_sums(by)) and has_days(store, chosen):
        statement, values = select_days(
            chosen,
            what=what,
            sums=f"{keys}, {sums}, sessions, {', '.join(NEWEST)}",
            single=f"{keys}, {sums}, {NO_NUMBER}, {', '.join(SINGLE)}",
            table=table,
            test=test,
        )
    else:
        days, values = where(chosen)
        statement = f"""
            select {keys}, {sums}, {NO_NUMBER}, {", ".join(SINGLE[:2])}
            from {table} {days or "where 1 = 1"} and {test}
        """
        values = inner + values
    return _sum_rows(store.query(statement, values), by)


def _sum_rows(rows: Iterable[Sequence[Any]], by: Sequence[str]) -> Iterable[FailureSums]:
    groups: dict[Sequence[Any], FailureSums] = {}
    width = len(by)
    for row in rows:
        keys = row[:width]
        sums = groups.get(keys)
        if sums is None:
            sums = groups[keys] = FailureSums(dict(zip(by, keys, strict=True)))
        calls, failures, turns, sessions, root, at, *others = row[width:]
        sums.tool_calls += calls
        if not failures and not turns:
            continue
        sums.tool_failures += failures
        sums.failed_turns += turns
        if sessions is None:
            sums.failed_at[root] = max(sums.failed_at.get(root, 0), at or 0)
        else:
            sums.summed += sessions
            newest = zip((root, *others[::2]), (at, *others[1::2]), strict=True)
            sums.summed_at |= {one: failed_at for one, failed_at in newest if one is not None}
    return groups.values()


def _find_sums(by: Sequence[str]) -> str | None:
    """Return which sums of days have these keys; None if none has."""
    asked = {*by}
    if asked == {*KEYS["kind"]}:
        return "kind"
    if not asked or not asked <= {*KEYS["place"]}:
        return None
    return "place" if "position" in asked else "length"


def has_days(store: Store, chosen: Filter) -> bool:
    """True if sums of days have all that a filter tests, and are there for who reads."""
    only_days = Filter(since=chosen.since, until=chosen.until)
    return chosen == only_days and store.has_rows("failure_day")


def select_days(
    chosen: Filter, *, what: str, sums: str, single: str, table: str = "call_day", test: str
) -> tuple[str, list[str]]:
    """Return the statement that reads sums of days and all other calls, and its values."""
    days, values = where(chosen)
    statement = DAYS.format(
        days=days or "where 1 = 1", what=what, sums=sums, single=single, table=table, test=test
    )
    return statement, values * DAYS.count("{days}")


def select_failing(store: Store, chosen: Filter, *, least: int) -> tuple[str, list[str]]:
    """Return the statement that reads the sessions in which a tool failed at least so often."""
    days, values = where(chosen)
    days = days or "where 1 = 1"
    failing = f"""
        select session_id from ({{calls}}) as calls
        group by session_id, tool having sum(tool_failures) >= {least}
    """
    calls = f"select session_id, tool, tool_failures from call_day {days} and {{test}}"
    test = f"{FAILED} and tool is not null"
    if least != SPIRAL_MINIMUM or not has_days(store, chosen):
        return failing.format(calls=calls.format(test=test)), values
    stale = "day in (select day from stale_day)"
    single = f"""
        {calls.format(test=f"{test} and {stale}")}
        union all
        {calls.format(test=f"{test} and not {stale}")} and session_id in (
            select session_id from failure_session {days} and has_days = 1
        )
    """
    statement = f"""
        select session_id from failure_session {days} and has_days = 0 and not {stale}
        union all {failing.format(calls=single)}
    """
    return statement, values * 4


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
        table = DESCRIBED.format(table=table)
    return table, values
