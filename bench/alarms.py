"""Alarms on invented series: how soon a change is found, and how often one is found by chance.

The constants of `relight.stats.alarms` were chosen on other series than these, but for the
step of the grid, which decision 37 checks with other seeds. A false
alarm is one in the first year of a series, whose rate nobody knows yet. Falls are drawn four times
as often as other cells, because a median is between whole runs.
"""

import math
import random
from collections.abc import Callable, Iterator
from statistics import median

from bench.decisions import Row, at_least, at_most, deal
from relight.stats.alarms import (
    FALSE_ALARMS,
    SeriesChange,
    find_cost_limit,
    find_failure_limit,
    find_higher_costs,
    find_more_failures,
)

YEAR = 365
MANY = 100
# a series has so many runs before it changes, and so many to be found in
BEFORE, AFTER = 200, 400
SPREAD, LIKENESS = 0.5, 0.3

Draw = Callable[[random.Random, int], float]


def watch_success(series: int) -> Iterator[Row]:
    """Falls of success in a store of a hundred series, and false alarms in a year."""
    for a_day, half in ((1, 35), (4, 41), (24, 54)):
        yield _find_fall(series, a_day, 0.25, half, MANY)
    for a_day, half in ((1, 9), (4, 10), (24, 13)):
        yield _find_fall(series, a_day, 0.6, half, MANY)
    for a_day, half in ((1, 23), (24, 40)):
        yield _find_fall(series, a_day, 0.25, half, 1)
    for a_day, number in ((1, series), (4, series), (24, series // 2)):
        for rate in (0.02, 0.05, 0.2):
            for likeness in (0.0, LIKENESS):
                found = 0
                for dice in deal(f"null {a_day} {rate} {likeness}", number):
                    failed = draw_failures(dice, rate, YEAR * a_day, likeness=likeness)
                    limits = [find_failure_limit(YEAR * a_day, MANY)] * len(failed)
                    found += find_more_failures(failed, limits) is not None
                what = f"{a_day} a day, {1 - rate:.0%} success, likeness {likeness:g}"
                named = f"{what}: false alarm in a year"
                yield at_most(named, found, number, FALSE_ALARMS / MANY)


def watch_costs(series: int) -> Iterator[Row]:
    """Rises of cost in a store of few series, and false alarms in a year."""
    number = series // 5
    for a_day, times, half in ((1, 2.0, 9), (4, 2.0, 11), (24, 2.0, 13), (1, 4.0, 4), (1, 1.5, 24)):
        delays = []
        before = BEFORE if a_day < 24 else 3 * BEFORE
        for dice in deal(f"cost {a_day} {times}", number):
            costs = [
                dice.lognormvariate(0, SPREAD) * (times if place >= before else 1.0)
                for place in range(before + AFTER // 2)
            ]
            delays.append(_find_delay(_watch_costs(costs, a_day), before))
        yield _half_by(f"{a_day} a day, {times:g} times the cost", delays, half)
    for a_day, draws in ((1, number), (4, number // 2)):
        found = 0
        for dice in deal(f"null cost {a_day}", draws):
            costs = [dice.lognormvariate(0, SPREAD) for _ in range(YEAR * a_day)]
            found += _watch_costs(costs, a_day) is not None
        yield at_most(f"{a_day} a day, cost: false alarm in a year", found, draws, 0.05)


def draw_failures(
    dice: random.Random, rate: float, runs: int, *, later: float | None = None, likeness: float = 0
) -> list[bool]:
    """Runs that fail at a rate, and at another from a place on; a failure may cause the next."""
    failed: list[bool] = []
    for place in range(runs):
        usual = rate if later is None or place < BEFORE else later
        after_failure = bool(failed and failed[-1])
        failed.append(dice.random() < likeness * after_failure + (1 - likeness) * usual)
    return failed


def _find_fall(series: int, a_day: int, later: float, half: int, stores: int) -> Row:
    delays = []
    limits = [find_failure_limit(YEAR * a_day, stores)] * (BEFORE + AFTER)
    for dice in deal(f"fall {a_day} {later} {stores}", 4 * series):
        failed = draw_failures(dice, 0.05, BEFORE + AFTER, later=later)
        delays.append(_find_delay(find_more_failures(failed, limits), BEFORE))
    among = f"{stores} series" if stores > 1 else "few series"
    return _half_by(f"{a_day} a day, {among}, 95 to {1 - later:.0%} success", delays, half)


def _watch_costs(costs: list[float], a_day: int) -> SeriesChange | None:
    days = [place / a_day for place in range(len(costs))]
    return find_higher_costs(costs, days, [find_cost_limit(YEAR * a_day, 1)] * len(costs))


def _find_delay(found: SeriesChange | None, change: int) -> float:
    """Return the runs after a change until it was shown; an earlier alarm is left out as -1."""
    if found is None:
        return math.inf
    return found.shown_by - change + 1 if found.shown_by >= change else -1


def _half_by(what: str, delays: list[float], half: int) -> Row:
    true = [delay for delay in delays if delay > 0]
    found = sum(delay <= half for delay in true)
    return at_least(f"{what} (half by {median(true):.0f}): found in {half}", found, len(true), 0.5)
