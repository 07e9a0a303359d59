"""Bootstrap and permutation by session."""

import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.stats import permutation
from relight.stats.permutation import Parting, cluster_bootstrap, part_arms, part_pairs
from relight.stats.rates import Estimate, wilson

Sessions = list[tuple[float, float]]

sessions = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 30)).map(lambda s: (float(min(s)), float(s[1]))),
    max_size=12,
)


def draw_sessions(rng: random.Random, count: int, *, rate: float, icc: float) -> Sessions:
    """Sessions of about 20 calls whose errors come together, as in real ones."""
    found: Sessions = []
    for _ in range(count):
        share = rng.betavariate(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1))
        calls = 1 + int(rng.expovariate(1 / 20))
        found.append((float(sum(rng.random() < share for _ in range(calls))), float(calls)))
    return found


@given(sessions, sessions, st.integers())
@settings(max_examples=50, deadline=None)
def test_any_sessions_have_an_interval_around_their_ratio_or_none(
    a: Sessions, b: Sessions, seed: int
) -> None:
    parting = part_arms(a, b, seed=seed, samples=100)
    for estimate in (
        cluster_bootstrap(a, seed=seed, samples=100),
        parting.difference if parting else None,
    ):
        if estimate is not None and estimate.low is not None and estimate.high is not None:
            assert estimate.value is not None
            assert estimate.low <= estimate.high
    if parting is not None:
        low, high = parting.difference.low, parting.difference.high
        assert 0 < parting.p_value <= 1
        assert (parting.p_value < 0.05) == ((low or 0.0) > 0 or (high or 0.0) < 0)


def test_the_same_seed_gives_the_same_interval() -> None:
    data = draw_sessions(random.Random(1), 30, rate=0.1, icc=0.05)
    other = draw_sessions(random.Random(2), 30, rate=0.1, icc=0.05)
    assert cluster_bootstrap(data, seed=7) == cluster_bootstrap(data, seed=7)
    assert cluster_bootstrap(data, seed=7) != cluster_bootstrap(data, seed=8)
    assert part_arms(data, other, seed=7) == part_arms(data, other, seed=7)


def test_what_shows_no_spread_has_no_bounds() -> None:
    one, agreeing, spread = [(1.0, 10.0)], [(0.0, 9.0)] * 5, [(1.0, 9.0), (0.0, 4.0), (2.0, 7.0)]
    assert cluster_bootstrap([], seed=1) is None
    assert cluster_bootstrap([(0.0, 0.0)], seed=1) is None
    assert cluster_bootstrap(one, seed=1) == Estimate(0.1, None, None)
    assert cluster_bootstrap(agreeing, seed=1) == Estimate(0.0, None, None)
    assert part_arms(agreeing, agreeing, seed=1) == Parting(Estimate(0.0, None, None), 1.0)
    assert part_arms(one, agreeing[:1], seed=1) == Parting(Estimate(-0.1, None, None), 1.0)
    assert part_arms(spread, [], seed=1) is None


def test_sessions_without_a_call_change_nothing() -> None:
    data = draw_sessions(random.Random(1), 20, rate=0.1, icc=0.05)
    assert cluster_bootstrap([*data, (0.0, 0.0)], seed=7) == cluster_bootstrap(data, seed=7)


def test_a_cost_per_success_that_might_be_endless_has_no_upper_bound() -> None:
    runs = [(2.0, 0.0)] * 9 + [(2.0, 1.0)]
    estimate = cluster_bootstrap(runs, seed=1)
    assert estimate is not None
    assert (estimate.value, estimate.high) == (20, None)


def test_the_interval_is_wider_than_one_that_takes_calls_for_independent() -> None:
    data = draw_sessions(random.Random(3), 60, rate=0.1, icc=0.3)
    estimate = cluster_bootstrap(data, seed=1)
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    naive = wilson(sum(errors for errors, _ in data), sum(calls for _, calls in data))
    assert estimate.high - estimate.low > 1.5 * (naive.high - naive.low)


def test_independent_trials_get_about_the_wilson_interval() -> None:
    estimate = cluster_bootstrap([(1.0, 1.0)] * 40 + [(0.0, 1.0)] * 60, seed=1)
    expected = wilson(40, 100)
    assert estimate is not None
    assert estimate.low == pytest.approx(expected.low, abs=0.02)
    assert estimate.high == pytest.approx(expected.high, abs=0.02)


def test_a_real_difference_is_found() -> None:
    rng = random.Random(4)
    cold = draw_sessions(rng, 100, rate=0.15, icc=0.05)
    warm = draw_sessions(rng, 100, rate=0.05, icc=0.05)
    parting = part_arms(cold, warm, seed=1)
    assert parting is not None
    assert parting.difference.high is not None
    assert parting.difference.high < 0
    assert parting.p_value == pytest.approx(2 / 2001)


def test_an_arm_without_a_failure_is_told_apart_from_one_with_many() -> None:
    parting = part_arms([(3.0, 9.0), (1.0, 9.0)] * 10, [(0.0, 9.0)] * 20, seed=1)
    assert parting is not None
    assert parting.difference.high is not None
    assert parting.difference.high < 0


def test_with_few_sessions_all_deals_are_tried() -> None:
    """Two of the twenty deals part three sessions from three like this: it and its mirror image."""
    parting = part_arms([(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)], [(7, 1), (8, 1), (9, 1)], seed=1)
    assert parting == Parting(Estimate(6.0, None, None), 0.1)


def test_an_arm_of_one_session_is_told_apart_only_by_being_further_out_than_all() -> None:
    others = [(float(number % 7), 1.0) for number in range(80)]
    for single, is_parted in ((40.0, True), (6.5, True), (5.0, False)):
        parting = part_arms([(single, 1.0)], others, seed=1)
        assert parting is not None
        assert (parting.p_value < 0.05) == is_parted


