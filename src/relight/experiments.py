"""Did starting warm help? The arms compared session by session, and a verdict.

Sessions were dealt to the arms before their first model call, so they are compared as they were
dealt. Calls of one session fail together: nothing here counts single calls as evidence. What
Relight put into a session is in no figure.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from relight.posterior import probability_at_least
from relight.resampling import bootstrap_difference, cluster_bootstrap, permutation_p_value
from relight.stats import Counts, Estimate, wilson
from relight.store import Store
from relight.survival import restricted_mean, restricted_mean_difference
from relight.templates import record
from relight.templates.library import read_templates
from relight.trials import LiveView, always_valid_interval, newcombe, sample_size

FIRST_CALLS = 30
ALPHA = 0.05
SEED = 20261115
# what an experiment is planned to see, where the held-out rate is not known better
EFFECT = 0.10
FAILURE_EFFECT = 0.633  # of the cold failure rate: what was hoped for (9.0 to 5.7 %)
ICC = 0.05
HORIZON_SECONDS = 1800.0
_SESSIONS = f"""
    select session.id, arm, session.outcome, session.started_at, session.ended_at,
        (select sum(cost_nanos) from session_day where root_id = session.id),
        (select sum(output_tokens) from session_day where root_id = session.id)
    {record.JOINED} and (?1 is null or template_id = (select id from template where name = ?1))
    order by provision.created_at, session.id
