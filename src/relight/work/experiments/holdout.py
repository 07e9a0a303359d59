"""Warm sessions compared with those held out cold, with intervals and a verdict.

Sessions are dealt to the arms by chance before their first model call, and compared as dealt.
Calls of one session fail together, so no single call counts as evidence.
"""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError, RelightError
from relight.stats.beta import probability_at_least
from relight.stats.permutation import cluster_bootstrap, part_arms
from relight.stats.rates import Counts, Estimate, wilson
from relight.stats.survival import restricted_mean, restricted_mean_difference
from relight.stats.trials import LiveView, always_valid_interval, newcombe, sample_size
from relight.store import Store
from relight.store.experiments import count_provisions
from relight.store.templates import has_name
from relight.warm import results
from relight.warm.library import read_templates
from relight.work.experiments.metrics import (
    METRICS,
    ArmMetric,
    ArmSession,
    Ratio,
    read_arm_sessions,
)

ALPHA = 0.05
SEED = 20261115
# the effect that an experiment is planned for
EFFECT = 0.10
FAILURE_EFFECT = 0.633  # of the cold failure rate: the aim (9.0 to 5.7 %)
ICC = 0.05
HORIZON_SECONDS = 1800.0

Clusters = list[Ratio]
Arms = Sequence[Sequence[ArmSession]]


class Measure(Struct, frozen=True, kw_only=True):
    """One metric in both arms, and the difference: warm less cold."""

    cold: Estimate | None
    warm: Estimate | None
    difference: Estimate | None
    p_value: float | None = None
    cold_sessions: int = 0
    warm_sessions: int = 0


class HoldoutReport(Struct, frozen=True, kw_only=True):
    """The metrics of both arms, with a verdict."""

    verdict: str
    primary: str
    planned_sessions: int | None
    counted_sessions: float
    sessions: dict[str, int]
    calls: dict[str, int]
    measures: dict[str, Measure]
    # metrics that must not get worse, and warnings for those that did
    guards: dict[str, Measure]
    warnings: list[str]
    probability_warm_better: float | None
    live_view: LiveView | None
    cost_usd: dict[str, float | None]
    # sessions that started warm, were held out, or had no similar template; mean tokens of a start
    provisions: dict[str, int]
    injected_tokens: float | None
    retired: list[str]


def read_holdout(
    store: Store, *, template: str | None = None, effect: float = EFFECT, may_retire: bool = True
) -> HoldoutReport:
    """Return the comparison so far; templates that do harm are retired, if `may_retire`."""
    if template is not None and not has_name(store, template):
        raise MissingError(
            f"there is no template {template!r}", "`relight template list` shows them"
        )
    report = _compare_cached(tuple(read_arm_sessions(store, template)), effect=effect)
    retired = [
        one.name
        for one in (read_templates(store, with_retired=False) if may_retire else ())
        if results.retire_if_harmful(store, one)
    ]
    given = {one.arm: one for one in count_provisions(store, template)}
    return replace(
        report,
        provisions={"warm": 0, "cold": 0, "abstained": 0}
        | {arm: one.provisions for arm, one in given.items()},
        injected_tokens=given["warm"].mean_tokens if "warm" in given else None,
        retired=retired,
    )


@lru_cache(maxsize=16)
def _compare_cached(sessions: tuple[ArmSession, ...], *, effect: float) -> HoldoutReport:
    """Return the comparison, which takes up to a second, from a cache for the same sessions."""
    return compare_arms(sessions, effect=effect)


