"""Kaplan–Meier and the restricted mean."""

import math
from statistics import fmean

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.duration.survfunc import SurvfuncRight  # type: ignore[import-untyped]

from relight.errors import RelightError
from relight.stats.rates import Estimate
from relight.stats.survival import kaplan_meier, restricted_mean, restricted_mean_difference

moments = st.integers(0, 20).map(float)
watched = st.lists(st.tuples(moments, st.booleans()), min_size=1, max_size=30)


@given(watched)
def test_the_steps_agree_with_statsmodels(times: list[tuple[float, bool]]) -> None:
    assume(any(happened for _, happened in times))
    expected = SurvfuncRight([time for time, _ in times], [happened for _, happened in times])
    steps = kaplan_meier(times)
    assert [step.time for step in steps] == list(expected.surv_times)
    assert [step.at_risk for step in steps] == list(expected.n_risk)
    assert [step.events for step in steps] == list(expected.n_events)
    assert [step.survival for step in steps] == pytest.approx(list(expected.surv_prob), abs=1e-12)


@given(st.lists(moments, min_size=2, max_size=30), st.integers(1, 25).map(float))
def test_without_censoring_it_is_the_mean_of_the_cut_times(
    times: list[float], horizon: float
) -> None:
    cut = [min(time, horizon) for time in times]
    estimate = restricted_mean([(time, True) for time in times], horizon)
    assert estimate is not None
    assert estimate.value == pytest.approx(fmean(cut), abs=1e-9)
    if min(cut) == max(cut):
        assert estimate.low is None
        return
    low, high = scipy.stats.t.interval(0.95, len(cut) - 1, fmean(cut), scipy.stats.sem(cut))
    assert estimate.low == pytest.approx(max(0, low), abs=1e-9)
    assert estimate.high == pytest.approx(min(horizon, high), abs=1e-9)


def test_a_session_cut_short_counts_as_waiting_until_then() -> None:
    """By hand: 1 until 1, then 2/3 until 3 (the one cut at 2 has left), then 0."""
    estimate = restricted_mean([(1, True), (2, False), (3, True)], 10)
    assert estimate is not None
    assert estimate.value == pytest.approx(1 + 2 * 2 / 3)


def test_an_arm_in_which_nothing_works_is_the_slowest_not_the_fastest() -> None:
    stuck = restricted_mean([(60.0, False), (50.0, False), (60.0, False)], 40)
    assert stuck == Estimate(40.0, None, None)


def test_a_curve_nobody_watched_to_the_horizon_has_no_mean() -> None:
    assert restricted_mean([], 5) is None
    assert restricted_mean([(1, True), (2, False)], 5) is None
    assert restricted_mean([(1, True), (2, False)], 2) is not None
    assert kaplan_meier([]) == []
    assert kaplan_meier([(3, False)]) == []
    assert restricted_mean_difference([(1, True)], [], 5) is None


def test_one_session_has_a_mean_without_bounds() -> None:
    assert restricted_mean([(3, True)], 5) == Estimate(3, None, None)


def test_the_difference_of_two_arms_is_that_of_welch_when_nothing_is_censored() -> None:
    slow, fast = [4.0, 6.0, 9.0, 7.0, 5.0], [2.0, 1.0, 4.0, 3.0, 3.0]
    expected = scipy.stats.ttest_ind(fast, slow, equal_var=False)
    interval = expected.confidence_interval(0.95)
    found = restricted_mean_difference([(t, True) for t in slow], [(t, True) for t in fast], 20)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.value == pytest.approx(fmean(fast) - fmean(slow))
    # The same standard error, with the more careful degrees of freedom.
    ratio = scipy.stats.t.ppf(0.975, 4) / scipy.stats.t.ppf(0.975, expected.df)
    assert found.high - found.low == pytest.approx((interval.high - interval.low) * ratio)


@pytest.mark.parametrize("time", [-1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(time: float) -> None:
    with pytest.raises(RelightError, match=f"^a time must be a number from 0 up, not {time}$"):
        kaplan_meier([(time, True)])
