"""Does a series fail or cost more than before, and is a change over?

Both detectors may look after every run for years. Each is a Shiryaev-Roberts sum over all runs at
which a change could have begun: how likely the runs since then are with the change, against all
runs without one. While nothing changes, the sum grows by about one a run, so a limit of the runs of
a year is about one false alarm a year. What is found after a run depends on no later run.

For costs, several sizes of change are watched at once and their sums averaged. The baseline comes
from the older runs only, so that a change does not become its own baseline. For failures, neither
the usual rate nor the way they cling together is known, so both hypotheses are averaged over a grid
of both.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
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
# of the limit: in a store of many series it pays for rates between those of the grid. In one of few
# there is time for more, which makes false alarms as rare as one in two years or fewer
FACTOR, FACTOR_OF_FEW = 1.3, 2.0
# so many times the odds of a failure, and the share of each in the sum. They are steps of the grid:
# if a change led to rates between its points, it would fit rates that no point has
CHANGES = ((4.0, 0.25), (8.0, 0.5), (32.0, 0.25))
# odds of a failure after a run without one: 1 to 256 up to 8 to 1
_STEP = math.sqrt(2)
_USUAL_ODDS = [_STEP**power for power in range(-16, 7)]
# so many times that after a failed run, and the share of each; none at all is the likeliest. A run
# after a failed one fails at 60 % at most: a job that fails always is a change, no bad luck
_CLINGING = [(1.0, 0.6)] + [(2.0**power, 0.4 / 6) for power in range(1, 7)]
_MOST_CLINGING_ODDS, _MOST_ODDS = 1.5, 64.0
# the grid of a kind of runs is moved by whole halves of a step
_MOVES_A_STEP = 2
# the rates of kinds are estimated again when there are so many times as many older runs
FIT_AGAIN = 1.5
_LEAST_TOTAL = 1e-200
# odds after a good run, odds after a failed one, share
_GRID = [
    (odds, odds * clinging, share / len(_USUAL_ODDS))
    for odds in _USUAL_ODDS
    for clinging, share in _CLINGING
    if clinging == 1 or odds * clinging <= _MOST_CLINGING_ODDS
]


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


def find_failure_limit(runs_a_year: float, series: int) -> float:
    """Return the limit of a sum that keeps a store of so many series within its false alarms.

    >>> find_failure_limit(365, 6), find_failure_limit(365, 120)
    (730.0, 4745.0)
    """
    return runs_a_year * max(FACTOR_OF_FEW, FACTOR * series / FALSE_ALARMS)


class _Chances(Struct, frozen=True):
    """The chance of an outcome at each point of the grid: as usual, and after each change."""

    usual: list[float]
    changed: list[list[float]]


class _Sums:
    """The likelihood of the runs at each point: without a change, and with one at any run."""

    def __init__(self) -> None:
        self._same = [share for _, _, share in _GRID]
        self._changed = [[0.0] * len(_GRID) for _ in CHANGES]
        self._total = 1.0

    def learn(self, usual: Sequence[float]) -> None:
        """Add a run at which no change can have begun."""
        self._rescale()
        self._changed = [_multiply(one, usual) for one in self._changed]
        self._add_usual(usual)

    def add(self, chances: _Chances) -> float:
        """Add a run; return how likely its outcome was without a change."""
        self._rescale()
        self._changed = [
            [
                (one + share * weight) * chance
                for one, weight, chance in zip(sums, self._same, changed, strict=True)
            ]
            for sums, changed, (_, share) in zip(
                self._changed, chances.changed, CHANGES, strict=True
            )
        ]
        before = self._total
        self._add_usual(chances.usual)
        return self._total / before

    @property
    def odds(self) -> float:
        return sum(map(sum, self._changed)) / self._total

    def _rescale(self) -> None:
        if self._total < _LEAST_TOTAL:
            self._same = [one / self._total for one in self._same]
            self._changed = [[one / self._total for one in sums] for sums in self._changed]
            self._total = sum(self._same)

    def _add_usual(self, usual: Sequence[float]) -> None:
        self._same = _multiply(self._same, usual)
        self._total = sum(self._same)


def _multiply(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one * other for one, other in zip(some, others, strict=True)]


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
    streams = kinds if kinds and are_streams else [None] * len(failed)
    follows = _follow(failed, streams)
    begin, moves, fitted = max(begin, FEWEST_RUNS), {}, 0
    sums, first_runs = _Sums(), FirstRuns(len(CHANGES))
    for place in range(len(failed)):
        first, older = place, count_older(place)
        if kinds and older >= max(FEWEST_OF_STREAM, fitted * FIT_AGAIN):
            moves, fitted = _find_moves(failed[:older], kinds, are_streams=are_streams), older
            # all runs are weighed again, so that the rates of kinds are the same for all
            sums, first_runs, first = _Sums(), FirstRuns(len(CHANGES)), 0
        for one in range(first, place + 1):
            move = moves.get(kinds[one] if kinds else None, None if are_streams else 0)
            if move is None:
                continue
            chances = _list_chances(move, follows[one], failed[one])
            if one < begin:
                sums.learn(chances.usual)
            else:
                first_runs.add(one, _weigh_changes(sums.add(chances), failed[one]))
        if place >= begin and sums.odds >= limits[place]:
            return SeriesChange(place, first_runs.since)
    return None


def _find_moves(
    failed: Sequence[bool], kinds: Sequence[Hashable], *, are_streams: bool
) -> dict[Hashable, int]:
    """Return the place of each kind's rate on the grid, relative to that of all runs."""
    counts: dict[Hashable, list[int]] = {}
    for kind, has_failed in zip(kinds, failed, strict=False):
        own = counts.setdefault(kind, [0, 0])
        own[0] += 1
        own[1] += has_failed
    usual = max((sum(failed) + 0.2) / (len(failed) + 4), LEAST_RATE)
    moves = {}
    for kind, (runs, failures) in counts.items():
        if not are_streams or runs >= FEWEST_OF_STREAM:
            rate = (failures + KIND_WORTH * usual) / (runs + KIND_WORTH)
            odds = rate / (1 - rate) * (1 - usual) / usual
            moves[kind] = round(_MOVES_A_STEP * math.log(odds, _STEP))
    return moves


def _weigh_changes(chance: float, has_failed: bool) -> list[float]:
    """Return how much likelier an outcome of this chance is after each change."""
    odds = chance / (1 - chance) if has_failed else (1 - chance) / chance
    rate = odds / (1 + odds)
    worse = [times * odds / (1 + times * odds) for times, _ in CHANGES]
    return [one / rate if has_failed else (1 - one) / (1 - rate) for one in worse]


@lru_cache(maxsize=512)
def _list_chances(move: int, follows_failure: bool, has_failed: bool) -> _Chances:
    moved = _STEP ** (move / _MOVES_A_STEP)

    def list_chances(times: float) -> list[float]:
        found = []
        for after_good, after_failed, _ in _GRID:
            odds = min((after_failed if follows_failure else after_good) * times, _MOST_ODDS)
            found.append((odds if has_failed else 1.0) / (1 + odds))
        return found

    return _Chances(list_chances(moved), [list_chances(moved * times) for times, _ in CHANGES])


def _follow(failed: Sequence[bool], streams: Sequence[Hashable]) -> list[bool]:
    """Return for each run whether the one before it, in its own stream, failed."""
    last: dict[Hashable, bool] = {}
    found = []
    for stream, has_failed in zip(streams, failed, strict=True):
        found.append(last.get(stream, False))
        last[stream] = has_failed
    return found
