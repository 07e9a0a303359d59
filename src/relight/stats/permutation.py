"""Intervals and tests of ratios by resampling whole sessions.

Calls of one session fail together: on real sessions a test that treated calls as independent
found a difference where there was none in 8 to 56 % of trials at a nominal 5 %. With hundreds of
sessions in each arm the limit of resampling is computed instead of drawn.
"""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, product
from operator import mul
from statistics import NormalDist

from msgspec import Struct

from relight.stats.beta import student_cdf, student_quantile
from relight.stats.rates import Estimate, check_positive, check_share

# sessions in an arm from which on the spread of the ratio is as good as resampling
MANY = 400
LARGEST_SHARE = 0.1  # of the spread that a single session may make

# a session above and below the line, and the products that make the spread
_Squared = tuple[float, float, float, float, float]


class Parting(Struct, frozen=True):
    """The difference of two arms, and how often chance alone makes it as large.

    Both come from one test: zero is outside the interval if the p-value says so.
    """

    difference: Estimate
    p_value: float


def cluster_bootstrap(
    clusters: Sequence[tuple[float, float]],
    *,
    seed: int,
    samples: int = 2000,
    confidence: float = 0.95,
) -> Estimate | None:
    """Return a ratio of sums (errors per call, cost per success) over sessions, with its interval.

    `clusters` has one (numerator, denominator) for each session. None if the denominators add up to
    nothing. A bound is None if the data cannot carry it: one session, sessions that all agree, or
    too many resamples without a denominator.

    >>> estimate = cluster_bootstrap([(1, 10), (0, 5), (4, 9), (0, 12), (2, 8)], seed=1)
    >>> round(estimate.value, 3), round(estimate.low, 3), round(estimate.high, 3)
    (0.159, 0.0, 0.444)
    >>> cluster_bootstrap([(1, 10)], seed=1)
    Estimate(value=0.1, low=None, high=None)
    """
    check_share(confidence=confidence)
    check_positive(samples=samples)
    arm = _drop_empty(clusters)
    value = _divide_sums(arm)
    if value is None:
        return None
    if _agree(arm):
        return Estimate(value, None, None)
    if _is_plenty(arm):
        return _compute(value, [arm], confidence=confidence).difference
    rng = random.Random(seed)
    replicates = [_divide_sums(rng.choices(arm, k=len(arm))) for _ in range(samples)]
    return _bound(value, replicates, sessions=len(arm), confidence=confidence)


def part_arms(
    a: Sequence[tuple[float, float]],
    b: Sequence[tuple[float, float]],
    *,
    seed: int,
    samples: int = 2000,
    confidence: float = 0.95,
) -> Parting | None:
    """Return how much higher the ratio of sums is in `b` than in `a`, by permuting the sessions.

    Sessions are assigned at random, so this repeats the trial itself: it keeps its 5 % with few
    sessions, skewed figures and arms of 1 to 4, where Welch gives 10 % and the bootstrap 13.
    Deals are compared by their difference in standard errors, so that the interval also holds if
    one arm spreads more than the other. Figures of a session without a denominator are
    (figure, 1). None if an arm has no ratio; a bound is None if there are too few deals.

    >>> cold, warm = [(3, 9), (4, 10), (1, 6), (5, 11)] * 3, [(0, 8), (1, 9), (0, 7), (2, 12)] * 3
    >>> found = part_arms(cold, warm, seed=1)
    >>> round(found.difference.value, 3), round(found.p_value, 4)
    (-0.278, 0.001)
    >>> round(found.difference.low, 2), round(found.difference.high, 2)
    (-0.35, -0.21)
    """
    check_share(confidence=confidence)
    check_positive(samples=samples)
    arms = _drop_empty(a), _drop_empty(b)
    before, after = map(_divide_sums, arms)
    if before is None or after is None:
        return None
    value = after - before
    if _agree([*arms[0], *arms[1]]):
        return Parting(Estimate(value, None, None), 1.0)
    if all(map(_is_plenty, arms)):
        return _compute(value, arms, confidence=confidence)
    few, many = sorted(arms, key=len)
    sign = 1 if few is arms[1] else -1
    parted = _deal(few, many, random.Random(seed), samples)
    return _judge([one and (sign * one[0], one[1]) for one in parted], confidence=confidence)


