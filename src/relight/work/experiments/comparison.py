"""Two arms of sessions compared, with intervals and a verdict.

Sessions were dealt to the arms before their first model call, so they are compared as they were
dealt. Calls of one session fail together: nothing here counts single calls as evidence.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from relight.errors import RelightError
from relight.stats.beta import probability_at_least
from relight.stats.permutation import cluster_bootstrap, part_arms
from relight.stats.rates import Counts, Estimate, wilson
from relight.stats.survival import restricted_mean, restricted_mean_difference
from relight.stats.trials import LiveView, always_valid_interval, newcombe, sample_size
from relight.work.experiments.sessions import Session

ALPHA = 0.05
SEED = 20261115
# what an experiment is planned to see, where the held-out rate is not known better
EFFECT = 0.10
FAILURE_EFFECT = 0.633  # of the cold failure rate: what was hoped for (9.0 to 5.7 %)
ICC = 0.05
HORIZON_SECONDS = 1800.0

Clusters = list[tuple[float, float]]


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
    # what must not get worse while something else gets better, and what did
    guards: dict[str, Measure]
    warnings: list[str]
    probability_warm_better: float | None
    live_view: LiveView | None
    cost_usd: dict[str, float | None]
    # sessions that began warm, were held out, or found nothing similar; what the warm were given
    provisions: dict[str, int]
    injected_tokens: float | None
    retired: list[str]


def compare(
    sessions: Sequence[Session], *, effect: float = EFFECT, samples: int | None = None
) -> Report:
    """Compare two arms by their sessions, and say what that is worth."""
    if not 0 < effect < 1:
        raise RelightError(f"an effect of {effect} cannot be looked for", "give a share, as 0.1")
    # the more sessions, the less a few deals more would tell, and the longer each takes
    samples = samples or min(2000, max(500, 1_000_000 // max(len(sessions), 1)))
    arms = [[one for one in sessions if one.arm == name] for name in ("cold", "warm")]
    cold, warm = arms

    def measure(read: Callable[[Session], tuple[float, float] | None]) -> Measure:
        return _compare_ratio([_gather(arm, read) for arm in arms], samples)

    measures = {
        "success_rate": _compare_success(cold, warm, samples),
        "first_30_failure_rate": measure(read_first_calls),
        "seconds_to_first_success": _compare_times(cold, warm),
        "failures_per_session": measure(lambda one: (one.failures, 1.0) if one.calls else None),
        "tools_per_session": measure(lambda one: (one.tools, 1.0) if one.calls else None),
    }
    guards = {name: measure(read) for name, read in GUARDS.items()}
    counts = [_count(arm) for arm in arms]
    primary = "success_rate" if all(map(sum, counts)) else "first_30_failure_rate"
    main = measures[primary]
    planned = _plan(primary, counts[0], measures["first_30_failure_rate"], cold, effect=effect)
    counted = _count_equal(main.cold_sessions, main.warm_sessions)
    return Report(
        verdict=_judge(primary, main, planned, counted),
        primary=primary,
        planned_sessions=planned,
        counted_sessions=counted,
        sessions={"cold": len(cold), "warm": len(warm)},
        calls={"cold": sum(one.calls for one in cold), "warm": sum(one.calls for one in warm)},
        measures=measures,
        guards=guards,
        warnings=[told for name in guards if (told := _warn(name, guards[name]))],
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


def read_first_calls(one: Session) -> tuple[float, float] | None:
    """Failures among a session's first judged calls, and how many those are."""
    return (one.failed_first, one.judged_first) if one.judged_first else None


def _read_tokens(one: Session) -> tuple[float, float] | None:
    return None if one.tokens is None else (one.tokens, 1.0)


def _read_cost(one: Session) -> tuple[float, float] | None:
    return None if one.cost_usd is None else (one.cost_usd, 1.0)


def _read_latency(one: Session) -> tuple[float, float] | None:
    return (one.model_seconds, one.timed_calls) if one.timed_calls else None


