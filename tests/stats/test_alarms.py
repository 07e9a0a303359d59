"""Detectors of changes: how soon they find one, and how often they find one by chance."""

import math
import random
from statistics import median

import pytest

from relight.stats.alarms import (
    SeriesChange,
    find_cost_limit,
    find_end_of_costs,
    find_end_of_failures,
    find_failure_limit,
    find_higher_costs,
    find_more_failures,
)

YEAR = 365
CHANGE = 200


def draw_failures(seed: str, rate: float, runs: int, *, later: float = 0.0) -> list[bool]:
    """Runs that fail at a rate, and at another one from the change on."""
    dice = random.Random(seed)
    rates = [rate if place < CHANGE or not later else later for place in range(runs)]
    return [dice.random() < one for one in rates]


def draw_costs(seed: str, runs: int, *, times: float = 1.0) -> list[float]:
    dice = random.Random(seed)
    factors = [times if place >= CHANGE else 1.0 for place in range(runs)]
    return [0.1 * dice.lognormvariate(0, 0.5) * one for one in factors]


def find_delay(found: SeriesChange | None) -> float:
    """The runs after the change until it was shown; an alarm before it shows nothing."""
    if found is None or found.shown_by < CHANGE:
        return math.inf
    return found.shown_by - CHANGE + 1


# the medians are 35, 41, 54 and 10 runs; 80 series have a standard error of a tenth of that
@pytest.mark.parametrize(
    ("a_day", "later", "within"), [(1, 0.25, 40), (4, 0.25, 47), (24, 0.25, 61), (4, 0.6, 12)]
)
def test_a_fall_of_success_is_found_soon_in_a_store_of_a_hundred_series(
    a_day: int, later: float, within: int
) -> None:
    limits = [find_failure_limit(YEAR * a_day, 100)] * 400
    delays, misses = [], []
    for number in range(80):
        failed = draw_failures(f"{a_day} {number}", 0.05, 400, later=later)
        found = find_more_failures(failed, limits)
        delays.append(find_delay(found))
        misses += [found.since - CHANGE] if found and found.shown_by >= CHANGE else []
    assert median(delays) <= within
    assert -4 <= median(misses) <= 6  # the named first run


def test_a_hundred_series_of_a_run_a_day_have_at_most_twelve_false_alarms_a_year() -> None:
    limits = [find_failure_limit(YEAR, 100)] * YEAR
    rates = (0.02, 0.05, 0.1, 0.2)
    found = [
        find_more_failures(draw_failures(f"null {number}", rates[number % 4], YEAR), limits)
        for number in range(100)
    ]
    assert sum(one is not None for one in found) <= 12


@pytest.mark.parametrize("a_day", [1, 24])
def test_twice_the_cost_is_found_soon_and_rarely_by_chance(a_day: int) -> None:
    days = [place / a_day * (15 if a_day > 1 else 1) for place in range(250)]
    limits = [find_cost_limit(YEAR * a_day, 1)] * 250
    delays, false = [], 0
    for number in range(30):
        costs = draw_costs(f"{a_day} {number}", 250, times=2.0)
        delays.append(find_delay(find_higher_costs(costs, days, limits)))
        same = draw_costs(f"null {a_day} {number}", 250)
        false += find_higher_costs(same, days, limits) is not None
    assert median(delays) <= 15
    assert false <= 2


def test_no_change_is_found_before_there_is_a_baseline() -> None:
    limits = [0.0] * 200
    assert find_more_failures([True] * 30, limits) is None
    found = find_more_failures([False] * 40 + [True] * 5, limits)
    assert found is not None
    assert found.shown_by >= 30
    costs, days = [1.0] * 59 + [9.0] * 9, [place / 9 for place in range(68)]
    assert find_higher_costs(costs, days, limits) is None  # 14 days are needed too


def test_worse_weekends_are_no_change_and_hide_none_of_the_week() -> None:
    limits = [find_failure_limit(YEAR * 4, 1)] * 600
    weekends = [place // 4 % 7 >= 5 for place in range(600)]
    alone, apart, false = [], [], 0
    for number in range(25):
        dice = random.Random(f"weekends {number}")
        chances = [
            0.25 if is_free else 0.02 if place < 400 else 0.2
            for place, is_free in enumerate(weekends)
        ]
        failed = [dice.random() < chance for chance in chances]
        without = find_more_failures(failed, limits)
        found = find_more_failures(failed, limits, kinds=weekends)
        false += found is not None and found.shown_by < 400
        alone.append(math.inf if without is None else without.shown_by)
        apart.append(math.inf if found is None else found.shown_by)
    assert false <= 4
    assert 400 < median(apart) < median(alone)


def test_a_new_and_harder_job_is_no_change_of_its_model() -> None:
    jobs = ["easy"] * 200 + ["easy", "hard"] * 100
    dice = random.Random(1)
    failed = [dice.random() < {"easy": 0.02, "hard": 0.4}[job] for job in jobs]
    limits = [find_failure_limit(YEAR, 1)] * len(jobs)
    assert find_more_failures(failed, limits) is not None
    assert find_more_failures(failed, limits, kinds=jobs, are_streams=True) is None
    costs = [{"easy": 0.1, "hard": 0.9}[job] * dice.lognormvariate(0, 0.3) for job in jobs]
    days = [float(place) for place in range(len(jobs))]
    limits = [find_cost_limit(YEAR, 1)] * len(jobs)
    assert find_higher_costs(costs, days, limits) is not None
    assert find_higher_costs(costs, days, limits, kinds=jobs, are_streams=True) is None


def test_a_change_ends_when_runs_are_as_before() -> None:
    assert find_end_of_failures([False, True] * 20, before=0.03, after=0.5) is None
    end = find_end_of_failures([True, False, True] + [False] * 50, before=0.03, after=0.5)
    assert end is not None
    assert 25 <= end <= 45
    # three good runs are not the end of a job that fails two of three
    assert find_end_of_failures([False] * 3 + [True] * 6, before=0.03, after=1.0) is None
    low, high = math.log(0.1), math.log(0.3)
    assert find_end_of_costs([high] * 30, before=low, after=high, spread=0.5) is None
    assert find_end_of_costs([high] * 3 + [low] * 9, before=low, after=high, spread=0.5) is not None
