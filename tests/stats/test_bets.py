"""Bets on the coin that dealt sessions: fair without an effect, and soon won with one."""

import math
from itertools import product

import pytest

from relight.errors import RelightError
from relight.stats.evalues import DealtCounts, count_more_dealt, weigh_bets


def count(chance: float, arms: tuple[int, ...], hits: tuple[int, ...]) -> DealtCounts:
    a = [hit for arm, hit in zip(arms, hits, strict=True) if not arm]
    b = [hit for arm, hit in zip(arms, hits, strict=True) if arm]
    return DealtCounts(chance, sum(a), len(a), sum(b), len(b))


@pytest.mark.parametrize("chance", [0.5, 0.8])
@pytest.mark.parametrize("hits", [(0,) * 8, (1,) * 8, (1, 0, 1, 1, 0, 0, 1, 0)])
def test_the_mean_over_all_ways_to_deal_the_same_sessions_is_exactly_one(
    chance: float, hits: tuple[int, ...]
) -> None:
    mean = math.fsum(
        math.prod(chance if arm else 1 - chance for arm in arms)
        * weigh_bets([count(chance, arms, hits)])
        for arms in product((0, 1), repeat=len(hits))
    )
    assert mean == pytest.approx(1.0)


def test_sessions_that_were_dealt_with_several_chances_multiply() -> None:
    half, fifth = DealtCounts(0.5, 7, 8, 1, 8), DealtCounts(0.8, 4, 5, 4, 20)
    assert weigh_bets([half, fifth]) > weigh_bets([half]) > 20
    assert weigh_bets([]) == pytest.approx(1.0)


def test_a_rise_is_shown_too() -> None:
    assert weigh_bets([DealtCounts(0.5, 2, 30, 22, 30)]) > 20


def test_the_number_that_is_still_needed_is_that_at_which_the_expected_sessions_show_it() -> None:
    seen = DealtCounts(0.5, 8, 10, 6, 10)
    needed = count_more_dealt([seen], fall=0.5, hold_out=0.5)
    assert needed is not None
    rate = 8.5 / 11
    for more, shows in ((needed, True), (needed - 1, False)):
        half = more / 2
        later = DealtCounts(0.5, half * rate, half, half * (rate - 0.5), half)
        assert (weigh_bets([seen, later]) >= 20) == shows
    assert count_more_dealt([seen], fall=0.5, hold_out=0.0) is None
    assert count_more_dealt([], fall=0.5, hold_out=0.5) is None


def test_a_chance_must_be_one() -> None:
    with pytest.raises(RelightError, match="chance"):
        weigh_bets([DealtCounts(1.0, 1, 2, 1, 2)])
