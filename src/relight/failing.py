"""What went wrong: failures by kind and tool, and spirals with what they burnt."""

from typing import Any

from relight.reports import Filter, where
from relight.spirals import JudgedCall, Spiral, find_spirals
from relight.store import Store
from relight.times import write_time

SPIRAL_MINIMUM = 3
FAILED_CALLS = """(
    select tool_call.kind, tool_call.tool, tool_call.reason, tool_call.evidence, tool_call.at,
        tool_call.day, session.root_id, session.source, session.project,
        coalesce(turn.model, session.model) as model
    from tool_call join session on session.id = tool_call.session_id
    left join turn on turn.id = tool_call.turn_id
    where tool_call.label = 'error'
    union all
    select turn.failure, null, turn.failure, turn.failure_text, turn.at, turn.day, session.root_id,
        session.source, session.project, turn.model
    from turn join session on session.id = turn.session_id
    where turn.failure is not null
)"""
CALLS = """
    select tool_call.tool, tool_call.fingerprint, tool_call.label, tool_call.turn_id, tool_call.at,
        turn.input_tokens + coalesce(turn.cache_read_tokens, 0)
            + coalesce(turn.cache_write_tokens, 0) + turn.output_tokens,
        turn.cost_nanos
    from tool_call left join turn on turn.id = tool_call.turn_id
    where tool_call.session_id = ? order by tool_call.at is null, tool_call.at, tool_call.rowid
"""


def read_failures(store: Store, chosen: Filter) -> dict[str, Any]:
    """Failures by kind and tool, most frequent first; model calls have no tool."""
    test, values = where(chosen)
    rows = store.query(
        "select coalesce(kind, 'unknown'), tool, count(*), count(distinct root_id), max(at),"
        f" min(reason), min(evidence) from {FAILED_CALLS} {test}"
        " group by 1, tool order by 3 desc, 1, tool",
        values,
    )
    failures = [
        {
            "kind": kind,
            "tool": tool,
            "count": count,
            "sessions": sessions,
            "last_at": write_time(last_at),
            "reason": reason,
            "example": evidence,
        }
        for kind, tool, count, sessions, last_at, reason, evidence in rows
    ]
    return {"failures": failures, "spirals": _read_spirals(store, chosen)}


def _read_spirals(store: Store, chosen: Filter) -> list[dict[str, Any]]:
    """Spirals of all sessions in which a tool failed often enough, the dearest first."""
    test, values = where(chosen)
    rows = store.query(
        "select distinct id, source || ':' || key, title from (select session.id, session.source,"
        " session.key, session.title, session.project, tool_call.day,"
        " coalesce(session.model, '') as model, tool_call.tool"
        " from tool_call join session on session.id = tool_call.session_id"
        f" where tool_call.label = 'error') {test}"
        f" group by id, tool having count(*) >= {SPIRAL_MINIMUM}",
        values,
    )
    found = [
        {"session": name, "title": title, **spiral}
        for session_id, name, title in rows
        for spiral in session_spirals(store, session_id)
    ]
    return sorted(found, key=lambda one: (-(one["cost_usd"] or 0), -one["count"], one["session"]))


def session_spirals(store: Store, session_id: int) -> list[dict[str, Any]]:
    """The spirals of one session, in the order they began."""
    rows = store.query(CALLS, (session_id,))
    calls = [
        JudgedCall(tool, str(fingerprint), label or "unknown", turn, tokens, nanos)
        for tool, fingerprint, label, turn, _, tokens, nanos in rows
    ]
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
    }
