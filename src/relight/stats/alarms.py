"""Has a series of runs changed for the worse? Detectors that may look after every run for years.

Each is a Shiryaev-Roberts sum: it grows by about one a run while the baseline is right, so a limit
of the runs of a year is about one false alarm a year. Several sizes of change are watched at once
and their sums averaged. The baseline comes from the older runs only, so that a change does not
become its own baseline. What is found after a run depends on that run and those before it alone.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

# the false alarms that a whole store may have in a year
FALSE_ALARMS = 12
# pays for an estimated baseline and for failures that come together
FAILURE_FACTOR = 3.0
ODDS = (3.0, 8.0, 20.0)
FEWEST_RUNS, FEWEST_COSTS, FEWEST_COST_DAYS = 30, 60, 14
# runs of another kind, as those of weekends, are shrunk towards all runs by so many
KIND_WORTH = 10
# a new stream, as another job of a model, is not compared before it has so many older runs
FEWEST_OF_STREAM = 20
# failures come together unless the series shows otherwise
CLINGING, CLINGING_WORTH = 0.25, 4
LEAST_RATE, MOST_RATE = 0.005, 0.9
# of costs: the newest of the older runs, the largest outlier, the smallest spread, the rises
WINDOW_RUNS = 400
MOST_Z, LEAST_SPREAD, RISES = 2.5, 0.1, (1.5, 2.0, 4.0)
# a baseline of costs is sorted, so it is estimated at every fifth run only
COST_STEP = 5
# a change is over at these odds for "as before"
END_ODDS = 50.0


class SeriesChange(Struct, frozen=True):
    """A change: the run that showed it, its likely first run, and the state before it.

    `before` is a share of failures, or the logarithm of a cost with its `spread`.
    """

    shown_by: int
    since: int
    before: float
    spread: float = 0.0


class CostBaseline(Struct, frozen=True):
    """Logarithms of usual costs: their middle and spread, and the likeness of neighbours."""

    middle: float
    spread: float
    likeness: float
    shifts: dict[Hashable, float]


def find_alarm_limit(runs_a_year: float, series: int) -> float:
    """Return the limit of a sum that keeps a store of so many series within its false alarms.

    >>> find_alarm_limit(365, 6), find_alarm_limit(365, 120)
    (365.0, 3650.0)
    """
    return runs_a_year * max(1.0, series / FALSE_ALARMS)


class _Sums:
    """Shiryaev-Roberts sums for several sizes of change, and CUSUMs that name the first run."""

    def __init__(self, sizes: int) -> None:
        self._sums, self._cusums, self._began = [0.0] * sizes, [1.0] * sizes, [0] * sizes

    def add(self, place: int, ratios: Iterable[float]) -> float:
        """Add the likelihood ratios of a run; return the mean of the sums."""
        for size, ratio in enumerate(ratios):
            self._sums[size] = (1 + self._sums[size]) * ratio
            if self._cusums[size] <= 1:
                self._cusums[size], self._began[size] = 1.0, place
            self._cusums[size] *= ratio
        return sum(self._sums) / len(self._sums)

    @property
    def since(self) -> int:
        return self._began[max(range(len(self._cusums)), key=self._cusums.__getitem__)]


class _Failures:
    """Runs and failures of the baseline: of all, by kind, and by the outcome of the run before."""

    def __init__(self) -> None:
        self._all = [0, 0]
        self._kinds: dict[Hashable, list[int]] = {}
        self._after = ([0, 0], [0, 0])

    def add(self, kind: Hashable, follows_failure: bool, has_failed: bool) -> None:
        own = self._kinds.setdefault(kind, [0, 0])
        for counts in (self._all, own, self._after[follows_failure]):
            counts[0] += 1
            counts[1] += has_failed

    @property
    def rate(self) -> float:
        return (self._all[1] + 0.2) / (self._all[0] + 4)

    def count(self, kind: Hashable) -> int:
        return self._kinds.get(kind, (0, 0))[0]

    def expect(self, kind: Hashable, follows_failure: bool) -> float:
        """Return the usual share of failures of a run; a failure makes the next one likelier."""
        usual = self.rate
        runs, failed = self._kinds.get(kind, (0, 0))
        rate = (failed + KIND_WORTH * usual) / (runs + KIND_WORTH)
        runs, failed = self._after[follows_failure]
        if follows_failure:
            prior = CLINGING_WORTH * max(usual, CLINGING)
            rate = max((failed + prior) / (runs + CLINGING_WORTH), rate)
        else:
            rate *= min((failed + CLINGING_WORTH * usual) / (runs + CLINGING_WORTH) / usual, 1.0)
        return min(max(rate, LEAST_RATE), MOST_RATE)


def find_more_failures(
    failed: Sequence[bool],
    limits: Sequence[float],
    *,
    kinds: Sequence[Hashable] | None = None,
    are_streams: bool = False,
    begin: int = 0,
) -> SeriesChange | None:
    """Return the first change to more failures; `limits` has the limit after each run.

    `kinds` are kinds of runs with separate rates, as weekends. Streams, as the jobs of a model,
    are kinds with a separate order as well. No run before `begin` can show a change.
    """
    kinds = kinds or [None] * len(failed)
    follows = _follow(failed, kinds if are_streams else [None] * len(failed))
    usual, sums, counted = _Failures(), _Sums(len(ODDS)), 0
    for place, has_failed in enumerate(failed):
        while counted < _count_older(place):
            usual.add(kinds[counted], follows[counted], failed[counted])
            counted += 1
        if place < max(begin, FEWEST_RUNS):
            continue
        if are_streams and usual.count(kinds[place]) < FEWEST_OF_STREAM:
            continue
        q = usual.expect(kinds[place], follows[place])
        changed = [odds * q / (1 - q + odds * q) for odds in ODDS]
        ratios = [p / q if has_failed else (1 - p) / (1 - q) for p in changed]
        if sums.add(place, ratios) >= FAILURE_FACTOR * limits[place]:
            return SeriesChange(place, sums.since, usual.rate)
    return None


def find_higher_costs(
    costs: Sequence[float],
    days: Sequence[float],
    limits: Sequence[float],
    *,
    kinds: Sequence[Hashable] | None = None,
    are_streams: bool = False,
    begin: int = 0,
) -> SeriesChange | None:
    """Return the first change to higher costs, all above zero; `days` are times of runs in days."""
    kinds = kinds or [None] * len(costs)
    logs = [math.log(cost) for cost in costs]
    sums, usual = _Sums(len(RISES)), None
    for place, value in enumerate(logs):
        if place < max(begin, FEWEST_COSTS) or days[place] - days[0] < FEWEST_COST_DAYS:
            continue
        if usual is None or place % COST_STEP == 0:
            older = _count_older(place)
            first = max(0, older - WINDOW_RUNS)
            usual = _measure(logs[first:older], kinds[first:older], are_streams=are_streams)
        shift = usual.shifts.get(kinds[place], None if are_streams else 0.0)
        if shift is None:
            continue
        middle = usual.middle + shift
        z = max(-MOST_Z, min(MOST_Z, (value - middle) / usual.spread))
        worth = (1 - usual.likeness) / (1 + usual.likeness)
        rises = [min(math.log(rise) / usual.spread, MOST_Z) for rise in RISES]
        ratios = [math.exp(worth * (u * z - u * u / 2)) for u in rises]
        if sums.add(place, ratios) >= limits[place]:
            return SeriesChange(place, sums.since, usual.middle, usual.spread)
    return None


def find_end_of_failures(failed: Sequence[bool], *, before: float, after: float) -> int | None:
    """Return the run that shows that failures are again as rare as before; None if none does.

    They are weighed against a rate between both: a few runs that all failed say little about the
    rate of failures, and three successes would end the change of a job that fails two of three.
    """
    before, after = max(before, LEAST_RATE), min(max(after, LEAST_RATE), MOST_RATE)
    if before >= after:
        return None
    odds = math.sqrt(before / (1 - before) * after / (1 - after))
    after = odds / (1 + odds)
    steps = (math.log((1 - before) / (1 - after)), math.log(before / after))
    return _find_end([steps[has_failed] for has_failed in failed])


def find_end_of_costs(
    costs: Sequence[float], *, before: float, after: float, spread: float
) -> int | None:
    """Return the run that shows that costs are again as low as before; all are logarithms."""
    if before >= after:
        return None
    middle, height = (before + after) / 2, (after - before) / spread
    zs = [max(-MOST_Z, min(MOST_Z, (middle - value) / spread)) for value in costs]
    return _find_end([height * z for z in zs])


def _find_end(steps: Sequence[float]) -> int | None:
    """Return the place at which the evidence for an end, never below none, reaches its limit."""
    reached = 0.0
    for place, step in enumerate(steps):
        reached = max(0.0, reached + step)
        if reached >= math.log(END_ODDS):
            return place
    return None


def _count_older(place: int) -> int:
    """Return how many of the runs before this one belong to its baseline."""
    return max(0, place - max(20, min(200, place // 2)))


def _follow(failed: Sequence[bool], streams: Sequence[Hashable]) -> list[bool]:
    """Return for each run whether the one before it, in its own stream, failed."""
    last: dict[Hashable, bool] = {}
    found = []
    for stream, has_failed in zip(streams, failed, strict=True):
        found.append(last.get(stream, False))
        last[stream] = has_failed
    return found


def _measure(
    logs: Sequence[float], kinds: Sequence[Hashable], *, are_streams: bool
) -> CostBaseline:
    """Return the baseline of some costs, each kind shifted to the middle of all."""
    middle = median(logs)
    own: dict[Hashable, list[float]] = {}
    for kind, value in zip(kinds, logs, strict=True):
        own.setdefault(kind, []).append(value)
    fewest = FEWEST_OF_STREAM if are_streams else KIND_WORTH
    shifts = {
        kind: median(values) - middle for kind, values in own.items() if len(values) >= fewest
    }
    level = [
        value - shifts.get(kind, 0.0) - middle for kind, value in zip(kinds, logs, strict=True)
    ]
    number, ordered = len(level), sorted(level)
    wide = (ordered[int(0.9 * (number - 1))] - ordered[int(0.1 * (number - 1))]) / 2.563
    spread = max(1.4826 * median(map(abs, level)), wide, LEAST_SPREAD)
    spread *= 1.1 * (1 + 4 / number)
    zs = [max(-MOST_Z, min(MOST_Z, value / spread)) for value in level]
    beside = math.fsum(a * b for a, b in pairwise(zs))
    likeness = (beside + 2) / (math.fsum(z * z for z in zs) + 20)
    middle += spread / math.sqrt(number)
    return CostBaseline(middle, spread, min(max(likeness, 0.0), 0.9), shifts)