def compare_arms(
    sessions: Sequence[ArmSession], *, effect: float = EFFECT, samples: int | None = None
) -> HoldoutReport:
    """Return the comparison of two arms of sessions."""
    if not 0 < effect < 1:
        raise RelightError(f"effect must be between 0 and 1, got {effect}", "give a share, as 0.1")
    # the more sessions, the less do further samples add, and the longer each takes
    samples = samples or min(2000, max(500, 1_000_000 // max(len(sessions), 1)))
    arms = [[one for one in sessions if one.arm == name] for name in ("cold", "warm")]
    cold, warm = arms
    compared = {
        name: OWN_COMPARISONS.get(name, _compare_ratio)(metric, arms, samples)
        for name, metric in METRICS.items()
        if metric.read_session or name in OWN_COMPARISONS
    }
    measures = {name: one for name, one in compared.items() if not METRICS[name].warning}
    guards = {name: one for name, one in compared.items() if METRICS[name].warning}
    counts = [_count(arm) for arm in arms]
    primary = "success_rate" if all(map(sum, counts)) else "first_30_failure_rate"
    main = measures[primary]
    planned = _plan(primary, counts[0], measures["first_30_failure_rate"], cold, effect=effect)
    counted = _count_equal(main.cold_sessions, main.warm_sessions)
    return HoldoutReport(
        verdict=_judge(primary, main, planned, counted),
        primary=primary,
        planned_sessions=planned,
        counted_sessions=counted,
        sessions={"cold": len(cold), "warm": len(warm)},
        calls={"cold": sum(one.calls for one in cold), "warm": sum(one.calls for one in warm)},
        measures=measures,
        guards=guards,
        warnings=[text for name in guards if (text := _warn(METRICS[name], guards[name]))],
        probability_warm_better=probability_at_least(*counts) if all(map(sum, counts)) else None,
        live_view=_view(primary, cold, warm),
        cost_usd={
            "cold": _value(guards["cost_usd_per_session"].cold),
            "warm": _value(guards["cost_usd_per_session"].warm),
        },
        provisions={},
        injected_tokens=None,
        retired=[],
    )


def _gather(arm: Sequence[ArmSession], metric: ArmMetric) -> Clusters:
    assert metric.read_session is not None
    found = (metric.read_session(one) for one in arm)
    return [(float(pair[0]), float(pair[1])) for pair in found if pair is not None]


def _warn(metric: ArmMetric, guard: Measure) -> str | None:
    """Return a warning if a metric got worse beyond chance; one in forty is a false alarm."""
    found, cold = guard.difference, _value(guard.cold)
    if found is None or found.low is None or found.low <= 0:
        return None
    return f"{metric.warning}: " + (f"{(found.value or 0.0) / cold:+.0%}" if cold else "cold, none")


def _judge(primary: str, measure: Measure, planned: int | None, counted: float) -> str:
    if measure.p_value is None:
        return "not enough data: both arms need sessions with a known outcome"
    if planned is None:
        return "not enough data: no number of sessions can be planned to see such an effect"
    if counted < planned:
        return f"not enough data: {counted:.0f} sessions an arm, {planned} are planned"
    if measure.p_value >= ALPHA or measure.difference is None:
        return f"no difference found (p = {measure.p_value:.2f})"
    gain = measure.difference.value or 0.0
    is_better = gain > 0 if primary == "success_rate" else gain < 0
    return f"warm is {'better' if is_better else 'worse'} (p = {measure.p_value:.3f})"


def _compare_success(_: ArmMetric, arms: Arms, samples: int) -> Measure:
    known = [[(float(one.outcome), 1.0) for one in arm if one.outcome is not None] for arm in arms]
    counts = [_count(arm) for arm in arms]
    parting = part_arms(*known, seed=SEED, samples=samples)
    return Measure(
        cold=rate(counts[0]),
        warm=rate(counts[1]),
        difference=newcombe(*counts) if all(map(sum, counts)) else None,
        p_value=parting.p_value if parting else None,
        cold_sessions=len(known[0]),
        warm_sessions=len(known[1]),
    )


def _compare_ratio(metric: ArmMetric, arms: Arms, samples: int) -> Measure:
    cold, warm = (_gather(arm, metric) for arm in arms)
    parting = part_arms(cold, warm, seed=SEED, samples=samples)
    return Measure(
        cold=cluster_bootstrap(cold, seed=SEED, samples=samples),
        warm=cluster_bootstrap(warm, seed=SEED, samples=samples),
        difference=parting.difference if parting else None,
        p_value=parting.p_value if parting else None,
        cold_sessions=len(cold),
        warm_sessions=len(warm),
    )


def _compare_times(_: ArmMetric, dealt: Arms, samples: int) -> Measure:
    """Compare Kaplan–Meier means up to a horizon that both arms reach."""
    arms = [
        [(one.seconds, one.has_success) for one in arm if one.seconds is not None] for arm in dealt
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


# the metrics that are not a ratio of sums over sessions
OWN_COMPARISONS = {
    "success_rate": _compare_success,
    "seconds_to_first_success": _compare_times,
}


def _plan(
    primary: str, cold: Counts, first: Measure, arm: Sequence[ArmSession], *, effect: float
) -> int | None:
    """Return the sessions that each of two equal arms needs to show the effect."""
    if primary == "success_rate":
        base = min(max((cold[0] + 1) / (sum(cold) + 2), 0.05), 0.95)
        aim = base + effect if base + effect < 0.99 else base - effect
        return sample_size(base, aim) if 0.01 < aim < 0.99 else None
    failed = _value(first.cold)
    if not failed:
        return None
    calls = sum(one.judged_first for one in arm) / len(arm)
    failed = min(failed, 0.95)
    return sample_size(failed, failed * FAILURE_EFFECT, icc=ICC, calls_per_session=max(calls, 1.0))


def _count_equal(cold: int, warm: int) -> float:
    """Return the size of two equal arms that would be as informative as these."""
    return 2 / (1 / cold + 1 / warm) if cold and warm else 0.0


def _view(primary: str, cold: Sequence[ArmSession], warm: Sequence[ArmSession]) -> LiveView | None:
    arms = []
    for arm in (cold, warm):
        if primary == "success_rate":
            arms.append([float(one.outcome) for one in arm if one.outcome is not None])
        else:
            arms.append(
                [failed / calls for failed, calls in _gather(arm, METRICS["first_30_failure_rate"])]
            )
    return always_valid_interval(arms[0], arms[1], tau=0.1 if primary == "success_rate" else 0.03)


def _count(arm: Sequence[ArmSession]) -> Counts:
    known = [one.outcome for one in arm if one.outcome is not None]
    return float(sum(known)), float(len(known) - sum(known))


def rate(counts: Counts) -> Estimate | None:
    """Return a success rate with Wilson's interval; None if no outcome is known."""
    if not sum(counts):
        return None
    interval = wilson(counts[0], sum(counts))
    return Estimate(counts[0] / sum(counts), interval.low, interval.high)


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
