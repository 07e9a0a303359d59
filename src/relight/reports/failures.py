"""What went wrong: failures by kind and tool, and spirals with what they burnt."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from relight.judging.spirals import JudgedCall, Spiral, find_spirals
from relight.reports.filters import Filter, where
from relight.reports.totals import TOOLS
from relight.store import Store
from relight.store.derive.words import HARMLESS
from relight.times import write_time

SPIRAL_MINIMUM = 3
AT_ONCE = 500
FAILED = "(tool_failures > 0 or failed_turns > 0)"
# the example is that of the session in which a kind and tool failed last
KINDS = """
    select kind, tool, sum(tool_failures) + sum(failed_turns), count(distinct root_id), session_id,
        nullif(max(coalesce(last_at, 0)), 0)
    from call_day {test} group by kind, tool order by 3 desc, kind, tool
"""
CALL_EXAMPLE = """
    select reason, evidence from tool_call
    where session_id = ? and tool = ? and kind is ? and label = 'error' order by at desc limit 1
"""
TURN_EXAMPLE = """
    select failure, failure_text from turn
    where session_id = ? and ? is null and failure = ? order by at desc limit 1
"""
TOKENS = """
    turn.input_tokens + coalesce(turn.cache_read_tokens, 0) + coalesce(turn.cache_write_tokens, 0)
        + turn.output_tokens
"""
CALLS = f"""
    select tool_call.session_id, tool_call.tool, tool_call.fingerprint, tool_call.label,
        tool_call.turn_id, tool_call.at, tool_call.work, turn.calls, {TOKENS}, turn.cost_nanos
    from tool_call left join turn on turn.id = tool_call.turn_id
    where tool_call.session_id {{among}}
    order by tool_call.at is null, tool_call.at, tool_call.place
"""
# What was used by turns that no call is known to be of: some clients tell only sums.
POOLS = f"""
    select turn.session_id, sum(turn.calls), sum({TOKENS}),
        iif(count(turn.cost_nanos) = count(*), sum(turn.cost_nanos), null)
    from turn where turn.session_id {{among}} and turn.calls > 0
        and coalesce(turn.role, 'aggregator') = 'aggregator'
        and not exists (
            select 1 from tool_call
            where tool_call.session_id = turn.session_id and tool_call.turn_id = turn.id
        )
    group by turn.session_id
"""
Used = tuple[int, int | None, int | None]  # model calls, their tokens and their cost
NOTHING: Used = (0, None, None)


def read_failures(store: Store, chosen: Filter) -> dict[str, Any]:
    """Failures by kind and tool, most frequent first; model calls have no tool."""
    test, values = _where_failed(chosen)
    failures = []
    for kind, tool, count, sessions, last, last_at in store.query(KINDS.format(test=test), values):
        example = TURN_EXAMPLE if tool is None else CALL_EXAMPLE
        reason, evidence = store.query(example, (last, tool, kind))[0]
        failures.append(
            {
                "kind": kind or "unknown",
                "tool": tool,
                "count": count,
                "sessions": sessions,
                "last_at": write_time(last_at),
                "reason": reason,
                "example": evidence,
            }
        )
    return {"failures": failures, "spirals": read_spirals(store, chosen)}


def count_days(store: Store, chosen: Filter) -> list[tuple[str, str, int]]:
    """How often each kind of failure came on each day."""
    test, values = _where_failed(chosen)
    return store.query(
        "select day, coalesce(kind, 'unknown'), sum(tool_failures) + sum(failed_turns)"
        f" from call_day {test} group by day, kind",
        values,
    )


def count_tools(store: Store, chosen: Filter) -> list[tuple[str, int, int]]:
    """Every tool with how often it was called and how often that failed, the most failing first."""
    test, values = where(chosen)
    return store.query(
        "select tool, sum(tool_calls), sum(tool_failures) as failed from call_day"
        f" {test or 'where 1 = 1'} and tool in ({TOOLS})"
        " group by tool order by failed desc, sum(tool_calls) desc, tool",
        values,
    )


def _where_failed(chosen: Filter) -> tuple[str, list[str]]:
    test, values = where(chosen)
    return f"{test} and {FAILED}" if test else f"where {FAILED}", values


def read_spirals(store: Store, chosen: Filter) -> list[dict[str, Any]]:
    """Spirals of all sessions in which a tool failed often enough, the dearest first."""
    test, values = _where_failed(chosen)
    rows = store.query(
        "select distinct id, source || ':' || key, title from session where id in ("
        f" select session_id from call_day {test} and tool is not null"
        f" group by session_id, tool having sum(tool_failures) >= {SPIRAL_MINIMUM})",
        values,
    )
    told = {session_id: {"session": name, "title": title} for session_id, name, title in rows}
    found = [
        told[session_id] | spiral
        for session_id, spirals in _find_all(store, list(told)).items()
        for spiral in spirals
    ]
    return sorted(found, key=lambda one: (-(one["cost_usd"] or 0), -one["count"], one["session"]))


def session_spirals(store: Store, session_id: int) -> list[dict[str, Any]]:
    """The spirals of one session, in the order they began."""
    return _find_all(store, [session_id]).get(session_id, [])


def _find_all(store: Store, sessions: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """The spirals of these sessions, each in the order they began."""
    calls: dict[int, list[tuple[Any, ...]]] = {}
    pools: dict[int, Used] = {}
    for place in range(0, len(sessions), AT_ONCE):
        among = f"in ({', '.join(map(str, sessions[place : place + AT_ONCE]))})"
        for session_id, *call in store.query(CALLS.format(among=among)):
            calls.setdefault(session_id, []).append(tuple(call))
        for session_id, *used in store.query(POOLS.format(among=among)):
            pools[session_id] = (used[0], used[1], used[2])
    return {
        session_id: _find_spirals(own, pools.get(session_id, NOTHING))
        for session_id, own in calls.items()
    }


def _find_spirals(rows: Sequence[tuple[Any, ...]], pool: Used) -> list[dict[str, Any]]:
    """The spirals among a session's calls.

    Where a sum stands for many model calls, each tool call is charged with an equal part of it:
    one model call's, or less, where model calls asked for several tools at once.
    """
    together = Counter(turn for _, _, _, turn, *_ in rows)
    calls = []
    for tool, asked, label, turn, _, work, *own in rows:
        made, tokens, nanos = pool if turn is None else (own[0] or 0, own[1], own[2])
        is_share = made > 1 or (made == 1 and turn is None)
        parts = max(made, together[turn]) if is_share else 1
        calls.append(
            JudgedCall(
                tool,
                str(asked),
                label or "unknown",
                turn,
                None if tokens is None else tokens / parts,
                None if nanos is None else nanos / parts,
                is_harmless=HARMLESS in (work or "").split(),
                is_share=is_share,
            )
        )
    return [_tell(spiral, [row[4] for row in rows]) for spiral in find_spirals(calls)]


def _tell(spiral: Spiral, times: list[int | None]) -> dict[str, Any]:
    return {
        "tool": spiral.tool,
        "kind": spiral.kind,
        "count": spiral.count,
        "first_at": write_time(times[spiral.first]),
        "last_at": write_time(times[spiral.last]),
        "tokens": spiral.tokens,
        "cost_usd": None if spiral.cost_nanos is None else spiral.cost_nanos / 1e9,
        "unpriced_turns": spiral.unknown_turns,
        "is_estimated": spiral.is_estimated,
    }
