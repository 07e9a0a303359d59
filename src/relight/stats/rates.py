"""How well something did lately, and how sure that is: means, rates and their intervals.

Unknown values are left out and counted, never read as zero or as failure. Where the data
cannot carry a bound, the bound is None rather than a narrow guess.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from relight.errors import RelightError
from relight.stats.distributions import beta_quantile, check_positive, check_share, normal_quantile

Counts = tuple[float, float]
"""An arm's (successes, failures); runs of unknown outcome are in neither."""


class Interval(Struct, frozen=True):
    """The range that holds the true value with the confidence asked for."""

    low: float
    high: float


class Estimate(Struct, frozen=True):
    """A value with its interval; what the data cannot tell is None."""

    value: float | None
    low: float | None
    high: float | None


class Mean(Struct, frozen=True):
    """A weighted mean; `weight` adds up the weights, `n_eff` is how many equal ones they equal."""

    value: float
    weight: float
    n_eff: float
    count: int
    unknown: int


class Rate(Struct, frozen=True):
    """A weighted success rate of the known outcomes, and what the unknown ones leave open.

    `coverage` is the weighted share of outcomes that are known. Had all unknown ones failed the
    rate would be `low`, had they all succeeded `high`: bounds of ignorance, not of chance.
    """

    value: float
    weight: float
    n_eff: float
    known: int
    unknown: int
    coverage: float
    low: float
    high: float


def half_life_from_alpha(alpha: float) -> float:
    """Days after which a value counts half, if each day takes `alpha` off what came before.

    >>> round(half_life_from_alpha(0.3), 2)
    1.94
    """
    check_share(alpha=alpha)
    return math.log(2) / -math.log1p(-alpha)


def alpha_from_half_life(days: float) -> float:
    """The weight of the newest day in an exponential average whose values halve in `days`.

    >>> round(alpha_from_half_life(5), 4)
    0.1294
    """
    check_positive(half_life_days=days)
    return -math.expm1(-math.log(2) / days)


def decayed_mean(
    values: Iterable[tuple[float, float | None]], *, now: float, half_life: float
) -> Mean | None:
    """Average timed values so that one `half_life` older counts half as much.

    Ages are real time, so a gap in the record ages what came before it. Unknown values are
    left out rather than read as zero; with none known the answer is None. The
    result carries its effective sample size: three fresh runs are not thirty. A value from
    after `now` (another machine's clock) counts as fresh.

    >>> decayed_mean([(0, 1.0), (5, 4.0), (5, None)], now=5, half_life=5).value
    3.0
    """
    check_positive(half_life=half_life)
    known: list[tuple[float, float]] = []
    unknown = 0
    for time, value in values:
        if value is None:
            unknown += 1
        else:
            known.append((max(0.0, now - time), value))
    if not known:
        return None
    # Weights relative to the newest value cannot all vanish, however old the record is.
    newest = min(age for age, _ in known)
    weights = [math.exp2((newest - age) / half_life) for age, _ in known]
    total = math.fsum(weights)
    return Mean(
        value=math.fsum(w * value for w, (_, value) in zip(weights, known, strict=True)) / total,
        weight=total * math.exp2(-newest / half_life),
        n_eff=total * total / math.fsum(w * w for w in weights),
        count=len(known),
        unknown=unknown,
    )


def decayed_rate(
    outcomes: Iterable[tuple[float, bool | None]], *, now: float, half_life: float
) -> Rate | None:
    """The share of successes, where one `half_life` older counts half as much.

    An outcome of None is one that nobody knows: it lowers `coverage`, not the rate. With none
    known the answer is None. For the uncertainty of chance put `value * weight` successes and
    the rest of `weight` as failures into `beta_interval`.

    >>> rate = decayed_rate([(0, True), (0, True), (0, False), (0, None)], now=0, half_life=5)
    >>> round(rate.value, 2), rate.coverage, rate.low, rate.high
    (0.67, 0.75, 0.5, 0.75)
    """
    events = list(outcomes)
    mean = decayed_mean(
        ((time, None if outcome is None else float(outcome)) for time, outcome in events),
        now=now,
        half_life=half_life,
    )
    share = decayed_mean(
        ((time, float(outcome is not None)) for time, outcome in events),
        now=now,
        half_life=half_life,
    )
    if mean is None or share is None:
        return None
    coverage = share.value
    low = mean.value * coverage
    return Rate(
        value=mean.value,
        weight=mean.weight,
        n_eff=mean.n_eff,
        known=mean.count,
        unknown=mean.unknown,
        coverage=coverage,
        low=low,
        high=min(1.0, low + (1 - coverage)),
    )


def wilson(successes: float, trials: float, *, confidence: float = 0.95) -> Interval:
    """Wilson's interval of a success rate, which stays honest near 0 and 1 and with few trials.

    Counts may be effective ones (`n_eff`), so they need not be whole.

    >>> interval = wilson(9, 10)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.596, 0.982)
    >>> wilson(0, 0)
    Interval(low=0.0, high=1.0)
    """
    check_share(confidence=confidence)
    if not 0 <= successes <= trials < math.inf:
        raise RelightError(
            f"successes must be between 0 and trials, not {successes} of {trials}",
            "Trials are successes and failures together.",
        )
    if trials == 0:
        return Interval(0.0, 1.0)
    z = normal_quantile((1 + confidence) / 2)
    scale = trials + z * z
    centre = (successes + z * z / 2) / scale
    half = z / scale * math.sqrt(successes * (trials - successes) / trials + z * z / 4)
    return Interval(
        low=0.0 if successes == 0 else max(0.0, centre - half),
        high=1.0 if successes == trials else min(1.0, centre + half),
    )


def beta_interval(a: float, b: float, *, confidence: float = 0.95) -> Interval:
    """The middle of a Beta(a, b) posterior: a success rate after a − 1 successes, b − 1 failures.

    >>> interval = beta_interval(1 + 9, 1 + 1)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.587, 0.977)
    """
    check_share(confidence=confidence)
    outside = (1 - confidence) / 2
    return Interval(beta_quantile(outside, a, b), beta_quantile(1 - outside, a, b))


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Probability that a success scores above a failure, ties counting half.

    0.5 is a score that knows nothing. None without both a success and a failure.

    >>> auc([0.9, 0.4, 0.4, 0.1], [True, True, False, False])
    0.875
    """
    ranked = sorted(zip(scores, labels, strict=True))
    below = wins = 0.0
    for _, tied in groupby(ranked, key=itemgetter(0)):
        group = [label for _, label in tied]
        successes = sum(group)
        failures = len(group) - successes
        wins += successes * (below + failures / 2)
        below += failures
    successes = sum(labels)
    return wins / (successes * below) if successes and below else None


def check_counts(name: str, counts: Counts) -> Counts:
    """The counts as given, unless one is negative or no number."""
    if not all(0 <= count < math.inf for count in counts):
        raise RelightError(f"{name} must be (successes, failures), each from 0 up, not {counts}")
    return counts
