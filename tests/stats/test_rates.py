"""Decayed means and rates, intervals of a rate, and the area under the curve."""

import math

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped]

from relight.errors import RelightError
from relight.stats.rates import (
    Interval,
    alpha_from_half_life,
    auc,
    beta_interval,
    decayed_mean,
    decayed_rate,
    half_life_from_alpha,
    wilson,
)

times = st.floats(0, 100)
half_lives = st.floats(0.1, 1000)
confidences = st.floats(0.5, 0.999)


def test_alpha_03_is_a_half_life_of_194_days_and_five_days_are_alpha_0129() -> None:
    assert half_life_from_alpha(0.3) == pytest.approx(1.9434, abs=1e-4)
    assert alpha_from_half_life(5) == pytest.approx(0.1294, abs=1e-4)


@given(st.floats(0.1, 1e6))
def test_alpha_and_half_life_convert_there_and_back(days: float) -> None:
    assert half_life_from_alpha(alpha_from_half_life(days)) == pytest.approx(days, rel=1e-9)


@pytest.mark.parametrize("alpha", [0, 1, -0.3, 1.5, math.nan, math.inf])
def test_a_bad_alpha_is_refused_with_its_value(alpha: float) -> None:
    with pytest.raises(RelightError, match=f"^alpha must be above 0 and below 1, not {alpha}$"):
        half_life_from_alpha(alpha)


@pytest.mark.parametrize("days", [0, -5, math.nan, math.inf])
def test_a_bad_half_life_is_refused_with_its_value(days: float) -> None:
    with pytest.raises(RelightError, match=f"^half_life_days must be a number above 0, not {days}"):
        alpha_from_half_life(days)
    with pytest.raises(RelightError, match=f"^half_life must be a number above 0, not {days}"):
        decayed_mean([(0, 1.0)], now=0, half_life=days)


def test_two_runs_13_days_apart_at_alpha_03_weigh_990_and_010() -> None:
    half_life = half_life_from_alpha(0.3)
    old = decayed_mean([(0, 1.0), (13, 0.0)], now=13, half_life=half_life)
    new = decayed_mean([(0, 0.0), (13, 1.0)], now=13, half_life=half_life)
    assert old is not None
    assert new is not None
    assert old.value == pytest.approx(0.010, abs=5e-4)
    assert new.value == pytest.approx(0.990, abs=5e-4)


def test_a_hundred_calls_at_50_percent_and_one_at_100_a_day_later_are_507() -> None:
    calls = [(0.0, number < 50) for number in range(100)] + [(1.0, True)]
    rate = decayed_rate(calls, now=1, half_life=half_life_from_alpha(0.3))
    assert rate is not None
    assert rate.value == pytest.approx(0.507, abs=5e-4)


def test_four_ok_one_failed_and_five_unknown_are_80_percent_with_5_unknown() -> None:
    outcomes = [True] * 4 + [False] + [None] * 5
    rate = decayed_rate([(0, outcome) for outcome in outcomes], now=0, half_life=5)
    assert rate is not None
    assert (rate.value, rate.known, rate.unknown) == (0.8, 5, 5)
    assert (rate.coverage, rate.low, rate.high) == (0.5, 0.4, 0.9)


def test_a_run_without_a_cost_does_not_halve_the_mean_cost() -> None:
    mean = decayed_mean([(0, 0.30), (0, None)], now=0, half_life=5)
    assert mean is not None
    assert (mean.value, mean.count, mean.unknown) == (0.30, 1, 1)


def test_nothing_known_has_no_mean_and_no_rate() -> None:
    assert decayed_mean([], now=0, half_life=5) is None
    assert decayed_mean([(0, None)], now=0, half_life=5) is None
    assert decayed_rate([], now=0, half_life=5) is None
    assert decayed_rate([(0, None)], now=0, half_life=5) is None


@given(st.lists(st.tuples(times, st.none() | st.floats(-1e3, 1e3)), min_size=1), half_lives)
def test_the_decayed_mean_is_the_recurrence_of_the_evidence_page(
    values: list[tuple[float, float | None]], half_life: float
) -> None:
    total = weight = squares = 0.0
    last = 0.0
    for time, value in sorted(values, key=lambda pair: pair[0]):
        decay = 2 ** (-(time - last) / half_life)
        last = time
        total, weight, squares = total * decay, weight * decay, squares * decay**2
        if value is not None:
            total, weight, squares = total + value, weight + 1, squares + 1
    assume(weight > 1e-6)
    mean = decayed_mean(values, now=last, half_life=half_life)
    assert mean is not None
    assert mean.value == pytest.approx(total / weight, rel=1e-9, abs=1e-9)
    assert mean.weight == pytest.approx(weight, rel=1e-9)
    assert mean.n_eff == pytest.approx(weight**2 / squares, rel=1e-9)
    assert mean.count + mean.unknown == len(values)