def part_pairs(
    clusters: Sequence[tuple[float, float]],
    *,
    seed: int,
    samples: int = 4000,
    confidence: float = 0.95,
) -> Parting | None:
    """Return the difference of arms that ran the same tasks, by flipping signs.

    `clusters` has one (sum of differences, pairs) for each task: if the arms were the same, each
    task's differences could as well have the other sign. With few tasks all signs are tried. None
    if no task differs at all: then there is nothing to measure by. With fewer than six tasks there
    are no bounds: even a clean sweep of five may be chance.

    >>> part_pairs([(1, 1), (1, 1), (1, 1), (0, 1), (1, 1)], seed=1).p_value
    0.125
    """
    check_share(confidence=confidence)
    check_positive(samples=samples)
    tasks = [_square(difference, pairs) for difference, pairs in clusters if pairs]
    if not any(difference for difference, *_ in tasks):
        return None
    above, below, squares, mixed, below_squares = zip(*tasks, strict=True)
    kept = sum(below), sum(squares), sum(below_squares)  # whatever the signs
    signs: Iterable[Sequence[int]] = product((1, -1), repeat=len(tasks))
    if 2 ** len(tasks) > samples:
        rng = random.Random(seed)
        drawn = (rng.choices((1, -1), k=len(tasks)) for _ in range(samples))
        signs = chain([[1] * len(tasks)], drawn)
    parted = []
    for some in signs:
        sums = sum(map(mul, some, above)), sum(map(mul, some, mixed))
        parted.append(_weigh((sums[0], kept[0], kept[1], sums[1], kept[2]), len(tasks)))
    return _judge(parted, confidence=confidence)


