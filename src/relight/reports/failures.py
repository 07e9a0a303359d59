"""Failed runs and sessions, failed calls by kind, tool and place, and spirals with their costs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.errors import RelightError
from relight.judging.spirals import SPIRAL_MINIMUM, JudgedCall, Spiral, find_spirals
from relight.model import row_id
from relight.reports.cures import CauseCure, read_cures
from relight.reports.failed_work import (
    FailedReport,
    FailedWork,
    read_failed_totals,
    read_failed_work,
)
from relight.store import Store
from relight.store.derive.scores import HARMLESS
from relight.store.queries import failures as queries
from relight.store.queries import spirals as spiral_queries
from relight.store.queries.failures import FAILURE_KEYS, FailureGroup
from relight.store.queries.filters import Filter
from relight.store.queries.spirals import SpiralCall, UsagePool
from relight.times import write_time

if TYPE_CHECKING:
    from relight.reports.narrowing import NoMatch


KINDS = ("kind", "tool")


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


class FailureReport(FailedReport, frozen=True, kw_only=True):
    """Failed runs and sessions; failed calls by the keys `by`; spirals, the costliest first.

    `cures` are causes of failed calls, as far as sessions were read for lessons.
    """

    by: list[str]
    failures: list[FailureGroup]
    spirals: list[NamedSpiral]
    cures: list[CauseCure]

    @property
    def is_empty(self) -> bool:
        """True if nothing failed."""
        return not self.failures and not self.causes


class FailuresSince(FailureReport, frozen=True):
    """The failures and spirals of some days; None is no bound."""

    since: str | None
    until: str | None


def read_failures(
    store: Store,
    chosen: Filter,
    by: Sequence[str] = KINDS,
    *,
    slots: Mapping[str, int | None] | None = None,
) -> FailureReport:
    """Return the failures and spirals of a part of the record; `slots` as in `read_failed_work`."""
    keys = check_failure_keys(by)
    found = read_failed_work(store, chosen, slots=slots)
    return FailureReport(
        failed=found.failed,
        causes=found.causes,
        runs=add_burnt(store, found.runs),
        by=keys,
        failures=queries.read_failure_groups(store, chosen, keys),
        spirals=read_spirals(store, chosen),
        cures=read_cures(store, chosen),
    )


def add_burnt(store: Store, failed: Sequence[FailedWork]) -> list[FailedWork]:
    """Return failed runs and sessions with the part of their cost that went into spirals."""
    burnt = _sum_spirals(store, [one.session_id for one in failed if one.session_id])
    return [replace(one, burnt_usd=burnt.get(one.session_id or "")) for one in failed]


def check_failure_keys(by: Sequence[str]) -> list[str]:
    """Return the keys that failed calls are grouped by, each once; raise if one is unknown."""
    for key in by:
        if key not in FAILURE_KEYS:
            hint = f"the keys are {', '.join(FAILURE_KEYS)}"
            raise RelightError(f"cannot group failures by {key!r}", hint)
    return list(dict.fromkeys(by)) or list(KINDS)


def _sum_spirals(store: Store, sessions: Sequence[str]) -> dict[str, float | None]:
    """Return what the spirals of these sessions and their sub-agents cost; None if unknown."""
    roots = {row_id("session", *name.split(":", 1)): name for name in sessions}
    among = spiral_queries.find_failing_below(store, list(roots), least=SPIRAL_MINIMUM)
    found = _find_all(store, [one.id for one in among])
    costs: dict[str, list[float | None]] = {name: [] for name in sessions}
    for one in among:
        costs[roots[one.root_id]] += [spiral.cost_usd for spiral in found.get(one.id, ())]
    return {name: _add_known(own) for name, own in costs.items()}


def _add_known(costs: Sequence[float | None]) -> float | None:
    """Return the sum of the known costs; None if there are costs and none is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known or not costs else None


def explain_no_failure(store: Store, chosen: Filter, *, job: str | None = None) -> "NoMatch":
    """Return why there are no failures; `job` is the name of the filter's jobs."""
    from relight.reports.narrowing import explain_no_match, list_given, make_filter

    def count(given: Mapping[str, str]) -> int:
        part = make_filter(given, jobs=chosen.jobs)
        failed = read_failed_totals(store, part)
        calls = sum(one.failures for one in queries.count_failures_by_day(store, part))
        return failed.runs + failed.sessions + calls

    return explain_no_match(store, "failure", list_given(chosen, job=job), count)


def read_spirals(store: Store, chosen: Filter) -> list[NamedSpiral]:
    """Return the spirals of all sessions in which a tool failed often, the costliest first."""
    sessions = queries.find_failing_sessions(store, chosen, least=SPIRAL_MINIMUM)
    spirals = _find_all(store, [one.id for one in sessions])
    found = [
        NamedSpiral(session_id=one.session, title=one.title, **asdict(spiral))
        for one in sessions
        for spiral in spirals.get(one.id, ())
    ]
    return sorted(found, key=lambda one: (-(one.cost_usd or 0), -one.count, one.session_id))


def session_spirals(store: Store, session_id: int) -> list[SessionSpiral]:
    """Return the spirals of one session, in the order they began."""
    return _find_all(store, [session_id]).get(session_id, [])


def number_spirals(store: Store, session_id: int) -> dict[int, int]:
    """Return the number of the spiral, from 1, that each call is part of, by the call's row."""
    calls = spiral_queries.read_judged_calls(store, [session_id])
    found = find_spirals(_judge_calls(calls, None))
    return {
        calls[position].place: number
        for number, spiral in enumerate(found, start=1)
        for position in spiral.positions
    }


def _find_all(store: Store, sessions: Sequence[int]) -> dict[int, list[SessionSpiral]]:
    """Return the spirals of each of these sessions, in the order they began."""
    calls: dict[int, list[SpiralCall]] = {}
    for call in spiral_queries.read_judged_calls(store, sessions):
        calls.setdefault(call.session_id, []).append(call)
    loose = [one for one, own in calls.items() if any(call.turn_id is None for call in own)]
    pools = {pool.session_id: pool for pool in spiral_queries.read_pools(store, loose)}
    return {
        session_id: _find_spirals(own, pools.get(session_id)) for session_id, own in calls.items()
    }


def _find_spirals(calls: Sequence[SpiralCall], pool: UsagePool | None) -> list[SessionSpiral]:
    """Return the spirals among a session's calls.

    Some usage is known only as a sum over many model calls. Each tool call is then charged with
    an equal part: that of one model call, or less if model calls made several tool calls.
    """
    return [_show(spiral, calls) for spiral in find_spirals(_judge_calls(calls, pool))]


def _judge_calls(calls: Sequence[SpiralCall], pool: UsagePool | None) -> list[JudgedCall]:
    """Return the calls as spirals are found among them, each with its part of the usage."""
    together = Counter(call.turn_id for call in calls)
    judged = []
    for call in calls:
        used = pool if call.turn_id is None else call
        made = (used.calls or 0) if used else 0
        tokens, nanos = (used.tokens, used.cost_nanos) if used else (None, None)
        is_share = made > 1 or (made == 1 and call.turn_id is None)
        parts = max(made, together[call.turn_id]) if is_share else 1
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
