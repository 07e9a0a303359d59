"""Is B as good as A? Odds that hold however often they are looked at.

A is the model in use, B the cheaper one. Each odds ratio compares how likely the recorded runs are
under two hypotheses, so a wrong verdict stays rare even if somebody looks after every run. One job
is judged by likelihoods with A's rate integrated out; several jobs by the Mantel-Haenszel
difference, because pooled counts mix the difficulty of the jobs into the difference of the models.
Tasks that both models did are compared task by task.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Literal

from msgspec import Struct

from relight.stats.rates import find_least

MARGIN = 0.05
# one job needs 30 to 1 for "good enough": 20 to 1 gave 5 to 7 % wrong ones at success rates of .98
GOOD_ODDS, WORSE_ODDS, JOBS_ODDS = 30.0, 20.0, 20.0
WORSE_SIZES = (0.05, 0.10, 0.20, 0.40)
LEAST_FAILURES, LEAST_RUNS_OF_JOBS = 3, 20
MOST_RUNS = 20_000
_NODES = 48
_REACH = 8.0  # standard deviations
_NOTHING = 30.0  # in logarithms
_GRID = [step / 100 for step in range(-60, 41, 2)]
# how alike two models may fare at one task, from not at all to as alike as their rates allow
_LIKENESS = (0.05, 0.25, 0.5, 0.75, 0.95)
_LEAST_CHANCE = 1e-300

Verdict = Literal["good enough", "worse", "cannot tell yet"]


class Tally(Struct, frozen=True):
    """Runs with a known outcome; expected counts may be fractions."""

    successes: float
    failures: float

    @property
    def runs(self) -> float:
        return self.successes + self.failures

    @property
    def rate(self) -> float:
        return self.successes / self.runs


class Pairs(Struct, frozen=True):
    """Tasks that both models did, by who succeeded; expected counts may be fractions."""

    both: float = 0.0
    only_a: float = 0.0
    only_b: float = 0.0
    neither: float = 0.0

    @property
    def a(self) -> Tally:
        return Tally(self.both + self.only_a, self.only_b + self.neither)

    @property
    def b(self) -> Tally:
        return Tally(self.both + self.only_b, self.only_a + self.neither)


NO_PAIRS = Pairs()


class Odds(Struct, frozen=True):
    """Natural logarithms: `good` for "as good" against "a margin worse", `worse` for "worse"."""

    good: float
    worse: float


@lru_cache(maxsize=4096)  # lists of skills ask for the same counts again and again
def weigh_job(a: Tally, b: Tally, *, margin: float = MARGIN, pairs: Pairs = NO_PAIRS) -> Odds:
    """Return the odds of one job.

    Runs and pairs have their own rates of A, and only the difference is the same: past tasks may be
    easier or harder than the runs.
    """

    def weigh(d: float) -> float:
        return _log_likelihood(a, b, d) + _log_likelihood_of_pairs(pairs, d)

    same = weigh(0.0)
    worse = [weigh(-size) - same for size in WORSE_SIZES]
    return Odds(same - weigh(-margin), _log_mean(worse))


def judge_job(a: Tally, b: Tally, *, margin: float = MARGIN, pairs: Pairs = NO_PAIRS) -> Verdict:
    """Return the verdict on one job, valid at any look.

    >>> judge_job(Tally(100, 0), Tally(70, 0))
    'good enough'
    >>> judge_job(Tally(100, 0), Tally(0, 1))
    'cannot tell yet'
    >>> judge_job(Tally(100, 0), Tally(0, 3))
    'worse'
    >>> judge_job(Tally(90, 10), Tally(20, 1), pairs=Pairs(both=54, neither=6))
    'good enough'
    """
    all_a, all_b = add_tallies(a, pairs.a), add_tallies(b, pairs.b)
    if not all_a.runs or not all_b.runs:
        return "cannot tell yet"
    odds = weigh_job(a, b, margin=margin, pairs=pairs)
    if odds.good >= math.log(GOOD_ODDS):
        return "good enough"
    return _judge_worse(odds, all_a.rate - all_b.rate, all_b.failures, margin)


def is_worse_by(a: Tally, b: Tally, *, odds: float) -> bool:
    """True if the odds for "worse" are at least so high: a hint, not a verdict."""
    return weigh_job(a, b).worse >= math.log(odds)


def add_tallies(one: Tally, other: Tally) -> Tally:
    """Return the runs of both."""
    return Tally(one.successes + other.successes, one.failures + other.failures)


def weigh_jobs(jobs: Sequence[tuple[Tally, Tally]], *, margin: float = MARGIN) -> Odds:
    """Return the odds of the mean difference over jobs that both models ran."""
    apart, spread = difference(jobs, -margin)
    good = (apart * margin - margin**2 / 2) / spread
    apart, spread = difference(jobs, 0.0)
    worse = [(-apart * size - size**2 / 2) / spread for size in WORSE_SIZES]
    return Odds(good, _log_mean(worse))


def judge_jobs(jobs: Sequence[tuple[Tally, Tally]], *, margin: float = MARGIN) -> Verdict:
    """Return the verdict on the mean over several jobs; one job is judged by itself."""
    shared = [(a, b) for a, b in jobs if a.runs and b.runs]
    if len(shared) == 1:
        return judge_job(*shared[0], margin=margin)
    if sum(b.runs for _, b in shared) < LEAST_RUNS_OF_JOBS:
        return "cannot tell yet"
    odds = weigh_jobs(shared, margin=margin)
    if odds.good >= math.log(JOBS_ODDS):
        return "good enough"
    apart, _ = difference(shared, 0.0)
    return _judge_worse(odds, -apart, sum(b.failures for _, b in shared), margin)


def _judge_worse(odds: Odds, behind: float, failures: float, margin: float) -> Verdict:
    is_worse = odds.worse >= math.log(WORSE_ODDS)
    if is_worse and failures >= LEAST_FAILURES and behind >= margin:
        return "worse"
    return "cannot tell yet"


def find_interval(
    jobs: Sequence[tuple[Tally, Tally]], *, pairs: Pairs = NO_PAIRS
) -> tuple[float, float]:
    """Return the differences (B less A) that the runs do not rule out, on a grid of 2 points.

    Pairs are those of a single job.
    """
    shared = [(a, b) for a, b in jobs if a.runs and b.runs] or jobs
    if len(shared) == 1:
        ((a, b),) = shared
        logs = [_log_likelihood(a, b, d) + _log_likelihood_of_pairs(pairs, d) for d in _GRID]
    else:
        apart = [difference(shared, d) for d in _GRID]
        logs = [-(mean**2) / (2 * spread) - math.log(spread) / 2 for mean, spread in apart]
    bar = _log_mean(logs) - math.log(WORSE_ODDS)
    inside = [d for d, value in zip(_GRID, logs, strict=True) if value > bar]
    return min(inside), max(inside)


def count_more_runs(
    a: Tally,
    b: Tally,
    *,
    margin: float = MARGIN,
    share: float = 0.2,
    pairs: Pairs = NO_PAIRS,
) -> int | None:
    """Return how many more runs of B show "good enough" if B is as good as A; 0 if they do now.

    A runs beside it: B has `share` of all runs. The rate is the one of all runs so far, never the
    observed difference. None if 20,000 runs would not be enough.
    """
    rate = _guess_rate(a, b)
    beside = (1 - share) / share if share < 1 else 0.0

    def is_settled(more: int) -> bool:
        expected = (_add(a, more * beside, rate), _add(b, more, rate))
        return weigh_job(*expected, margin=margin, pairs=pairs).good >= math.log(GOOD_ODDS)

    return find_least(is_settled, least=0, most=MOST_RUNS)


@lru_cache(maxsize=1024)  # a page asks again for each item whose runs are the same as before
def count_more_runs_of_jobs(
    jobs: tuple[tuple[Tally, Tally], ...], *, margin: float = MARGIN, share: float = 0.2
) -> int | None:
    """`count_more_runs` for several jobs, over which further runs are spread as those so far."""
    shared = [(a, b) for a, b in jobs if a.runs and b.runs]
    if len(shared) == 1:
        return count_more_runs(*shared[0], margin=margin, share=share)
    beside = (1 - share) / share if share < 1 else 0.0
    runs_a, runs_b = sum(a.runs for a, _ in shared), sum(b.runs for _, b in shared)

    def is_settled(more: int) -> bool:
        grown = []
        for a, b in shared:
            rate = _guess_rate(a, b)
            other = _add(a, more * beside * a.runs / runs_a, rate)
            grown.append((other, _add(b, more * b.runs / runs_b, rate)))
        return judge_jobs(grown, margin=margin) == "good enough"

    return find_least(is_settled, least=0, most=MOST_RUNS)


def _guess_rate(a: Tally, b: Tally) -> float:
    """The rate of both models together; never quite 1, which no number of runs shows."""
    return min((a.successes + b.successes + 1) / (a.runs + b.runs + 1.05), 0.998)


def _add(tally: Tally, runs: float, rate: float) -> Tally:
    return Tally(tally.successes + runs * rate, tally.failures + runs * (1 - rate))


def difference(jobs: Sequence[tuple[Tally, Tally]], d: float) -> tuple[float, float]:
    """Return the Mantel-Haenszel difference B - A - d, and its variance if it is zero."""
    total = spread = weights = 0.0
    for a, b in jobs:
        weight = a.runs * b.runs / (a.runs + b.runs)
        p = _restricted_rate(a, b, d)
        q = p + d
        total += weight * (b.rate - a.rate - d)
        spread += weight**2 * (p * (1 - p) / a.runs + q * (1 - q) / b.runs)
        weights += weight
    return total / weights, spread / weights**2


@lru_cache(maxsize=4096)  # the same counts again, as for `weigh_job`
def _restricted_rate(a: Tally, b: Tally, d: float) -> float:
    """A's likeliest rate if B's is `d` above it, with half a run added to each count."""
    low, high = max(0.0, -d) + 1e-9, min(1.0, 1.0 - d) - 1e-9
    # pages look for thousands of rates: nothing is read twice
    a_good, a_bad = a.successes + 0.5, a.failures + 0.5
    b_good, b_bad = b.successes + 0.5, b.failures + 0.5
    for _ in range(50):
        p = (low + high) / 2
        if a_good / p - a_bad / (1 - p) + (b_good / (p + d) - b_bad / (1 - p - d)) > 0:
            low = p
        else:
            high = p
    return (low + high) / 2


def _log_likelihood(a: Tally, b: Tally, d: float) -> float:
    """The likelihood of the counts if B's rate is A's plus `d`, over all rates of A."""

    def weigh(p: float) -> float:
        q = p + d
        value = a.successes * math.log(p) + a.failures * math.log1p(-p)
        return value + b.successes * math.log(q) + b.failures * math.log1p(-q)

    return _integrate(weigh, a, b, d)


@lru_cache(maxsize=4096)  # a trial's tasks stay the same while its runs go on
def _log_likelihood_of_pairs(pairs: Pairs, d: float) -> float:
    """The likelihood of the pairs if B's rate is A's plus `d`, over all rates and likenesses."""
    if pairs == NO_PAIRS:
        return 0.0
    counts = (pairs.both, pairs.only_a, pairs.only_b, pairs.neither)

    def weigh(p: float) -> float:
        q = p + d
        logs = []
        for likeness in _LIKENESS:
            both = p * q + likeness * (min(p, q) - p * q)
            chances = (both, p - both, q - both, 1 - p - q + both)
            logs.append(
                sum(
                    count * math.log(max(chance, _LEAST_CHANCE))
                    for count, chance in zip(counts, chances, strict=True)
                    if count
                )
            )
        return _log_mean(logs)

    return _integrate(weigh, pairs.a, pairs.b, d)


def _integrate(weigh: Callable[[float], float], a: Tally, b: Tally, d: float) -> float:
    """Return the logarithm of the integral over A's rate; the counts say where its peak is."""
    low, high = _find_peak(a, b, d, weigh)
    width = high - low
    terms = [log_weight + weigh(low + width * x) for x, log_weight in _nodes()]
    return _log_sum(terms) + math.log(width)


