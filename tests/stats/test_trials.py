"""Tests of two arms agree with scipy and statsmodels, and alarm no more often than they say."""

import random
from collections.abc import Callable
from statistics import fmean

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.proportion import (  # type: ignore[import-untyped]
    confint_proportions_2indep,
    samplesize_proportions_2indep_onetail,
)

from relight.errors import RelightError
from relight.stats.trials import (
    LiveView,
    always_valid_interval,
    always_valid_pairs,
    always_valid_rates,
    newcombe,
    sample_size,
)

counts = st.tuples(st.integers(0, 3000), st.integers(0, 3000))
figures = st.lists(st.integers(0, 100).map(lambda percent: percent / 100), min_size=2, max_size=40)
confidences = st.floats(0.5, 0.999)


@given(counts, counts, confidences)
def test_newcombe_agrees_with_statsmodels(
    a: tuple[int, int], b: tuple[int, int], confidence: float
) -> None:
    assume(sum(a) and sum(b))
    low, high = confint_proportions_2indep(
        b[0], sum(b), a[0], sum(a), method="newcomb", compare="diff", alpha=1 - confidence
    )
    estimate = newcombe(a, b, confidence=confidence)
    assert estimate.low == pytest.approx(low, abs=1e-9)
    assert estimate.high == pytest.approx(high, abs=1e-9)


def test_an_empty_arm_leaves_the_difference_open() -> None:
    both = newcombe((0, 0), (0, 0))
    assert (both.value, both.low, both.high) == (None, -1, 1)
    one = newcombe((10, 0), (0, 0))
    assert one.value is None
    assert one.low == -1
    assert one.high == pytest.approx(0.278, abs=1e-3)


def test_all_successes_on_both_sides_are_no_proof_of_equality() -> None:
    estimate = newcombe((5, 0), (5, 0))
    assert estimate.value == 0
    assert estimate.low == pytest.approx(-0.434, abs=1e-3)
    assert estimate.high == pytest.approx(0.434, abs=1e-3)


@given(
    st.lists(st.floats(0, 1), min_size=10, max_size=40),
    st.lists(st.floats(0, 1), min_size=10, max_size=40),
    confidences,
    st.floats(0.001, 1),
)
def test_the_live_interval_excludes_zero_exactly_when_its_p_value_says_so(
    a: list[float], b: list[float], confidence: float, tau: float
) -> None:
    pairs = [later - earlier for earlier, later in zip(a, b, strict=False)]
    for view in (
        always_valid_interval(a, b, tau=tau, confidence=confidence),
        always_valid_pairs(pairs, tau=tau, confidence=confidence),
    ):
        if view is not None and abs(view.p_value - (1 - confidence)) > 1e-9:
            assert (view.low <= 0 <= view.high) == (view.p_value > 1 - confidence)


def test_the_live_view_waits_for_ten_sessions_and_some_spread() -> None:
    assert always_valid_interval([0.1, 0.2] * 4, [0.1, 0.2] * 40) is None
    assert always_valid_interval([0.1] * 20, [0.1] * 20) is None
    assert always_valid_pairs([0.1, -0.1] * 4) is None
    assert always_valid_pairs([0.0] * 20) is None


def count_alarms(look: Callable[[random.Random], bool], trials: int) -> float:
    rng = random.Random(11)
    return fmean(look(rng) for _ in range(trials))


def is_alarm(view: LiveView | None) -> bool:
    return view is not None and view.p_value <= 0.05


def draw_error_rate(rng: random.Random) -> float:
    share = rng.betavariate(1.5, 20)
    return sum(rng.random() < share for _ in range(15)) / 15


def test_twenty_looks_at_pairs_alarm_in_less_than_5_percent() -> None:
    def look(rng: random.Random) -> bool:
        pairs = [draw_error_rate(rng) - draw_error_rate(rng) for _ in range(200)]
        return any(is_alarm(always_valid_pairs(pairs[:n])) for n in range(10, 201, 10))

    assert count_alarms(look, 200) <= 0.05


def test_twenty_looks_with_a_fifth_held_out_alarm_in_less_than_5_percent() -> None:
    """Success rates near one: a handful of held-out sessions often succeed all."""

    def look(rng: random.Random) -> bool:
        cold = [float(rng.random() < 0.85) for _ in range(50)]
        warm = [float(rng.random() < 0.85) for _ in range(200)]
        return any(
            is_alarm(always_valid_interval(cold[:n], warm[: 4 * n], tau=0.1))
            for n in range(10, 51, 2)
        )

    assert count_alarms(look, 300) <= 0.05


def find_first_alarm(rng: random.Random, cold: float, warm: float, looks: int) -> int | None:
    """The session after which `warm` is said to be worse, a fifth being held out."""
    arms = [0.0, 0.0], [0.0, 0.0]
    for look in range(1, looks + 1):
        is_warm = rng.random() >= 0.2
        arms[is_warm][rng.random() >= (warm if is_warm else cold)] += 1
        counts = [(own[0], own[1]) for own in arms]
        if always_valid_rates(counts[0], counts[1], confidence=0.9).high < 0:
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


def test_errors_cut_by_half_are_seen_within_200_pairs_more_often_than_not() -> None:
    def look(rng: random.Random) -> bool:
        pairs = [0.5 * draw_error_rate(rng) - draw_error_rate(rng) for _ in range(200)]
        return any(is_alarm(always_valid_pairs(pairs[:n])) for n in range(10, 201, 10))

    assert count_alarms(look, 50) >= 0.6


@pytest.mark.parametrize(
    ("p1", "p2", "power", "sessions"),
    [
        (0.09, 0.057, 0.8, 981),
        (0.09, 0.057, 0.9, 1313),
        (0.6, 0.7, 0.8, 356),
        (0.3, 0.2, 0.8, 294),
    ],
)
def test_the_sample_sizes_of_the_evidence_page(
    p1: float, p2: float, power: float, sessions: int
) -> None:
    assert sample_size(p1, p2, power=power) == sessions


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.5, 0.99))
def test_the_sample_size_agrees_with_statsmodels(p1: float, p2: float, power: float) -> None:
    assume(abs(p1 - p2) > 0.01)
    expected = samplesize_proportions_2indep_onetail(
        p1 - p2, p2, power, ratio=1, alpha=0.05, alternative="two-sided"
    )
    assert sample_size(p1, p2, power=power) == pytest.approx(expected, abs=1)


def test_calls_that_fail_together_need_more_sessions() -> None:
    alike = sample_size(0.09, 0.057, icc=0.366, calls_per_session=18)
    apart = sample_size(0.09, 0.057, calls_per_session=18)
    assert apart == 55
    assert alike == 394


def test_equal_rates_have_no_sample_size_and_bad_ones_are_refused() -> None:
    assert sample_size(0.5, 0.5) is None
    with pytest.raises(RelightError, match=r"^p1 must be above 0 and below 1, not 60$"):
        sample_size(60, 0.7)
    with pytest.raises(RelightError, match=r"^icc must be between 0 and 1, not 3$"):
        sample_size(0.6, 0.7, icc=3)
