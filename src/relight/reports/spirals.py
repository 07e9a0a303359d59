"""Spirals: a tool that failed again and again in a session, and what that cost."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict

from relight.judging.spirals import SPIRAL_MINIMUM, JudgedCall, Spiral, find_spirals
from relight.model import row_id
from relight.store import Store
from relight.store.derive.scores import HARMLESS
from relight.store.queries import group_rows
from relight.store.queries import spirals as queries
from relight.store.queries.failures import find_failing_sessions
from relight.store.queries.filters import Filter
from relight.store.queries.spirals import SpiralCall, UsagePool
from relight.times import write_time


class SessionSpiral(Struct, frozen=True, kw_only=True):
    """A tool that failed again and again in one session, and what that cost."""

    tool: str
    kind: str
    count: int
    first_at: str | None
    last_at: str | None
    tokens: int | None
    cost_usd: float | None
    unpriced_turns: int
    is_estimated: bool


class NamedSpiral(SessionSpiral, frozen=True):
    """A spiral with its session's name and title."""

    session_id: str
    title: str | None


def read_spirals(store: Store, chosen: Filter) -> list[NamedSpiral]:
    """Return the spirals of all sessions in which a tool failed often, the costliest first."""
    sessions = find_failing_sessions(store, chosen, least=SPIRAL_MINIMUM)
    spirals = _find_all(store, [one.id for one in sessions])
    found = [
        NamedSpiral(session_id=one.session, title=one.title, **asdict(spiral))
        for one in sessions
        for spiral in spirals.get(one.id, ())
    ]
    return sorted(found, key=lambda one: (-(one.cost_usd or 0), -one.count, one.session_id))


def sum_spirals(store: Store, sessions: Sequence[str]) -> dict[str, float | None]:
    """Return what the spirals of these sessions and their sub-agents cost; None if unknown."""
    roots = {row_id("session", *name.split(":", 1)): name for name in sessions}
    among = queries.find_failing_below(store, list(roots), least=SPIRAL_MINIMUM)
    found = _find_all(store, [one.id for one in among])
    costs: dict[str, list[float | None]] = {name: [] for name in sessions}
    for one in among:
        costs[roots[one.root_id]] += [spiral.cost_usd for spiral in found.get(one.id, ())]
    return {name: _add_known(own) for name, own in costs.items()}


def _add_known(costs: Sequence[float | None]) -> float | None:
    """Return the sum of the known costs; None if there are costs and none is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known or not costs else None


def session_spirals(store: Store, session_id: int) -> list[SessionSpiral]:
    """Return the spirals of one session, in the order they began."""
    return _find_all(store, [session_id]).get(session_id, [])


def number_spirals(store: Store, session_id: int) -> dict[int, int]:
    """Return the number of the spiral, from 1, that each call is part of, by the call's row."""
    calls = queries.read_judged_calls(store, [session_id])
    found = find_spirals(_judge_calls(calls, None))
    return {
        calls[position].place: number
        for number, spiral in enumerate(found, start=1)
        for position in spiral.positions
    }


def _find_all(store: Store, sessions: Sequence[int]) -> dict[int, list[SessionSpiral]]:
    """Return the spirals of each of these sessions, in the order they began."""
    # calls of other tools neither are in a spiral nor end one
    judged = queries.read_judged_calls(store, sessions, least=SPIRAL_MINIMUM)
    calls = group_rows(judged, lambda call: call.session_id)
    loose = [one for one, own in calls.items() if any(call.turn_id is None for call in own)]
    # but their number says which part of a sum each call has
    calls |= group_rows(queries.read_judged_calls(store, loose), lambda call: call.session_id)
    pools = {pool.session_id: pool for pool in queries.read_pools(store, loose)}
    return {
        session_id: [
            _show(one, own) for one in find_spirals(_judge_calls(own, pools.get(session_id)))
        ]
        for session_id, own in calls.items()
    }


def _judge_calls(calls: Sequence[SpiralCall], pool: UsagePool | None) -> list[JudgedCall]:
    """Return the calls as spirals are found among them, each with its part of the usage.

    Some usage is known only as a sum over many model calls. Each tool call is then charged with
    an equal part: that of one model call, or less if model calls made several tool calls.
    """
    loose = sum(call.turn_id is None for call in calls)
    judged = []
    for call in calls:
        used = pool if call.turn_id is None else call
        made = (used.calls or 0) if used else 0
        tokens, nanos = (used.tokens, used.cost_nanos) if used else (None, None)
        is_share = made > 1 or (made == 1 and call.turn_id is None)
        together = loose if call.turn_id is None else call.together or 0
        parts = max(made, together) if is_share else 1
        judged.append(
            JudgedCall(
                call.tool,
                str(call.fingerprint),
                call.label or "unknown",
                call.turn_id,
                None if tokens is None else tokens / parts,
                None if nanos is None else nanos / parts,
                is_harmless=HARMLESS in (call.work or "").split(),
                is_share=is_share,
            )
        )
    return judged


def _show(spiral: Spiral, calls: Sequence[SpiralCall]) -> SessionSpiral:
    return SessionSpiral(
        tool=spiral.tool,
        kind=spiral.kind,
        count=spiral.count,
        first_at=write_time(calls[spiral.first].at),
        last_at=write_time(calls[spiral.last].at),
        tokens=spiral.tokens,
        cost_usd=None if spiral.cost_nanos is None else spiral.cost_nanos / 1e9,
        unpriced_turns=spiral.unknown_turns,
        is_estimated=spiral.is_estimated,
    )
