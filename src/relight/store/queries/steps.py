"""The turns and tool calls of a session.

A fork shares turns with the session that it copied: both have them, one counts them.
"""

from collections.abc import Sequence

from msgspec import Struct

from relight.model import TokenColumns
from relight.store import Store
from relight.store.sql import column_list, flag, read_usd
from relight.times import write_time

# Two parts, each found by its index: for one with `or`, PostgreSQL reads all turns.
OWN_TURNS = """(
    select * from turn where session_id = :session
    union all
    select turn.* from shared_turn join turn on turn.id = shared_turn.turn_id
    where shared_turn.session_id = :session and turn.session_id <> :session
) as turn"""
OWN_CALLS = """(
    select * from tool_call where session_id = :session
    union all
    select tool_call.* from shared_turn join tool_call on tool_call.turn_id = shared_turn.turn_id
    where shared_turn.session_id = :session and tool_call.session_id <> :session
) as tool_call"""
IN_ORDER = "order by at nulls last, place"
# an index finds all sessions below one root; `union` ends where parents form a cycle
FAMILY = """
    with recursive family (id, root) as (
        select id, root_id from session where id = :session
        union
        select session.id, root from family
        join session on root_id = root and parent_id = family.id and parent_kind = 'subagent'
    )
"""


class SessionTurn(TokenColumns, frozen=True):
    """One turn of a session: a model call, or many of which only the sum is known."""

    at: str | None
    model: str | None
    provider: str | None
    role: str | None
    calls: int
    usage_status: str
    cost_status: str | None
    cost_source: str | None
    duration_ms: int | None
    first_token_ms: int | None
    failure: str | None
    failure_text: str | None
    cost_usd: float | None
    is_shared: bool


class TurnCost(Struct, frozen=True):
    """The cost of a turn, and how it is known."""

    calls: int
    cost_usd: float | None
    cost_status: str | None


class SessionCall(Struct, frozen=True):
    """One tool call of a session, with its verdict."""

    at: str | None
    finished_at: str | None
    tool: str
    exit_code: int | None
    duration_ms: int | None
    label: str | None
    kind: str | None
    reason: str | None
    evidence: str | None


class TraceTurn(TokenColumns, frozen=True):
    """A turn as a trace needs it: row ids, Unix milliseconds and nano-dollars."""

    id: int
    at: int | None
    model: str | None
    provider: str | None
    role: str | None
    calls: int
    usage_status: str
    cost_status: str
    cost_nanos: int | None
    duration_ms: int | None
    first_token_ms: int | None
    failure: str | None
    failure_text: str | None
    total_id: int | None
    is_shared: bool

    @property
    def is_late(self) -> bool:
        """True for a sum over many calls, and for the call that a session was cut off in."""
        return self.total_id is not None or self.usage_status in ("reconciled", "unanswered")

    @property
    def is_spoken(self) -> bool:
        """True if it is one answer in the conversation, not an adviser's, a sum or a failure."""
        is_single = self.calls == 1 and not self.is_late
        return is_single and self.role in (None, "aggregator")


class TraceCall(Struct, frozen=True):
    """A tool call as a trace needs it."""

    id: int
    place: int
    turn_id: int | None
    at: int | None
    finished_at: int | None
    tool: str
    exit_code: int | None
    duration_ms: int | None
    label: str | None
    kind: str | None
    reason: str | None
    evidence: str | None


class SubAgent(Struct, frozen=True):
    """A sub-agent directly below a session, and its beginning."""

    session_id: str
    key: str
    title: str | None
    started_at: int | None


def read_turns(store: Store, session_id: int) -> list[SessionTurn]:
    """Return a session's turns in the order of their times."""
    made = {"cost_usd": "cost_nanos", "is_shared": flag("session_id <> :session")}
    columns = [f"{made.get(name, name)} as {name}" for name in SessionTurn.__struct_fields__]
    return store.read(
        SessionTurn,
        f"select {', '.join(columns)} from {OWN_TURNS} {IN_ORDER}",
        {"session": session_id},
        {"at": write_time, "cost_usd": read_usd, "is_shared": bool},
    )


def read_family_costs(store: Store, session_id: int) -> list[TurnCost]:
    """Return the costs of the turns that a session and its sub-agents own, in their order."""
    return store.read(
        TurnCost,
        f"{FAMILY} select calls, cost_nanos as cost_usd, cost_status from turn"
        f" where session_id in (select id from family) {IN_ORDER}",
        {"session": session_id},
        {"cost_usd": read_usd},
    )


def read_tool_calls(store: Store, session_id: int) -> list[SessionCall]:
    """Return a session's tool calls in the order of their times."""
    return store.read(
        SessionCall,
        f"select {column_list(SessionCall)} from {OWN_CALLS} {IN_ORDER}",
        {"session": session_id},
        {"at": write_time, "finished_at": write_time},
    )


def read_trace_turns(store: Store, session_id: int) -> list[TraceTurn]:
    """Return a session's turns in the order of their times."""
    known = ", ".join(TraceTurn.__struct_fields__[:-1])
    return store.read(
        TraceTurn,
        f"select {known}, {flag('session_id <> :session')} as is_shared"
        f" from {OWN_TURNS} {IN_ORDER}",
        {"session": session_id},
        {"is_shared": bool},
    )


def read_trace_calls(store: Store, session_id: int) -> list[TraceCall]:
    """Return a session's tool calls in the order of their times."""
    return store.read(
        TraceCall,
        f"select {column_list(TraceCall)} from {OWN_CALLS} {IN_ORDER}",
        {"session": session_id},
    )


def read_test_runs(store: Store, session_id: int) -> dict[int, str]:
    """Return `passed` or `failed` for each call of a session that ran tests, by the call's id."""
    statement = f"select id, tests from {OWN_CALLS} where tests is not null"
    return dict(store.query(statement, {"session": session_id}))


def find_trace_calls(store: Store, ids: Sequence[int]) -> list[TraceCall]:
    """Return calls by their ids: a fork repeats those of its parent."""
    found: list[TraceCall] = []
    for start in range(0, len(ids), 500):
        some = ", ".join(map(str, ids[start : start + 500]))
        statement = f"select {column_list(TraceCall)} from tool_call where id in ({some})"
        found += store.read(TraceCall, statement)
    return found


def read_subagents(store: Store, session_id: int) -> list[SubAgent]:
    """Return the sub-agents directly below a session, in the order they began."""
    return store.read(
        SubAgent,
        "select source || ':' || key as session_id, key, title, started_at from session"
        " where parent_id = ? and parent_kind = 'subagent' order by started_at nulls last, key",
        (session_id,),
    )
