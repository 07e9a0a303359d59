"""Evidence that may be looked at always: it is wrong as rarely as it says, and still finds effects.

The simulations are small, with fixed seeds; `./dev bench decisions` has the large ones.
"""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.stats.evalues import (
    ERROR,
    ArmSums,
    Deal,
    Evidence,
    Outlook,
    count_more_sessions,
    sum_values,
    weigh_means,
    weigh_posteriors,
    weigh_rates,
)

sums = st.tuples(st.integers(10, 300), st.floats(0, 1))


def count_successes(sessions: int, share: float) -> ArmSums:
    successes = round(share * sessions)
    return ArmSums(sessions, successes, successes)


@given(sums, sums, st.floats(0.001, 0.5), st.floats(0.001, 1))
def test_an_interval_excludes_zero_exactly_where_the_e_value_says_so(
    a: tuple[int, float], b: tuple[int, float], error: float, tau: float
) -> None:
    found = weigh_rates([(count_successes(*a), count_successes(*b))], tau=tau, error=error)
    assert found is not None
    if abs(found.e_value * error - 1) > 1e-9:
        assert (found.low <= 0 <= found.high) == (found.e_value < 1 / error)


def test_nothing_is_said_before_ten_sessions_in_each_arm_or_without_a_spread() -> None:
    assert weigh_rates([(count_successes(9, 0.1), count_successes(900, 1))], tau=0.1) is None
    assert weigh_rates([(count_successes(10, 0.1), count_successes(10, 1))], tau=0.1) is not None
    assert weigh_means([(sum_values([0.1] * 9), sum_values([0.1, 0.2] * 9))], tau=0.03) is None
    assert weigh_means([(sum_values([0.1] * 20), sum_values([0.1] * 20))], tau=0.03) is None
    assert weigh_rates([], tau=0.1) is None


def test_a_success_rate_that_changes_with_the_share_held_out_is_no_effect() -> None:
    """Pooled, the cold arm would have the better days: 190 of 300 against 112 of 300."""
    early = count_successes(50, 0.2), count_successes(200, 0.2)
    late = count_successes(250, 0.72), count_successes(100, 0.72)
    apart = weigh_rates([early, late], tau=0.1)
    pooled = weigh_rates([(ArmSums(300, 190, 190), ArmSums(300, 112, 112))], tau=0.1)
    assert apart is not None
    assert abs(apart.difference) < 1e-9
    assert apart.e_value < 1
    assert pooled is not None
    assert pooled.e_value > 20


def test_an_effect_out_of_range_is_refused() -> None:
    arms = count_successes(10, 0.5), count_successes(10, 0.5)
    with pytest.raises(RelightError, match="tau must be a number above 0"):
        weigh_rates([arms], tau=0.0)
    with pytest.raises(RelightError, match="error must be above 0 and below 1"):
        weigh_rates([arms], tau=0.1, error=1.0)


def test_more_sessions_are_needed_where_fewer_are_held_out_and_none_suffice_without() -> None:
    plain = [Outlook(0.24, 0.0, 0.1, 1.0)]
    half, fifth = (count_more_sessions(plain, hold_out=share) for share in (0.5, 0.2))
    assert half is not None
    assert fifth is not None
    assert 1.5 < fifth / half < 1.7
    assert count_more_sessions(plain, hold_out=0.0) is None
    assert count_more_sessions([Outlook(0.24, 0.0, 0.1, 0.0)], hold_out=0.5) is None
    begun = [Outlook(0.24, half / 8, 0.1, 1.0)]
    assert count_more_sessions(begun, hold_out=0.5) == pytest.approx(half / 2, abs=2)


Weigh = Callable[[list[Deal]], Evidence | None]


def find_first_verdict(
    dice: random.Random, weigh: Weigh, draw: Callable[[bool], float], *, warm: float, sessions: int
) -> int | None:
    """The session after which a difference is reported, looked for after every fifth."""
    arms = [[0, 0.0, 0.0], [0, 0.0, 0.0]]
    for number in range(1, sessions + 1):
        is_warm = dice.random() < warm
        value = draw(is_warm)
        arm = arms[is_warm]
        arm[0], arm[1], arm[2] = arm[0] + 1, arm[1] + value, arm[2] + value * value
        if number % 5 == 0:
            found = weigh([(ArmSums(*arms[0]), ArmSums(*arms[1]))])
            if found is not None and found.e_value >= 1 / ERROR:
                return number
    return None


@pytest.mark.parametrize(("rate", "seed", "most"), [(0.6, 1, 2), (0.9, 2, 6)])
def test_looks_at_equal_success_rates_hardly_ever_find_a_difference(
    rate: float, seed: int, most: int
) -> None:
    """Of 200 series; with a limit of 10 in place of 20 there are 5 and 8 wrong verdicts."""
    dice = random.Random(seed)
    wrong = sum(
        find_first_verdict(
            dice,
            lambda deals: weigh_rates(deals, tau=0.1),
            lambda _: float(dice.random() < rate),
            warm=0.8,
            sessions=500,
        )
        is not None
        for _ in range(200)
    )
    assert 0 < wrong <= most


def test_an_effect_of_the_planned_size_is_seen() -> None:
    dice = random.Random(2)
    found = [
        find_first_verdict(
            dice,
            lambda deals: weigh_rates(deals, tau=0.1),
            lambda is_warm: float(dice.random() < (0.75 if is_warm else 0.6)),
            warm=0.5,
            sessions=600,
        )
        for _ in range(50)
    ]
    assert sum(one is not None for one in found) >= 40


def test_looks_at_equal_early_failures_find_a_difference_in_5_percent() -> None:
    dice = random.Random(3)

    def draw(_: bool) -> float:
        share = dice.betavariate(1.5, 20)
        return sum(dice.random() < share for _ in range(15)) / 15

    wrong = sum(
        find_first_verdict(
            dice, lambda deals: weigh_means(deals, tau=0.03), draw, warm=0.8, sessions=300
        )
        is not None
        for _ in range(100)
    )
    assert wrong <= 5


def find_first_alarm(rng: random.Random, cold: float, warm: float, looks: int) -> int | None:
    """The session after which `warm` is said to be worse, a fifth being held out."""
    arms = [0.0, 0.0], [0.0, 0.0]
    for look in range(1, looks + 1):
        is_warm = rng.random() >= 0.2
        arms[is_warm][rng.random() >= (warm if is_warm else cold)] += 1
        counts = [(own[0], own[1]) for own in arms]
        if weigh_posteriors(counts[0], counts[1], tau=0.3, error=0.1).high < 0:
            return look
    return None


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.85])
def test_a_look_after_every_session_finds_harm_where_there_is_none_in_5_percent(
    rate: float,
) -> None:
    rng = random.Random(3)
    found = [find_first_alarm(rng, rate, rate, 150) for _ in range(300)]
    assert sum(one is not None for one in found) <= 15 + 11


def test_harm_is_found_though_it_is_looked_for_after_every_session() -> None:
    rng = random.Random(4)
    found = [find_first_alarm(rng, 0.6, 0.3, 300) for _ in range(100)]
    assert sum(one is not None for one in found) >= 85
    assert sum(one is not None and one <= 150 for one in found) >= 60