@given(st.lists(st.tuples(times, st.sampled_from([True, False, None])), min_size=1), half_lives)
def test_a_rate_lies_within_what_the_unknown_outcomes_leave_open(
    outcomes: list[tuple[float, bool | None]], half_life: float
) -> None:
    rate = decayed_rate(outcomes, now=100, half_life=half_life)
    assume(rate is not None)
    assert rate is not None
    assert 0 <= rate.low <= rate.value + 1e-12
    assert rate.value <= rate.high + 1e-12 <= 1 + 1e-12
    assert rate.high - rate.low == pytest.approx(1 - rate.coverage, abs=1e-12)
    assert rate.n_eff <= rate.known * (1 + 1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1), half_lives, st.floats(0, 1e9))
def test_values_of_one_age_have_their_plain_mean_however_old(
    values: list[float], half_life: float, age: float
) -> None:
    mean = decayed_mean([(-age, value) for value in values], now=0, half_life=half_life)
    assert mean is not None
    assert mean.value == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert mean.n_eff == pytest.approx(len(values))


def test_a_value_from_a_clock_ahead_of_ours_counts_as_fresh() -> None:
    ahead = decayed_mean([(0, 0.0), (10, 1.0)], now=0, half_life=1)
    assert ahead is not None
    assert (ahead.value, ahead.weight) == (0.5, 2)


@given(st.integers(0, 10_000), st.integers(0, 10_000), confidences)
def test_wilson_agrees_with_statsmodels(successes: int, failures: int, confidence: float) -> None:
    assume(successes + failures > 0)
    trials = successes + failures
    low, high = proportion_confint(successes, trials, alpha=1 - confidence, method="wilson")
    interval = wilson(successes, trials, confidence=confidence)
    assert interval.low == pytest.approx(low, abs=1e-9)
    assert interval.high == pytest.approx(high, abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1e6), confidences)
def test_wilson_takes_effective_counts(rate: float, n_eff: float, confidence: float) -> None:
    interval = wilson(rate * n_eff, n_eff, confidence=confidence)
    assert 0 <= interval.low <= rate + 1e-9
    assert rate - 1e-9 <= interval.high <= 1


def test_no_trials_leave_the_rate_open_and_all_successes_leave_room_below() -> None:
    assert wilson(0, 0) == Interval(0, 1)
    assert wilson(3, 3).high == 1
    assert wilson(3, 3).low == pytest.approx(0.4385, abs=1e-4)
    assert wilson(0, 3).low == 0


@pytest.mark.parametrize(("successes", "trials"), [(3, 2), (-1, 2), (math.nan, 2), (1, math.inf)])
def test_impossible_counts_are_refused(successes: float, trials: float) -> None:
    with pytest.raises(RelightError, match=f"not {successes} of {trials}"):
        wilson(successes, trials)


@given(st.floats(0.5, 1e5), st.floats(0.5, 1e5), confidences)
def test_the_beta_interval_agrees_with_scipy(a: float, b: float, confidence: float) -> None:
    low, high = scipy.stats.beta.interval(confidence, a, b)
    interval = beta_interval(a, b, confidence=confidence)
    assert interval.low == pytest.approx(low, abs=1e-9)
    assert interval.high == pytest.approx(high, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1))
def test_auc_agrees_with_the_mann_whitney_statistic(pairs: list[tuple[int, bool]]) -> None:
    yes = [score for score, label in pairs if label]
    no = [score for score, label in pairs if not label]
    found = auc([score for score, _ in pairs], [label for _, label in pairs])
    if not yes or not no:
        assert found is None
        return
    statistic = scipy.stats.mannwhitneyu(
        yes, no, method="asymptotic", use_continuity=True
    ).statistic
    assert found == pytest.approx(statistic / (len(yes) * len(no)), abs=1e-12)


def test_auc_of_nothing_is_unknown() -> None:
    assert auc([], []) is None