def _find_peak(
    a: Tally, b: Tally, d: float, weigh: Callable[[float], float]
) -> tuple[float, float]:
    """Return the range outside of which the likelihood vanishes.

    A fixed range is too coarse for many runs: at 1,500 of A and 375 of B the log odds were off by
    up to 1.2, in either direction.
    """
    p = _restricted_rate(a, b, d)
    bend = (a.successes + 0.5) / p**2 + (a.failures + 0.5) / (1 - p) ** 2
    bend += (b.successes + 0.5) / (p + d) ** 2 + (b.failures + 0.5) / (1 - p - d) ** 2
    bar = weigh(p) - _NOTHING

    def find_end(end: float) -> float:
        side = 1.0 if end > p else -1.0
        # a point as near to the end as rounding is the end itself, where no logarithm exists
        most = abs(end - p) * (1 - 1e-9)
        reach = _REACH / math.sqrt(bend)
        while most > reach and weigh(p + side * reach) > bar:
            reach *= 2
        return end if most <= reach else p + side * reach

    return find_end(max(0.0, -d)), find_end(min(1.0, 1.0 - d))


def _log_sum(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(sum(math.exp(value - top) for value in logs))


def _log_mean(logs: Sequence[float]) -> float:
    return _log_sum(logs) - math.log(len(logs))


@cache
def _nodes() -> list[tuple[float, float]]:
    """Gauss-Legendre nodes on (0, 1) with the logarithms of their weights.

    They are squeezed towards both ends by x -> 3x² - 2x³: likelihoods of high rates are steep.
    """
    found = []
    for place in range(1, _NODES + 1):
        x, slope = _legendre_root(place)
        u = (x + 1) / 2
        weight = 6 * u * (1 - u) / ((1 - x * x) * slope * slope)
        found.append((3 * u * u - 2 * u**3, math.log(weight)))
    return found


def _legendre_root(place: int) -> tuple[float, float]:
    """Return a root of the Legendre polynomial and the slope there, by Newton's method."""
    x = math.cos(math.pi * (place - 0.25) / (_NODES + 0.5))
    slope = 1.0
    for _ in range(8):
        before, value = 1.0, x
        for degree in range(2, _NODES + 1):
            before, value = value, ((2 * degree - 1) * x * value - (degree - 1) * before) / degree
        slope = _NODES * (x * value - before) / (x * x - 1)
        x -= value / slope
    return x, slope
