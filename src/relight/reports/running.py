"""The sessions that run now: the last step, the context, the cost and its rate, and spirals."""

import time

from msgspec import Struct

from relight.judging.spirals import JudgedCall, find_open_spiral
from relight.prices import context_window
from relight.store import Store
from relight.store.derive.scores import HARMLESS
from relight.store.queries import running as queries
from relight.store.queries import take_fields
from relight.store.queries.running import LastCall, RunningRow
from relight.store.sql import read_usd
from relight.times import write_time

# a session without a record for so long is not running; a call that runs may take longer
RUNNING_MS = 5 * 60_000
CALLING_MS = 30 * 60_000
RATE_MS = 10 * 60_000
# a record that is further ahead was written by another clock: it does not say what runs now
AHEAD_MS = RUNNING_MS
LAST_CALLS = 20


class RunningSession(Struct, frozen=True, kw_only=True):
    """A session that is going on, with its sub-agents.

    `step` says what happened last. `spiral` is set while the last calls fail again and again.
    `usd_per_hour` is the rate of the last ten minutes at list price, or of the session's time if
    that is shorter.
    """

    session_id: str
    source: str
    title: str | None
    project: str | None
    branch: str | None
    model: str | None
    started_at: str | None
    last_at: str | None
    idle_seconds: float
    step: str
    spiral: str | None
    turns: int
    context_tokens: int | None
    context_share: float | None
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    usd_per_hour: float


class RunningSessions(Struct, frozen=True):
    """The sessions that run at a moment, the latest record first."""

    at: str | None
    sessions: list[RunningSession]


def read_running_sessions(store: Store, *, now: int | None = None) -> RunningSessions:
    """Return the sessions with a record of the last minutes, or with a call that still runs."""
    now = round(time.time() * 1000) if now is None else now
    found = queries.read_running(
        store, since=now - CALLING_MS, until=now + AHEAD_MS, recent=now - RATE_MS
    )
    alive = [
        one
        for one in found
        if now - one.last_at <= (CALLING_MS if one.ending == "call" else RUNNING_MS)
    ]
    return RunningSessions(write_time(now), [_describe(store, one, now) for one in alive])


def _describe(store: Store, one: RunningRow, now: int) -> RunningSession:
    turn = queries.find_last_turn(store, one.id)
    calls = queries.read_last_calls(store, one.id, limit=LAST_CALLS)
    model = turn.model if turn and turn.model else one.model
    window = context_window(model, turn.provider) if turn and turn.context else None
    context = turn.context if turn else None
    lasted = min(max(now - (one.started_at or now), 60_000), RATE_MS)
    return RunningSession(
        **take_fields(one, RunningSession, but=("model", "started_at", "last_at")),
        session_id=one.session,
        model=model,
        started_at=write_time(one.started_at),
        last_at=write_time(one.last_at),
        idle_seconds=max(now - one.last_at, 0) / 1000,
        step=_name_step(one, calls[-1] if calls else None),
        spiral=_find_spiral(calls),
        context_tokens=context,
        context_share=context / window if context is not None and window else None,
        cost_usd=read_usd(one.cost_nanos),
        included_usd=one.included_nanos / 1e9,
        usd_per_hour=one.recent_nanos / 1e9 * 3_600_000 / lasted,
    )


def _name_step(one: RunningRow, call: LastCall | None) -> str:
    """The last step, in a few words."""
    tool = call.tool if call else "a tool"
    if call is not None and call.finished_at is None and one.ending in ("call", "result"):
        return f"{tool} runs"
    words = {
        "prompt": "prompt, the model works",
        "answer": "answered",
        "empty": "answered nothing",
        "call": f"{tool} runs",
        "result": f"{tool} {call.label or 'done'}, the model works" if call else "the model works",
        "api_error": "the model call failed",
        "interrupted": "interrupted",
    }
    return words.get(one.ending or "", "begun")


def _find_spiral(calls: list[LastCall]) -> str | None:
    """The spiral that the last calls are in, in words."""
    judged = [
        JudgedCall(
            call.tool,
            str(call.fingerprint),
            call.label if call.label in ("ok", "negative", "error") else "unknown",  # type: ignore[arg-type]
            is_harmless=HARMLESS in (call.work or "").split(" "),
        )
        for call in calls
    ]
    found = find_open_spiral(judged)
    if found is None:
        return None
    what = "the same failing call" if found.kind == "identical" else "failed"
    return f"{found.tool}: {what} {found.count} times"