def _read_missing(one: Session) -> tuple[float, float] | None:
    return (one.missing_tools, 1.0) if one.calls else None


GUARDS = {
    "tokens_per_session": _read_tokens,
    "cost_usd_per_session": _read_cost,
    "seconds_per_model_call": _read_latency,
    "missing_tools_per_session": _read_missing,
}
WARNINGS = {
    "tokens_per_session": "warm sessions use more tokens",
    "cost_usd_per_session": "warm sessions cost more",
    "seconds_per_model_call": "model calls of warm sessions take longer",
    "missing_tools_per_session": "warm sessions call more tools that are not there",
}


def _gather(
    arm: Sequence[Session], read: Callable[[Session], tuple[float, float] | None]
) -> Clusters:
    found = (read(one) for one in arm)
    return [(float(pair[0]), float(pair[1])) for pair in found if pair is not None]


def _warn(name: str, guard: Measure) -> str | None:
    """What has got worse beyond chance; each is looked at alone, so one in forty warns in vain."""
    found, cold = guard.difference, _value(guard.cold)
    if found is None or found.low is None or found.low <= 0:
        return None
    return f"{WARNINGS[name]}: " + (f"{(found.value or 0.0) / cold:+.0%}" if cold else "cold, none")


def _judge(primary: str, measure: Measure, planned: int | None, counted: float) -> str:
    if measure.p_value is None:
        return "not enough data: there must be sessions of both arms that tell how it went"
    if planned is None:
        return "not enough data: no number of sessions can be planned to see such an effect"
    if counted < planned:
        return f"not enough data: {counted:.0f} sessions an arm, {planned} are planned"
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
    parting = part_arms(*known, seed=SEED, samples=samples)
    return Measure(
        cold=rate(counts[0]),
        warm=rate(counts[1]),
        difference=newcombe(*counts) if all(map(sum, counts)) else None,
        p_value=parting.p_value if parting else None,
        cold_sessions=len(known[0]),
        warm_sessions=len(known[1]),
    )


def _compare_ratio(arms: Sequence[Clusters], samples: int) -> Measure:
    cold, warm = arms
    parting = part_arms(cold, warm, seed=SEED, samples=samples)
    return Measure(
        cold=cluster_bootstrap(cold, seed=SEED, samples=samples),
        warm=cluster_bootstrap(warm, seed=SEED, samples=samples),
        difference=parting.difference if parting else None,
        p_value=parting.p_value if parting else None,
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
    failed = _value(first.cold)
    if not failed:
        return None
    calls = sum(one.judged_first for one in arm) / len(arm)
    failed = min(failed, 0.95)
    return sample_size(failed, failed * FAILURE_EFFECT, icc=ICC, calls_per_session=max(calls, 1.0))


def _count_equal(cold: int, warm: int) -> float:
    """As many sessions in each of two equal arms would tell as much as these."""
    return 2 / (1 / cold + 1 / warm) if cold and warm else 0.0


def _view(primary: str, cold: Sequence[Session], warm: Sequence[Session]) -> LiveView | None:
    arms = []
    for arm in (cold, warm):
        if primary == "success_rate":
            arms.append([float(one.outcome) for one in arm if one.outcome is not None])
        else:
            arms.append([failed / calls for failed, calls in _gather(arm, read_first_calls)])
    return always_valid_interval(arms[0], arms[1], tau=0.1 if primary == "success_rate" else 0.03)


def _count(arm: Sequence[Session]) -> Counts:
    known = [one.outcome for one in arm if one.outcome is not None]
    return float(sum(known)), float(len(known) - sum(known))


def rate(counts: Counts) -> Estimate | None:
    """A success rate with Wilson's interval; None if nothing is known."""
    if not sum(counts):
        return None
    interval = wilson(counts[0], sum(counts))
    return Estimate(counts[0] / sum(counts), interval.low, interval.high)


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
