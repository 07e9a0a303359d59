"""Warm sessions compared with those held out cold, with intervals and a verdict.

Sessions are dealt to the arms by chance before their first model call, and compared as dealt.
Calls of one session fail together, so no single call counts as evidence.
"""

import time
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError
from relight.stats.permutation import cluster_bootstrap, part_arms
from relight.stats.rates import Estimate, wilson
from relight.stats.survival import restricted_mean, restricted_mean_difference
from relight.store import Store
from relight.store.experiments import DealtFilter, count_dealt
from relight.store.templates import has_name
from relight.times import day_reader, read_time
from relight.warm import results
from relight.warm.library import read_templates
from relight.warm.plans import WarmPlan, find_plan
from relight.work.experiments import metrics, warm_verdict
from relight.work.experiments.lesson_effect import LessonEffect, read_lesson_effect
from relight.work.experiments.metrics import METRICS, ArmMetric, ArmSession
from relight.work.experiments.warm_verdict import SUCCESS, Measure

SEED = 20261115
HORIZON_SECONDS = 1800.0
_DAY_MS = 86_400_000

Clusters = list[metrics.Ratio]
Arms = Sequence[Sequence[ArmSession]]


class HoldoutReport(Struct, frozen=True, kw_only=True):
    """The metrics of both arms under one plan, with a verdict that holds at every look."""

    verdict: warm_verdict.WarmVerdict
    # the verdict with its counts and intervals, then what is still needed
    sentences: list[str]
    plan: WarmPlan
    # a verdict needs 1 / the plan's error; shown up to a million
    e_value: float
    needed: warm_verdict.NeededSessions | None
    sessions: dict[str, int]
    calls: dict[str, int]
    measures: dict[str, Measure]
    # metrics that must not get worse, and warnings for those that did
    guards: dict[str, Measure]
    warnings: list[str]
    cost_usd: dict[str, float | None]
    # sessions dealt to each arm, recorded or not, and those without a template to deal
    provisions: dict[str, int]
    injected_tokens: float | None
    retired: list[str]
    # of the same plan; None if no session was dealt lessons, or the report is about one template
    lessons: LessonEffect | None = None


def read_holdout(
    store: Store,
    *,
    template: str | None = None,
    plan: int | None = None,
    may_retire: bool = True,
    now: int | None = None,
) -> HoldoutReport:
    """Return the comparison of a plan so far; templates that do harm are retired, if `may_retire`.

    Each template alone is a separate comparison, with its own error.
    """
    if template is not None and not has_name(store, template):
        raise MissingError(
            f"there is no template {template!r}", "`relight template list` shows them"
        )
    at = int(time.time() * 1000) if now is None else now
    chosen = find_plan(store, plan)
    among = DealtFilter(
        template=template, since=read_time(chosen.begun_at) or 0, until=read_time(chosen.ended_at)
    )
    sessions = tuple(metrics.read_arm_sessions(store, among))
    report = _compare_cached(sessions, chosen)
    given = {one.arm: one for one in count_dealt(store, among)}
    dealt = {"warm": 0, "cold": 0, "abstained": 0}
    dealt |= {arm: one.provisions for arm, one in given.items()}
    day_of = day_reader(store.timezone)
    needed = warm_verdict.find_needed(
        chosen,
        report.verdict,
        sessions,
        warm_verdict.Pace(
            float(store.config.templates.hold_out),
            _find_pace(store, template, now=at),
            dealt["warm"] + dealt["cold"],
        ),
        lambda days: day_of(round(at + days * _DAY_MS)),
    )
    retired = [
        one.name
        for one in (read_templates(store, with_retired=False) if may_retire else ())
        if results.retire_if_harmful(store, one)
    ]
    return replace(
        report,
        sentences=warm_verdict.describe_verdict(chosen, report.verdict, report.measures, needed),
        needed=needed,
        provisions=dealt,
        injected_tokens=given["warm"].mean_tokens if "warm" in given else None,
        retired=retired,
        lessons=None if template else read_lesson_effect(store, chosen, among),
    )


def _find_pace(store: Store, template: str | None, *, now: int) -> float:
    """Return how many sessions a day were dealt lately; since the first one, if that is later."""
    first = read_time(find_plan(store, 1).begun_at) if store.has_rows("warm_plan") else None
    since = max(now - warm_verdict.RECENT_DAYS * _DAY_MS, first or 0)
    counts = count_dealt(store, DealtFilter(template=template, since=since))
    dealt = sum(one.provisions for one in counts if one.arm != "abstained")
    return dealt / max((now - since) / _DAY_MS, 1.0)


@lru_cache(maxsize=16)
def _compare_cached(sessions: tuple[ArmSession, ...], plan: WarmPlan) -> HoldoutReport:
    """Return the comparison, which takes up to a second, from a cache for the same sessions."""
    return compare_arms(sessions, plan)


def compare_arms(
    sessions: Sequence[ArmSession], plan: WarmPlan, *, samples: int | None = None
) -> HoldoutReport:
    """Return the comparison of two arms of sessions."""
    # the more sessions, the less do further samples add, and the longer each takes
    samples = samples or min(2000, max(500, 1_000_000 // max(len(sessions), 1)))
    arms = [[one for one in sessions if one.arm == name] for name in ("cold", "warm")]
    cold, warm = arms
    compared = {
        name: _compare_planned(sessions, name, plan, samples)
        for name in (SUCCESS, warm_verdict.EARLY)
    }
    compared["seconds_to_first_success"] = _compare_times(arms)
    for name, metric in METRICS.items():
        if metric.read_session:
            compared[name] = _compare_ratio(metric, arms, samples)
    measures = {name: one for name, one in compared.items() if not METRICS[name].warning}
    guards = {name: one for name, one in compared.items() if METRICS[name].warning}
    verdict = warm_verdict.judge(plan, measures)
    return HoldoutReport(
        verdict=verdict,
        sentences=warm_verdict.describe_verdict(plan, verdict, measures, None),
        plan=plan,
        e_value=warm_verdict.find_e_value(plan, measures),
        needed=None,
        sessions={"cold": len(cold), "warm": len(warm)},
        calls={"cold": sum(one.calls for one in cold), "warm": sum(one.calls for one in warm)},
        measures=measures,
        guards=guards,
        warnings=[text for name in guards if (text := _warn(METRICS[name], guards[name]))],
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


def _compare_planned(
    sessions: Sequence[ArmSession], name: str, plan: WarmPlan, samples: int
) -> Measure:
    """Compare a figure that a plan can name; its difference holds at every look."""
    deals = warm_verdict.group_deals(sessions, name)
    found = warm_verdict.weigh_figure(deals, name, plan)
    cold, warm = (
        [
            value
            for one in sessions
            if one.arm == arm and (value := warm_verdict.READERS[name](one)) is not None
        ]
        for arm in ("cold", "warm")
    )
    return Measure(
        cold=_estimate(cold, name, samples),
        warm=_estimate(warm, name, samples),
        difference=None if found is None else Estimate(found.difference, found.low, found.high),
        e_value=None if found is None else found.e_value,
        cold_sessions=len(cold),
        warm_sessions=len(warm),
    )


def _estimate(values: Sequence[float], name: str, samples: int) -> Estimate | None:
    if name != SUCCESS:
        return cluster_bootstrap([(value, 1.0) for value in values], seed=SEED, samples=samples)
    if not values:
        return None
    interval = wilson(sum(values), len(values))
    return Estimate(sum(values) / len(values), interval.low, interval.high)


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


def _compare_times(dealt: Arms) -> Measure:
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


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