"""
_CALLS = "select label, at, finished_at, tool from tool_call where session_id = ? order by at, id"

Arm = Literal["cold", "warm"]


class Session(Struct, frozen=True, kw_only=True):
    """One session of an arm, by its own calls alone."""

    arm: Arm
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


class Measure(Struct, frozen=True, kw_only=True):
    """One figure of both arms, and how far they are apart: warm less cold."""

    cold: Estimate | None
    warm: Estimate | None
    difference: Estimate | None
    p_value: float | None = None
    cold_sessions: int = 0
    warm_sessions: int = 0


class Report(Struct, frozen=True, kw_only=True):
    """What the arms came to, and what may be said of it."""

    verdict: str
    primary: str
    planned_sessions: int | None
    counted_sessions: float
    sessions: dict[str, int]
    calls: dict[str, int]
    measures: dict[str, Measure]
    probability_warm_better: float | None
    live_view: LiveView | None
    cost_usd: dict[str, float | None]
    provisions: dict[str, int]
    retired: list[str]


def read_report(store: Store, *, template: str | None = None, effect: float = EFFECT) -> Report:
    """The experiment so far; templates that it shows to do harm are retired."""
    sessions = list(read_sessions(store, template))
    report = compare(sessions, effect=effect)
    retired = [
        one.name
        for one in read_templates(store, with_retired=False)
        if record.retire_if_harmful(store, one)
    ]
    rows = store.query(
        "select case when template_id is null then 'abstained' else arm end, count(*)"
        " from provision group by 1"
    )
    provisions = {"warm": 0, "cold": 0, "abstained": 0} | dict(rows)
    return replace(report, provisions=provisions, retired=retired)


def read_sessions(store: Store, template: str | None = None) -> Iterator[Session]:
    """The sessions that followed provisions for which there was a template."""
    for session_id, arm, outcome, began_at, ended_at, nanos, tokens in store.query(
        _SESSIONS, (template,)
    ):
        calls = store.query(_CALLS, (session_id,))
        judged = [label for label, *_ in calls if label in ("ok", "negative", "error")]
        first = judged[:FIRST_CALLS]
        worked = [
            finished_at or at for label, at, finished_at, _ in calls if label in ("ok", "negative")
        ]
        watched = (worked[0] if worked else ended_at) if began_at is not None else None
        yield Session(
            arm=arm,
            outcome={"success": True, "failure": False}.get(outcome),
            calls=len(calls),
            judged_first=len(first),
            failed_first=first.count("error"),
            failures=judged.count("error"),
            tools=len({tool for *_, tool in calls}),
            seconds=None if watched is None else max(watched - began_at, 0) / 1000,
            has_success=bool(worked),
            cost_usd=None if nanos is None else nanos / 1e9,
            output_tokens=tokens,
        )


def compare(
    sessions: Sequence[Session], *, effect: float = EFFECT, samples: int | None = None
) -> Report:
    """Compare two arms by their sessions, and say what that is worth."""
    # the more sessions, the less a few deals more would tell, and the longer each takes
    samples = samples or min(2000, max(500, 1_000_000 // max(len(sessions), 1)))
    cold = [one for one in sessions if one.arm == "cold"]
    warm = [one for one in sessions if one.arm == "warm"]
    success = _compare_success(cold, warm, samples)
    first = _compare_ratio([_first_calls(arm) for arm in (cold, warm)], samples)
    measures = {
        "success_rate": success,
        "first_30_failure_rate": first,
        "seconds_to_first_success": _compare_times(cold, warm),
        "failures_per_session": _compare_ratio(
            [[(float(one.failures), 1.0) for one in arm if one.calls] for arm in (cold, warm)],
            samples,
        ),
        "tools_per_session": _compare_ratio(
            [[(float(one.tools), 1.0) for one in arm if one.calls] for arm in (cold, warm)],
            samples,
        ),
    }
    counts = [_count(arm) for arm in (cold, warm)]
    primary = "success_rate" if all(map(sum, counts)) else "first_30_failure_rate"
    measure = measures[primary]
    planned = _plan(primary, counts[0], first, cold, effect=effect)
    counted = _count_equal(measure.cold_sessions, measure.warm_sessions)
    return Report(
        verdict=_judge(primary, measure, planned, counted),
        primary=primary,
        planned_sessions=planned,
        counted_sessions=counted,
        sessions={"cold": len(cold), "warm": len(warm)},
        calls={"cold": sum(one.calls for one in cold), "warm": sum(one.calls for one in warm)},
        measures=measures,
        probability_warm_better=probability_at_least(*counts) if all(map(sum, counts)) else None,
        live_view=_view(primary, cold, warm),
        cost_usd={"cold": _mean_cost(cold), "warm": _mean_cost(warm)},
        provisions={},
        retired=[],
    )


def _judge(primary: str, measure: Measure, planned: int | None, counted: float) -> str:
    if measure.p_value is None or planned is None or counted < planned:
        wanted = "some in both arms" if planned is None else f"{planned} in each arm"
        return f"not enough data: {counted:.0f} of the sessions planned, {wanted}"
    if measure.p_value >= ALPHA or measure.difference is None:
        return f"no difference found (p = {measure.p_value:.2f})"
    gain = measure.difference.value or 0.0
    is_better = gain > 0 if primary == "success_rate" else gain < 0
    return f"warm is {'better' if is_better else 'worse'} (p = {measure.p_value:.3f})"


def _compare_success(cold: Sequence[Session], warm: Sequence[Session], samples: int) -> Measure:
    known = [
        [(float(one.outcome), 1.0) for one in arm if one.outcome is not None]
        for arm in (cold, warm)
    ]
    counts = [_count(arm) for arm in (cold, warm)]
    return Measure(
        cold=_rate(counts[0]),
        warm=_rate(counts[1]),
        difference=newcombe(*counts) if all(map(sum, counts)) else None,
        p_value=permutation_p_value(*known, seed=SEED, samples=samples) if all(known) else None,
        cold_sessions=len(known[0]),
        warm_sessions=len(known[1]),
    )


def _compare_ratio(arms: Sequence[list[tuple[float, float]]], samples: int) -> Measure:
    cold, warm = arms
    return Measure(
        cold=cluster_bootstrap(cold, seed=SEED, samples=samples),
        warm=cluster_bootstrap(warm, seed=SEED, samples=samples),
        difference=bootstrap_difference(cold, warm, seed=SEED, samples=samples),
        p_value=permutation_p_value(cold, warm, seed=SEED, samples=samples)
        if cold and warm
        else None,
        cold_sessions=len(cold),
        warm_sessions=len(warm),
    )


def _compare_times(cold: Sequence[Session], warm: Sequence[Session]) -> Measure:
    """Kaplan–Meier, restricted to a horizon that both arms were watched for."""
    arms = [
        [(one.seconds, one.has_success) for one in arm if one.seconds is not None]
        for arm in (cold, warm)
    ]
    if not all(arms):
        return Measure(cold=None, warm=None, difference=None)
    horizon = min(HORIZON_SECONDS, *(max(time for time, _ in arm) for arm in arms))
    if horizon <= 0:
        return Measure(cold=None, warm=None, difference=None)
    return Measure(
        cold=restricted_mean(arms[0], horizon),
        warm=restricted_mean(arms[1], horizon),
        difference=restricted_mean_difference(arms[0], arms[1], horizon),
        cold_sessions=len(arms[0]),
        warm_sessions=len(arms[1]),
    )


def _plan(
    primary: str, cold: Counts, first: Measure, arm: Sequence[Session], *, effect: float
) -> int | None:
    """Sessions an arm needs, were both as large, to see the effect looked for."""
    if primary == "success_rate":
        base = min(max((cold[0] + 1) / (sum(cold) + 2), 0.05), 0.95)
        aim = base + effect if base + effect < 0.99 else base - effect
        return sample_size(base, aim) if 0.01 < aim < 0.99 else None
    rate = first.cold.value if first.cold else None
    if not rate:
        return None
    calls = sum(one.judged_first for one in arm) / len(arm)
    rate = min(rate, 0.95)
    return sample_size(rate, rate * FAILURE_EFFECT, icc=ICC, calls_per_session=max(calls, 1.0))


def _count_equal(cold: int, warm: int) -> float:
    """As many sessions in each of two equal arms would tell as much as these."""
    return 2 / (1 / cold + 1 / warm) if cold and warm else 0.0


def _view(primary: str, cold: Sequence[Session], warm: Sequence[Session]) -> LiveView | None:
    arms = []
    for arm in (cold, warm):
        if primary == "success_rate":
            arms.append([float(one.outcome) for one in arm if one.outcome is not None])
        else:
            arms.append([failed / calls for failed, calls in _first_calls(arm)])
    return always_valid_interval(arms[0], arms[1], tau=0.1 if primary == "success_rate" else 0.03)


def _first_calls(arm: Sequence[Session]) -> list[tuple[float, float]]:
    return [(float(one.failed_first), float(one.judged_first)) for one in arm if one.judged_first]


def _count(arm: Sequence[Session]) -> Counts:
    known = [one.outcome for one in arm if one.outcome is not None]
    return float(sum(known)), float(len(known) - sum(known))


def _rate(counts: Counts) -> Estimate | None:
    if not sum(counts):
        return None
    interval = wilson(counts[0], sum(counts))
    return Estimate(counts[0] / sum(counts), interval.low, interval.high)


def _mean_cost(arm: Sequence[Session]) -> float | None:
    known = [one.cost_usd for one in arm if one.cost_usd is not None]
    return sum(known) / len(known) if known else None


def as_json(report: Report) -> dict[str, Any]:
    shown: dict[str, Any] = to_builtins(report)
    return shown