def _drop_empty(clusters: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The sessions with data: a session without a call or an error only looks like data."""
    return [cluster for cluster in clusters if any(cluster)]


def _divide_sums(clusters: Sequence[tuple[float, float]]) -> float | None:
    if not clusters:
        return None
    numerator, denominator = map(sum, zip(*clusters, strict=True))
    return numerator / denominator if denominator > 0 else None


def _agree(clusters: Sequence[tuple[float, float]]) -> bool:
    """True if no resample can differ from the whole, as with a single session."""
    first = clusters[0]
    return all(
        math.isclose(numerator * first[1], first[0] * denominator, rel_tol=1e-12)
        for numerator, denominator in clusters
    )


def _is_plenty(arm: Sequence[tuple[float, float]]) -> bool:
    """True if there are so many sessions that none of them decides, above or below the line."""
    if len(arm) < MANY:
        return False
    total = math.fsum(below for _, below in arm)
    ratio = math.fsum(above for above, _ in arm) / total
    squares = [(above - ratio * below) ** 2 for above, below in arm]
    below_squares = math.fsum(below * below for _, below in arm)
    return (
        0 < max(squares) <= LARGEST_SHARE * math.fsum(squares)
        and below_squares <= LARGEST_SHARE * total**2
    )


def _deal(
    few: Sequence[tuple[float, float]],
    many: Sequence[tuple[float, float]],
    rng: random.Random,
    samples: int,
) -> Iterator[tuple[float, float] | None]:
    """The differences of deals with their variances: first the real deal, then others.

    All deals if there are at most `samples`. A deal that leaves an arm without a ratio is None.
    """
    everyone = [_square(*one) for one in (*few, *many)]
    totals = list(map(sum, zip(*everyone, strict=True)))
    deals: Iterable[Sequence[_Squared]] = combinations(everyone, len(few))
    if math.comb(len(everyone), len(few)) > samples:
        drawn = (rng.sample(everyone, k=len(few)) for _ in range(samples))
        deals = chain([everyone[: len(few)]], drawn)
    for dealt in deals:
        own = list(map(sum, zip(*dealt, strict=True)))
        rest = [total - part for total, part in zip(totals, own, strict=True)]
        if own[1] > 0 and rest[1] > 0:
            one, other = _weigh(own, len(few)), _weigh(rest, len(many))
            yield one[0] - other[0], one[1] + other[1]
        else:
            yield None


def _square(above: float, below: float) -> _Squared:
    return above, below, above * above, above * below, below * below


def _weigh(sums: Sequence[float], count: int) -> tuple[float, float]:
    """The ratio of these sessions, and its variance by the delta method."""
    above, below, squares, mixed, below_squares = sums
    ratio = above / below
    spread = squares - 2 * ratio * mixed + ratio * ratio * below_squares
    if count < 2 or spread <= 1e-12 * squares:  # rounding leaves a rest of equal figures
        return ratio, 0.0
    return ratio, spread * count / (count - 1) / below**2


def _judge(parted: Sequence[tuple[float, float] | None], *, confidence: float) -> Parting | None:
    """The real deal, which is the first, among all possible ones.

    On either side as many deals may lie as far out as the p-value counts as chance: the interval
    ends as many standard errors away as the last of them. A None might lie on both sides.
    """
    if parted[0] is None:
        return None
    (value, variance), error = parted[0], math.sqrt(parted[0][1])
    seen = _standardize(value, variance)
    scores = [None if one is None else _standardize(*one) for one in parted]
    # equal distances differ in the last digit
    scores = [seen if one and math.isclose(one, seen, rel_tol=1e-9) else one for one in scores]
    lows = sorted(-math.inf if one is None else one for one in scores)
    highs = sorted(math.inf if one is None else one for one in scores)
    as_far = min(bisect_right(lows, seen), len(highs) - bisect_left(highs, seen))
    p_value = min(1.0, 2 * as_far / len(scores))
    share = round((1 - confidence) / 2 * len(scores), 9)
    if share < 1 or not error:
        return Parting(Estimate(value, None, None), p_value)
    chance = math.ceil(share)
    low, high = error * (seen - highs[-chance]), error * (seen - lows[chance - 1])
    return Parting(_make_estimate(value, low, high), p_value)


def _standardize(difference: float, variance: float) -> float:
    if not difference:
        return 0.0
    return difference / math.sqrt(variance) if variance else math.copysign(math.inf, difference)


def _compute(
    value: float, arms: Sequence[Sequence[tuple[float, float]]], *, confidence: float
) -> Parting:
    """The limit of resampling with many sessions; the p-value is of a value of zero."""
    sums = [map(sum, zip(*(_square(*one) for one in arm), strict=True)) for arm in arms]
    weighed = [_weigh(list(one), len(arm)) for one, arm in zip(sums, arms, strict=True)]
    error = math.sqrt(math.fsum(variance for _, variance in weighed))
    freedom = min(map(len, arms)) - 1
    half = student_quantile((1 + confidence) / 2, freedom) * error
    p_value = 2 * student_cdf(-abs(value) / error, freedom)
    return Parting(Estimate(value, value - half, value + half), p_value)


def _bound(
    value: float, replicates: Sequence[float | None], *, sessions: int, confidence: float
) -> Estimate:
    """The percentiles of the replicates, widened for few sessions.

    Plain percentiles are too narrow by sqrt((n − 1) / n) and by the step from normal to Student;
    Hesterberg's correction reads them further out by as much. A replicate that could not be
    computed might lie anywhere, so it counts against both ends.
    """
    widened = student_quantile((1 + confidence) / 2, sessions - 1)
    widened *= math.sqrt(sessions / (sessions - 1))
    outside = math.floor(NormalDist().cdf(-widened) * len(replicates))
    low = sorted(-math.inf if r is None else r for r in replicates)[outside]
    high = sorted(math.inf if r is None else r for r in replicates)[-1 - outside]
    return _make_estimate(value, low, high)


def _make_estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(
        value, low if math.isfinite(low) else None, high if math.isfinite(high) else None
    )
