"""Decay, intervals of a rate, and the area under the curve."""

import math
import random

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped]

from relight.errors import RelightError
from relight.stats.rates import (
    ClusterSums,
    Interval,
    auc,
    cluster_interval,
    decay,
    half_life_from_alpha,
    normal_quantile,
    wilson,
)

shares = st.floats(1e-9, 1 - 1e-9)
confidences = st.floats(0.5, 0.999)


def test_alpha_03_is_a_half_life_of_194_days() -> None:
    assert half_life_from_alpha(0.3) == pytest.approx(1.9434, abs=1e-4)
    assert decay(1, half_life_from_alpha(0.3)) == pytest.approx(0.7)


@given(st.floats(0, 1000), st.floats(0.1, 1000))
def test_one_half_life_later_the_weight_is_half(age: float, half_life: float) -> None:
    assert decay(age + half_life, half_life) == pytest.approx(decay(age, half_life) / 2)


@given(shares)
def test_the_normal_quantile_agrees_with_scipy(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(scipy.stats.norm.ppf(p), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("alpha", [0, 1, -0.3, 1.5, math.nan, math.inf])
def test_a_bad_alpha_is_refused_with_its_value(alpha: float) -> None:
    with pytest.raises(RelightError, match=f"^alpha must be above 0 and below 1, not {alpha}$"):
        half_life_from_alpha(alpha)


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


def add_up(groups: list[tuple[int, int]]) -> ClusterSums:
    return ClusterSums(
        groups=len(groups),
        trials=sum(trials for trials, _ in groups),
        events=sum(events for _, events in groups),
        trials_squared=sum(trials**2 for trials, _ in groups),
        events_squared=sum(events**2 for _, events in groups),
        trials_times_events=sum(trials * events for trials, events in groups),
    )


def test_the_interval_of_a_share_holds_where_groups_differ() -> None:
    """40 sessions, each with a failure rate of its own: the mean rate is 0.2."""
    dice = random.Random(7)
    held = plain = 0
    for _ in range(400):
        groups = []
        for _ in range(40):
            trials, rate = dice.randint(1, 60), dice.betavariate(2, 8)
            groups.append((trials, sum(dice.random() < rate for _ in range(trials))))
        sums = add_up(groups)
        found, naive = cluster_interval(sums), wilson(sums.events, sums.trials)
        assert found is not None
        held += found.low <= 0.2 <= found.high
        plain += naive.low <= 0.2 <= naive.high
    assert held >= 0.9 * 400
    assert plain < 0.75 * 400


def test_a_share_of_few_groups_has_no_interval_and_one_of_equal_groups_a_wide_one() -> None:
    assert cluster_interval(add_up([(10, 1)] * 4)) is None
    assert cluster_interval(add_up([(10, 0)] * 8)) == wilson(0, 8)
    assert cluster_interval(add_up([(10, 10)] * 8)) == wilson(8, 8)
