"""Failures by kind, tool and day, and the calls among which spirals are found."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from relight.store import Store
from relight.store.queries.filters import Filter, where
from relight.store.queries.totals import TOOLS, SessionName
from relight.times import write_time

FAILED = "(tool_failures > 0 or failed_turns > 0)"
SPREAD = """coalesce(sum(calls), 0) as calls, coalesce(sum(failed), 0) as failed,
    coalesce(sum(case when calls > 0 then 1 else 0 end), 0) as sessions,
    coalesce(sum(calls * calls), 0) as calls_squared,
    coalesce(sum(failed * failed), 0) as failed_squared,
    coalesce(sum(calls * failed), 0) as calls_times_failed"""
# the example of a kind and tool is from the session in which it failed last
KINDS = """
    select kind, tool, sum(failures) as failures, count(distinct root_id) as sessions,
        max(case when place = 1 then session_id end) as last_session,
        nullif(max(coalesce(last_at, 0)), 0) as last_at
    from (
        select kind, tool, tool_failures + failed_turns as failures, root_id, session_id, last_at,
            row_number() over (
                partition by kind, tool order by coalesce(last_at, 0) desc, session_id
            ) as place
        from call_day {test}
    ) as failed
    group by kind, tool order by failures desc, kind nulls first, tool nulls first
"""
TOKENS = """
    turn.input_tokens + coalesce(turn.cache_read_tokens, 0) + coalesce(turn.cache_write_tokens, 0)
        + turn.output_tokens
"""
CALLS = f"""
    select tool_call.session_id, tool_call.tool, tool_call.fingerprint, tool_call.label,
        tool_call.turn_id, tool_call.at, tool_call.work, turn.calls, {TOKENS} as tokens,
        turn.cost_nanos, tool_call.place
    from tool_call left join turn on turn.id = tool_call.turn_id
    where tool_call.session_id in ({{among}})
    order by tool_call.at nulls last, tool_call.place
"""
# Some clients report only sums: the usage of turns to which no call is known to belong.
POOLS = f"""
    select turn.session_id, sum(turn.calls) as calls, sum({TOKENS}) as tokens,
        case when count(turn.cost_nanos) = count(*) then sum(turn.cost_nanos) end as cost_nanos
    from turn where turn.session_id in ({{among}}) and turn.calls > 0
        and coalesce(turn.role, 'aggregator') = 'aggregator'
        and not exists (
            select 1 from tool_call
            where tool_call.session_id = turn.session_id and tool_call.turn_id = turn.id
        )
    group by turn.session_id
"""
AT_ONCE = 500


class FailureSums(Struct, frozen=True):
    """Failures of one kind and tool, and the session of the last one; model calls have no tool."""

    kind: str | None
    tool: str | None
    failures: int
    sessions: int
    last_session: int
    last_at: int | None


class FailureGroup(Struct, frozen=True):
    """Failures of one kind and tool, with the last one as example; model calls have no tool."""

    kind: str
    tool: str | None
    count: int
    sessions: int
    last_at: str | None
    reason: str | None
    example: str | None


class FailureDay(Struct, frozen=True):
    """Failures of one kind on one day."""

    day: str
    kind: str
    failures: int


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


class SpiralCall(Struct, frozen=True):
    """A tool call with the usage of its turn, if that is known."""

    session_id: int
    tool: str
    fingerprint: int
    label: Literal["ok", "negative", "error", "unknown"] | None
    turn_id: int | None
    at: int | None
    work: str | None
    calls: int | None
    tokens: int | None
    cost_nanos: int | None
    place: int


class UsagePool(Struct, frozen=True):
    """The usage of a session's turns to which no call is known to belong."""

    session_id: int
    calls: int
    tokens: int | None
    cost_nanos: int | None


def read_failure_groups(store: Store, chosen: Filter) -> list[FailureGroup]:
    """Return failures by kind and tool, the most frequent first."""
    test, values = _where_failed(chosen)
    groups = []
    for one in store.read(FailureSums, KINDS.format(test=test), values):
        reason, example = _find_example(store, one)
        groups.append(
            FailureGroup(
                kind=one.kind or "unknown",
                tool=one.tool,
                count=one.failures,
                sessions=one.sessions,
                last_at=write_time(one.last_at),
                reason=reason,
                example=example,
            )
        )
    return groups


def _find_example(store: Store, found: FailureSums) -> tuple[str | None, str | None]:
    """Return reason and evidence of the last failure of a kind and tool in its last session."""
    if found.tool is None:
        statement = (
            "select failure, failure_text from turn"
            " where session_id = ? and failure = ? order by at desc nulls last limit 1"
        )
        values = [found.last_session, found.kind]
    else:
        statement = (
            "select reason, evidence from tool_call where session_id = ? and tool = ?"
            " and coalesce(kind, '') = ? and label = 'error' order by at desc nulls last limit 1"
        )
        values = [found.last_session, found.tool, found.kind or ""]
    ((reason, evidence),) = store.query(statement, values)
    return reason, evidence


def count_days(store: Store, chosen: Filter) -> list[FailureDay]:
    """Return the number of failures of each kind on each day."""
    test, values = _where_failed(chosen)
    return store.read(
        FailureDay,
        "select day, coalesce(kind, 'unknown') as kind,"
        " sum(tool_failures) + sum(failed_turns) as failures"
        f" from call_day {test} group by day, kind",
        values,
    )


def count_tools(store: Store, chosen: Filter, *, kind: str = "") -> list[ToolCount]:
    """Return calls and failures of every tool, the one with most failures first.

    With a kind, only the failures of that kind count.
    """
    test, values = where(chosen)
    failed = "sum(tool_failures)"
    if kind:
        failed = "sum(case when coalesce(kind, 'unknown') = ? then tool_failures else 0 end)"
        values = [kind, *values]
    return store.read(
        ToolCount,
        f"select {SPREAD}, tool from (select tool, sum(tool_calls) as calls, {failed} as failed"
        f" from call_day {test or 'where 1 = 1'} and tool in ({TOOLS}) group by tool, root_id)"
        " as one group by tool order by failed desc, calls desc, tool",
        values,
    )


def spread_calls(store: Store, chosen: Filter) -> CallSpread:
    """Return all calls and failures, and how they are spread over sessions."""
    test, values = where(chosen)
    found = store.read(
        CallSpread,
        f"select {SPREAD} from (select sum(tool_calls) as calls, sum(tool_failures) as failed"
        f" from session_day {test} group by root_id) as one",
        values,
    )
    return found[0]


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


def read_judged_calls(store: Store, sessions: Sequence[int]) -> list[SpiralCall]:
    """Return the tool calls of these sessions, each session's in the order of their times."""
    return [
        call
        for among in _split(sessions)
        for call in store.read(SpiralCall, CALLS.format(among=among))
    ]


def read_pools(store: Store, sessions: Sequence[int]) -> list[UsagePool]:
    """Return the usage of turns without calls, for these sessions that have any."""
    return [
        pool
        for among in _split(sessions)
        for pool in store.read(UsagePool, POOLS.format(among=among))
    ]


def _split(sessions: Sequence[int]) -> list[str]:
    starts = range(0, len(sessions), AT_ONCE)
    return [", ".join(map(str, sessions[start : start + AT_ONCE])) for start in starts]


def _where_failed(chosen: Filter) -> tuple[str, list[str]]:
    test, values = where(chosen)
    return f"{test} and {FAILED}" if test else f"where {FAILED}", values
