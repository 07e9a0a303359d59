"""Projections of sums: the same for the same seed, and calibrated on invented periods."""

import random

import pytest

from relight.stats.projection import DrawGroup, project_sum

PAST_DAYS = 28


def invent_day(dice: random.Random, weekday: int, spread: float) -> list[float]:
    """What an invented person spends in each hour: little at weekends, much on a few days."""
    hours = [0.0] * 24
    if dice.random() < (0.6 if weekday >= 5 else 0.03):
        return hours
    for _ in range(dice.randint(1, 6)):
        hour = min(23, max(0, int(dice.gauss(14, 4))))
        hours[hour] += dice.lognormvariate(0, spread) * dice.random()
    return hours


def covers(dice: random.Random, *, days_left: int, hour: int, spread: float) -> bool:
    """True if the range of a projection holds the end of one invented period."""
    past = [(day % 7, invent_day(dice, day % 7, spread)) for day in range(PAST_DAYS)]
    weekdays = [sum(hours) for weekday, hours in past if weekday < 5]
    weekend = [sum(hours) for weekday, hours in past if weekday >= 5]
    rest = [sum(hours[hour:]) for weekday, hours in past if weekday < 5]
    today = invent_day(dice, 0, spread)
    ahead = [number % 7 for number in range(1, days_left + 1)]
    free = sum(weekday >= 5 for weekday in ahead)
    groups = [DrawGroup(rest), DrawGroup(weekdays, days_left - free), DrawGroup(weekend, free)]
    found = project_sum(sum(today[:hour]), groups, seed=dice.randrange(1 << 30))
    end = sum(today) + sum(sum(invent_day(dice, weekday, spread)) for weekday in ahead)
    return found.low <= end <= found.high


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.4])
@pytest.mark.parametrize(("days_left", "hour"), [(0, 9), (4, 12), (18, 10)])
def test_the_range_holds_the_end_of_about_8_periods_of_10(
    days_left: int, hour: int, spread: float
) -> None:
    dice = random.Random(7)
    tries = 200
    held = sum(covers(dice, days_left=days_left, hour=hour, spread=spread) for _ in range(tries))
    # rather a little too wide than too narrow; two standard errors of 200 tries are 5.7 points
    assert 0.74 <= held / tries <= 0.93


def test_the_same_seed_gives_the_same_range() -> None:
    groups = [DrawGroup([0.0, 1.0, 5.0, 2.5], 6)]
    assert project_sum(1.0, groups, seed=3) == project_sum(1.0, groups, seed=3)
    assert project_sum(1.0, groups, seed=3) != project_sum(1.0, groups, seed=4)


def test_nothing_left_ends_as_it_is() -> None:
    found = project_sum(4.2, [], seed=1)
    assert (found.value, found.low, found.high) == (4.2, 4.2, 4.2)
