"""Time until an event, when some sessions ended before it happened.

Leaving those sessions out, or taking their end for the event, makes an arm in which nothing
ever works look fast. They are censored instead: known to have lasted at least so long.
"""

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from msgspec import Struct

from relight.errors import RelightError
from relight.stats.beta import student_quantile
from relight.stats.rates import Estimate, check_positive, check_share


class SurvivalStep(Struct, frozen=True):
    """From `time` on, `survival` is the share still waiting; `at_risk` were just before it."""

    time: float
    at_risk: int
    events: int
    survival: float


def kaplan_meier(times: Sequence[tuple[float, bool]]) -> list[SurvivalStep]:
    """Return the share of sessions still without the event, as steps down at each event time.

    `times` has one (time, happened) for each session. A session that ended without the event has
    `happened` false and is not at risk after its time.

    >>> [(step.time, step.survival) for step in kaplan_meier([(1, True), (2, False), (3, True)])]
    [(1, 0.6666666666666667), (3, 0.0)]
    """
    for time, _ in times:
        if not 0 <= time < math.inf:
            raise RelightError(f"a time must be a number from 0 up, not {time}")
    steps: list[SurvivalStep] = []
    survival, at_risk = 1.0, len(times)
    for time, group in groupby(sorted(times), key=itemgetter(0)):
        ended = [happened for _, happened in group]
        events = sum(ended)
        if events:
            survival *= 1 - events / at_risk
            steps.append(SurvivalStep(time, at_risk, events, survival))
        at_risk -= len(ended)
    return steps


def restricted_mean(
    times: Sequence[tuple[float, bool]], horizon: float, *, confidence: float = 0.95
) -> Estimate | None:
    """Return the mean time until the event, cut at `horizon`, with its interval.

    None if no session was watched as long as the horizon while some still waited: the rest of
    the curve would be invented. Without censoring it is the plain mean of the times cut at the
    horizon, and its Student interval.

    >>> mean = restricted_mean([(1, True), (2, True), (9, False), (3, True)] * 5, 6)
    >>> round(mean.value, 2), round(mean.low, 2), round(mean.high, 2)
    (3.0, 2.1, 3.9)
    """
    check_share(confidence=confidence)
    found = _find_mean(times, horizon)
    if found is None:
        return None
    bounds = _bound([found], value=found.mean, confidence=confidence)
    if bounds.low is None or bounds.high is None:
        return bounds
    return Estimate(found.mean, max(0.0, bounds.low), min(horizon, bounds.high))


def restricted_mean_difference(
    a: Sequence[tuple[float, bool]],
    b: Sequence[tuple[float, bool]],
    horizon: float,
    *,
    confidence: float = 0.95,
) -> Estimate | None:
    """Return how much longer the restricted mean is in `b` than in `a`, with its interval.

    >>> slow, fast = [(4, True), (5, True), (6, False)] * 4, [(1, True), (2, True), (3, True)] * 4
    >>> difference = restricted_mean_difference(slow, fast, 6)
    >>> round(difference.value, 2), round(difference.low, 2), round(difference.high, 2)
    (-3.0, -3.77, -2.23)
    """
    check_share(confidence=confidence)
    before, after = _find_mean(a, horizon), _find_mean(b, horizon)
    if before is None or after is None:
        return None
    return _bound([before, after], value=after.mean - before.mean, confidence=confidence)


class _CutMean(Struct, frozen=True):
    mean: float
    variance: float
    watched: int  # sessions whose time up to the horizon is fully known


def _find_mean(times: Sequence[tuple[float, bool]], horizon: float) -> _CutMean | None:
    check_positive(horizon=horizon)
    steps = [step for step in kaplan_meier(times) if step.time < horizon]
    waiting = steps[-1].survival if steps else 1.0
    if not times or (waiting > 0 and max(time for time, _ in times) < horizon):
        return None
    corners = [SurvivalStep(0.0, len(times), 0, 1.0), *steps, SurvivalStep(horizon, 0, 0, waiting)]
    areas = [left.survival * (right.time - left.time) for left, right in pairwise(corners)]
    variance = still = 0.0  # Greenwood's; `still` is the area behind the step
    for step, area in zip(reversed(steps), reversed(areas), strict=False):
        still += area
        if step.at_risk > step.events:
            variance += still * still * step.events / (step.at_risk * (step.at_risk - step.events))
    watched = sum(happened or time >= horizon for time, happened in times)
    return _CutMean(math.fsum(areas), variance, watched)


def _bound(means: Sequence[_CutMean], *, value: float, confidence: float) -> Estimate:
    """The value with a Student interval, or without bounds if an arm shows no spread."""
    if any(mean.watched < 2 or mean.variance == 0 for mean in means):
        return Estimate(value, None, None)
    variance = sum(mean.variance * mean.watched / (mean.watched - 1) for mean in means)
    t = student_quantile((1 + confidence) / 2, min(mean.watched for mean in means) - 1)
    half = t * math.sqrt(variance)
    return Estimate(value, value - half, value + half)
