"""The sessions of an arm, each by its own calls: what Relight put into one is in no figure."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from relight.store import Store
from relight.store.provisions import JOINED

FIRST_CALLS = 30
# its sub-agents' tokens and dollars are its own; a session of which one turn has no price has none
FIGURES = """
    (select iif(sum(unpriced_turns) > 0, null, sum(cost_nanos + included_nanos))
        from session_day where root_id = session.id),
    (select sum(input_tokens) from session_day where root_id = session.id),
    (select sum(cache_read_tokens) from session_day where root_id = session.id),
    (select sum(cache_write_tokens) from session_day where root_id = session.id),
    (select sum(output_tokens) from session_day where root_id = session.id),
    (select sum(duration_ms) from turn where session_id = session.id),
    (select count(duration_ms) from turn where session_id = session.id)
"""
_COLUMNS = f"session.id, session.outcome, session.started_at, session.ended_at, {FIGURES}"
_DEALT = f"""
    select arm, {_COLUMNS} {JOINED} and experiment_id is null
        and (?1 is null or template_id = (select id from template where name = ?1))
    order by provision.created_at, session.id
"""
_CALLS = """
    select session_id, label, kind, at, finished_at, tool from tool_call
    where session_id in ({}) order by session_id, at, id
"""
AT_ONCE = 500

Arm = Literal["cold", "warm"]


class Session(Struct, frozen=True, kw_only=True):
    """One session of an arm, by its own calls alone."""

    arm: str
    outcome: bool | None
    calls: int
    judged_first: int
    failed_first: int
    failures: int
    tools: int
    # until the first call that worked, else as long as it was watched
    seconds: float | None
    has_success: bool
    cost_usd: float | None
    output_tokens: int | None
    # fresh, cached and answered
    tokens: int | None = None
    # of all model calls whose time is known
    model_seconds: float = 0.0
    timed_calls: int = 0
    # calls of tools that were not there
    missing_tools: int = 0


def read_sessions(store: Store, template: str | None = None) -> Iterator[Session]:
    """The sessions that followed provisions for which there was a template."""
    dealt = store.query(_DEALT, (template,))
    for place in range(0, len(dealt), AT_ONCE):
        some = dealt[place : place + AT_ONCE]
        calls = _read_calls(store, [session_id for _, session_id, *_ in some])
        for arm, *row in some:
            yield _count(arm, row, calls.get(row[0], []))


def read_one(store: Store, session_id: int, arm: str) -> Session | None:
    """One session as part of an arm, if it is in the store."""
    rows = store.query(f"select {_COLUMNS} from session where id = ?", (session_id,))
    return (
        _count(arm, rows[0], _read_calls(store, [session_id]).get(session_id, [])) if rows else None
    )


def _read_calls(store: Store, sessions: Sequence[int]) -> dict[int, list[list[Any]]]:
    found: dict[int, list[list[Any]]] = {}
    for session_id, *call in store.query(_CALLS.format(", ".join(map(str, sessions)))):
        found.setdefault(session_id, []).append(call)
    return found


def _count(arm: str, row: Sequence[Any], calls: Sequence[Sequence[Any]]) -> Session:
    _, outcome, began_at, ended_at, nanos, *tokens, model_ms, timed_calls = row
    judged = [label for label, *_ in calls if label in ("ok", "negative", "error")]
    first = judged[:FIRST_CALLS]
    worked = [
        finished_at or at for label, _, at, finished_at, _ in calls if label in ("ok", "negative")
    ]
    watched = worked[0] if worked else ended_at
    is_timed = began_at is not None and watched is not None
    known = [count for count in tokens if count is not None]
    return Session(
        arm=arm,
        outcome={"success": True, "failure": False}.get(outcome),
        calls=len(calls),
        judged_first=len(first),
        failed_first=first.count("error"),
        failures=judged.count("error"),
        tools=len({tool for *_, tool in calls}),
        seconds=max(watched - began_at, 0) / 1000 if is_timed else None,
        has_success=bool(worked),
        cost_usd=None if nanos is None else nanos / 1e9,
        output_tokens=tokens[-1],
        tokens=sum(known) if known else None,
        model_seconds=(model_ms or 0) / 1000,
        timed_calls=timed_calls,
        missing_tools=sum(kind == "tool_not_available" for _, kind, *_ in calls),
    )
