"""Does a series cost more than before, and is a change over? `failure_alarms` has failures.

The detector is a Shiryaev-Roberts sum: it grows by about one a run while the baseline is right, so
a limit of the runs of a year is about one false alarm a year. Several sizes of change are watched
at once and their sums averaged. The baseline comes from the older runs only, so that a change does
not become its own baseline. What is found after a run depends on no later run.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

# the false alarms that a whole store may have in a year
FALSE_ALARMS = 12
FEWEST_RUNS, FEWEST_COSTS, FEWEST_COST_DAYS = 30, 60, 14
# runs of another kind, as those of weekends, are shrunk towards all runs by so many
KIND_WORTH = 10
# a new stream, as another job of a model, is not compared before it has so many older runs
FEWEST_OF_STREAM = 10
LEAST_RATE, MOST_RATE = 0.005, 0.9
# of costs: the newest of the older runs, the largest outlier, the smallest spread, the rises
WINDOW_RUNS = 400
MOST_Z, LEAST_SPREAD, RISES = 2.5, 0.1, (1.5, 2.0, 4.0)
# a baseline of costs is sorted, so it is estimated at every fifth run only
COST_STEP = 5
# a change is over at these odds for "as before"
END_ODDS = 50.0


class SeriesChange(Struct, frozen=True):
    """A change: the run that showed it, and its likely first run."""

    shown_by: int
    since: int


class CostBaseline(Struct, frozen=True):
    """Logarithms of usual costs: their middle and spread, and the likeness of neighbours."""

    middle: float
    spread: float
    likeness: float
    shifts: dict[Hashable, float]


def find_cost_limit(runs_a_year: float, series: int) -> float:
    """Return the limit for costs that keeps a store of so many series within its false alarms.

    >>> find_cost_limit(365, 6), find_cost_limit(365, 120)
    (365.0, 3650.0)
    """
    return runs_a_year * max(1.0, series / FALSE_ALARMS)


class FirstRuns:
    """CUSUMs for several sizes of change; the largest names the likely first run of it."""

    def __init__(self, sizes: int) -> None:
        self._cusums, self._began = [1.0] * sizes, [0] * sizes

    def add(self, place: int, ratios: Iterable[float]) -> None:
        """Add the likelihood ratios of a run."""
        for size, ratio in enumerate(ratios):
            if self._cusums[size] <= 1:
                self._cusums[size], self._began[size] = 1.0, place
            self._cusums[size] *= ratio

    @property
    def since(self) -> int:
        return self._began[max(range(len(self._cusums)), key=self._cusums.__getitem__)]


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
    sums, first_runs, usual = [0.0] * len(RISES), FirstRuns(len(RISES)), None
    for place, value in enumerate(logs):
        if place < max(begin, FEWEST_COSTS) or days[place] - days[0] < FEWEST_COST_DAYS:
            continue
        if usual is None or place % COST_STEP == 0:
            older = count_older(place)
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
        sums = [(1 + one) * ratio for one, ratio in zip(sums, ratios, strict=True)]
        first_runs.add(place, ratios)
        if sum(sums) / len(sums) >= limits[place]:
            return SeriesChange(place, first_runs.since)
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


def count_older(place: int) -> int:
    """Return how many of the runs before this one belong to its baseline."""
    return max(0, place - max(20, min(200, place // 2)))


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
