"""The beta distribution, Student's t and the posterior of two rates, checked against scipy."""

import math
from itertools import pairwise

import pytest
import scipy.integrate  # type: ignore[import-untyped]
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.stats.beta import (
    beta_cdf,
    probability_at_least,
    runs_to_settle,
    student_cdf,
    student_quantile,
)
from relight.stats.rates import Counts

shares = st.floats(1e-9, 1 - 1e-9)
shapes = st.floats(-1, 6).map(lambda exponent: 10**exponent)
freedoms = st.floats(0, 6).map(lambda exponent: 10**exponent)
few = st.tuples(st.integers(0, 60), st.integers(0, 60))
many = st.tuples(st.floats(0, 1e4), st.floats(0, 1e4))
margins = st.floats(-0.5, 0.5)
# People see whole percents.
CLOSE = 1.5e-5


@given(shares, shapes, shapes)
def test_beta_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=1e-7)


@given(st.floats(-50, 50), shares, freedoms)
def test_student_agrees_with_scipy(t: float, p: float, df: float) -> None:
    assume(abs(t) > 1e-4)  # scipy rounds t away against df below
    assert student_cdf(t, df) == pytest.approx(scipy.stats.t.cdf(t, df), abs=1e-8)
    assert student_quantile(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=1e-5, abs=1e-7)


def test_the_ends_are_certain() -> None:
    assert (beta_cdf(0, 2, 3), beta_cdf(1, 2, 3), beta_cdf(1.5, 2, 3)) == (0, 1, 1)
    assert (student_cdf(-math.inf, 3), student_cdf(1e200, 3)) == (0, 1)
    assert student_quantile(0.5, 3) == 0


def test_a_bad_parameter_is_refused_by_name() -> None:
    with pytest.raises(RelightError, match=r"^p must be above 0 and below 1, not 1\.2$"):
        student_quantile(1.2, 3)
    with pytest.raises(RelightError, match=r"^df must be a number above 0, not nan$"):
        student_cdf(1, math.nan)
    with pytest.raises(RelightError, match=r"^b must be a number above 0, not -1$"):
        beta_cdf(0.5, 2, -1)


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def probability_b_beats_a(a: tuple[int, int], b: tuple[int, int]) -> float:
    """The closed form for whole counts and no margin."""
    return math.fsum(
        math.exp(
            log_beta(a[0] + 1 + i, a[1] + b[1] + 2)
            - math.log(b[1] + 1 + i)
            - log_beta(1 + i, b[1] + 1)
            - log_beta(a[0] + 1, a[1] + 1)
        )
        for i in range(b[0] + 1)
    )


@given(few, few)
def test_without_a_margin_it_is_the_closed_form(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert probability_at_least(a, b) == pytest.approx(probability_b_beats_a(a, b), abs=CLOSE)


@given(few, few, margins)
@settings(max_examples=40)
def test_with_a_margin_it_is_the_integral(
    a: tuple[int, int], b: tuple[int, int], margin: float
) -> None:
    posterior_a = scipy.stats.beta(1 + a[0], 1 + a[1])
    posterior_b = scipy.stats.beta(1 + b[0], 1 + b[1])
    ends = sorted({0.0, min(max(margin, 0.0), 1.0), min(max(1 + margin, 0.0), 1.0), 1.0})
    means = [posterior_a.mean(), min(max(posterior_b.mean() + margin, 0.0), 1.0)]
    pieces = sorted({*ends, *means})
    expected = math.fsum(
        scipy.integrate.quad(
            lambda x: float(posterior_a.pdf(x) * posterior_b.sf(x - margin)),
            low,
            high,
            epsabs=CLOSE,
            epsrel=1e-11,
            limit=400,
        )[0]
        for low, high in pairwise(pieces)
    )
    assert probability_at_least(a, b, margin=margin) == pytest.approx(expected, abs=CLOSE)


@given(many, many, margins)
def test_either_b_is_within_the_margin_or_a_is_beyond_it(
    a: Counts, b: Counts, margin: float
) -> None:
    """Also for fractional (decayed) counts, and with the arms exchanged inside the integral."""
    there = probability_at_least(a, b, margin=margin)
    back = probability_at_least(b, a, margin=-margin)
    assert there + back == pytest.approx(1, abs=CLOSE)


def test_a_million_runs_are_as_close() -> None:
    a, b = (900_000.0, 100_000.0), (899_500.0, 100_500.0)
    assert probability_at_least(a, b) + probability_at_least(b, a) == pytest.approx(1, abs=CLOSE)
    assert probability_at_least(a, a) == pytest.approx(0.5, abs=CLOSE)
    assert probability_at_least((3, 0), (1e6, 0)) == pytest.approx(1, abs=CLOSE)


def test_an_arm_without_runs_may_be_anywhere() -> None:
    assert probability_at_least((0, 0), (0, 0)) == pytest.approx(0.5, abs=CLOSE)
    assert probability_at_least((0, 0), (99, 0)) == pytest.approx(100 / 101, abs=CLOSE)


def test_the_widest_margins_are_certain() -> None:
    assert probability_at_least((5, 5), (0, 9), margin=1) == pytest.approx(1, abs=CLOSE)
    assert probability_at_least((5, 5), (9, 0), margin=-1) == pytest.approx(0, abs=CLOSE)


def test_bad_counts_and_margins_are_refused() -> None:
    with pytest.raises(RelightError, match=r"^a must be \(successes, failures\)"):
        probability_at_least((-1, 2), (1, 1))
    with pytest.raises(RelightError, match=r"^margin must be between -1 and 1, not 5$"):
        probability_at_least((1, 2), (1, 1), margin=5)


@given(few, few, st.sampled_from([0.0, 0.05, 0.1]))
@settings(max_examples=30, deadline=None)
def test_the_runs_to_settle_are_the_first_that_do(
    a: tuple[int, int], b: tuple[int, int], margin: float
) -> None:
    more = runs_to_settle(a, b, margin=margin, limit=500)

    def is_settled(runs: int) -> bool:
        grown = [(s + runs * s / (s + f), f + runs * f / (s + f)) for s, f in (a, b)]
        return not 0.05 < probability_at_least(grown[0], grown[1], margin=margin) < 0.95

    if not sum(a) or not sum(b):
        assert more is None
    elif more is None:
        assert not is_settled(500)
    else:
        assert is_settled(more)
        assert more == 0 or not is_settled(more - 1)


def test_what_is_settled_needs_no_more_runs_and_equal_rates_never_settle() -> None:
    assert runs_to_settle((90, 10), (20, 80)) == 0
    assert runs_to_settle((5, 5), (5, 5)) is None
    assert runs_to_settle((5, 5), (5, 5), margin=0.1) is not None
    assert runs_to_settle((5, 5), (0, 0)) is None
