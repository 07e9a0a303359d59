"""Success rates, their intervals, and the weight of what is old.

Where the data cannot carry a bound, the bound is None rather than a narrow guess.
"""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from relight.errors import RelightError, refuse

Counts = tuple[float, float]
"""An arm's (successes, failures); runs of unknown outcome are in neither."""

FEWEST_GROUPS = 5  # below it their spread is not known


class Interval(Struct, frozen=True):
    """The range that holds the true value with the requested confidence."""

    low: float
    high: float


class Estimate(Struct, frozen=True):
    """A value with its interval; None is unknown."""

    value: float | None
    low: float | None
    high: float | None


def normal_quantile(p: float) -> float:
    """The value that a standard normal stays under with probability `p`.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    check_share(p=p)
    from statistics import NormalDist  # loading it takes 3 ms, and few commands need it

    return NormalDist().inv_cdf(p)


def half_life_from_alpha(alpha: float) -> float:
    """Return the days after which a value counts half, if each day takes `alpha` off its weight.

    >>> round(half_life_from_alpha(0.3), 2)
    1.94
    """
    check_share(alpha=alpha)
    return math.log(2) / -math.log1p(-alpha)


def decay(age: float, half_life: float) -> float:
    """The weight of something of this age if it counts half after one `half_life`.

    >>> decay(10, 5)
    0.25
    """
    return math.exp2(-age / half_life)


def wilson(successes: float, trials: float, *, confidence: float = 0.95) -> Interval:
    """Return Wilson's interval of a success rate; it holds near 0 and 1 and with few trials.

    Counts may be effective sample sizes, so they need not be whole.

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


class ClusterSums(Struct, frozen=True, kw_only=True):
    """Sums over groups of trials, such as the calls of each session: of what a share is made."""

    groups: int
    trials: int
    events: int
    trials_squared: int
    events_squared: int
    trials_times_events: int


def cluster_interval(sums: ClusterSums) -> Interval | None:
    """Return the interval of a share whose groups are independent, and not the trials in them.

    It is Wilson's for as many trials as vary as much as the groups do. None with too few groups.

    >>> alike = ClusterSums(groups=10, trials=100, events=20, trials_squared=1000,
    ...     events_squared=40, trials_times_events=200)
    >>> cluster_interval(alike) == wilson(20, 100)
    True
    """
    if sums.groups < FEWEST_GROUPS or not sums.trials:
        return None
    share = sums.events / sums.trials
    spread = sums.events_squared - 2 * share * sums.trials_times_events
    spread = max(spread + share * share * sums.trials_squared, 0.0)
    variance = spread * sums.groups / (sums.groups - 1) / sums.trials**2
    trials = float(sums.trials)
    if not 0 < share < 1:  # no group differs: only their number is sure
        trials = float(sums.groups)
    elif variance > 0:
        trials = min(trials, share * (1 - share) / variance)
    return wilson(share * trials, trials)


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Probability that a success scores above a failure, ties counting half.

    0.5 is a score without information. None without both a success and a failure.

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


def find_least(is_enough: Callable[[int], bool], *, least: int, most: int) -> int | None:
    """Return the smallest number that is enough, by bisection; None if `most` is not."""
    if is_enough(least):
        return least
    if not is_enough(most):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if is_enough(middle) else (middle, most)
    return most


def check_counts(name: str, counts: Counts) -> Counts:
    """Return the counts; raise if one is negative or not a number."""
    if not all(0 <= count < math.inf for count in counts):
        raise RelightError(f"{name} must be (successes, failures), each from 0 up, not {counts}")
    return counts


def check_share(**named: float) -> None:
    """Raise for a parameter that is not strictly between 0 and 1, by its name."""
    for name, value in named.items():
        if not 0 < value < 1:
            raise refuse(name, f"must be above 0 and below 1, not {value}")


def check_positive(**named: float) -> None:
    """Raise for a parameter that is not a finite number above zero, by its name."""
    for name, value in named.items():
        if not (value > 0 and math.isfinite(value)):
            raise refuse(name, f"must be a number above 0, not {value}")