@pytest.mark.parametrize(("cold", "warm"), [(20, 20), (20, 80), (40, 10)])
def test_the_interval_holds_the_true_difference_as_often_as_it_says(cold: int, warm: int) -> None:
    """Also where the arm of few sessions is the one that spreads more."""
    rng = random.Random(8)
    held = 0
    for seed in range(200):
        parting = part_arms(
            draw_sessions(rng, cold, rate=0.15, icc=0.1),
            draw_sessions(rng, warm, rate=0.10, icc=0.1),
            seed=seed,
            samples=199,
        )
        assert parting is not None
        assert parting.difference.low is not None
        assert parting.difference.high is not None
        held += parting.difference.low <= -0.05 <= parting.difference.high
    assert held / 200 > 0.91


@pytest.mark.parametrize(("small", "large"), [(8, 8), (10, 40)])
def test_arms_of_the_same_sessions_differ_in_5_percent_by_permutation(
    small: int, large: int
) -> None:
    """Skewed errors and arms of 1 to 4, where Welch and the bootstrap alarm twice as often."""
    rng = random.Random(5)
    partings = [
        part_arms(
            draw_sessions(rng, small, rate=0.07, icc=0.3),
            draw_sessions(rng, large, rate=0.07, icc=0.3),
            seed=seed,
            samples=199,
        )
        for seed in range(400)
    ]
    known = [parting.p_value for parting in partings if parting is not None]
    assert len(known) == len(partings)
    assert fmean(p <= 0.05 for p in known) < 0.08
    assert fmean(known) == pytest.approx(0.5, abs=0.06)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(RelightError, match=r"^samples must be a number above 0, not 0$"):
        cluster_bootstrap([(1, 2)], seed=1, samples=0)
    with pytest.raises(RelightError, match=r"^confidence must be above 0 and below 1, not 95$"):
        part_arms([(1, 2)], [(1, 2)], seed=1, confidence=95)


def test_with_many_sessions_what_is_computed_is_what_drawing_comes_to() -> None:
    rng = random.Random(11)
    cold, warm = (
        [one for one in draw_sessions(rng, 1500, rate=rate, icc=0.05) if one[1] <= 30][:1000]
        for rate in (0.1, 0.095)
    )
    assert permutation._is_plenty(cold)
    scale = (399 / 1000) ** 0.5
    drawn, computed = cluster_bootstrap(cold[:399], seed=1), cluster_bootstrap(cold, seed=1)
    assert drawn is not None
    assert computed is not None
    widths = [(one.high or 0) - (one.low or 0) for one in (drawn, computed)]
    assert widths[1] == pytest.approx(widths[0] * scale, rel=0.15)
    parting = part_arms(cold, warm, seed=1)
    assert parting is not None
    dealt = _deal(cold, warm, random.Random(5), samples=3000)
    assert parting.p_value == pytest.approx(dealt, abs=0.02)


def _deal(a: Sessions, b: Sessions, rng: random.Random, *, samples: int) -> float:
    def apart(one: Sessions, two: Sessions) -> float:
        rates = [sum(x for x, _ in arm) / sum(y for _, y in arm) for arm in (one, two)]
        return abs(rates[0] - rates[1])

    everyone, far = [*a, *b], 0
    for _ in range(samples):
        rng.shuffle(everyone)
        far += apart(everyone[: len(a)], everyone[len(a) :]) >= apart(a, b)
    return far / samples


def test_a_session_that_outweighs_all_others_is_drawn_however_many_they_are() -> None:
    heavy = [*draw_sessions(random.Random(3), 600, rate=0.1, icc=0.1), (4000.0, 8000.0)]
    assert not permutation._is_plenty(heavy)


@given(st.lists(st.sampled_from((-1.0, 0.0, 1.0)), min_size=1, max_size=9))
def test_signs_flipped_at_random_are_the_exact_sign_test(differences: list[float]) -> None:
    from scipy.stats import binomtest  # type: ignore[import-untyped]

    found = part_pairs([(one, 1.0) for one in differences], seed=1)
    better = differences.count(1.0)
    parted = better + differences.count(-1.0)
    if not parted:
        assert found is None
    else:
        assert found is not None
        assert found.p_value == pytest.approx(binomtest(better, parted, 0.5).pvalue)


@pytest.mark.parametrize(("tasks", "samples"), [(7, 400), (15, 399), (30, 400)])
def test_pairs_that_do_not_differ_alarm_in_5_percent_by_interval_and_p_value(
    tasks: int, samples: int
) -> None:
    rng = random.Random(4)
    alarms = 0
    for trial in range(200):
        pairs = [
            (rng.lognormvariate(0, 1.2) - rng.lognormvariate(0, 1.2), 1.0) for _ in range(tasks)
        ]
        found = part_pairs(pairs, seed=trial, samples=samples)
        assert found is not None
        low, high = found.difference.low, found.difference.high
        assert low is not None
        assert high is not None
        assert (found.p_value < 0.05) == (not low <= 0 <= high)
        alarms += found.p_value < 0.05
    assert 1 <= alarms <= 20


def test_few_tasks_or_such_as_agree_have_no_bounds() -> None:
    five = part_pairs([(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (1.0, 1.0), (2.0, 1.0)], seed=1)
    assert five == Parting(Estimate(1.5, None, None), 0.0625)
    assert part_pairs([(1.0, 1.0)] * 8, seed=1) == Parting(Estimate(1.0, None, None), 2 / 256)
    assert part_pairs([(0.0, 1.0)] * 8, seed=1) is None
    assert part_pairs([], seed=1) is None
