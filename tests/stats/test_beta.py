"""The beta distribution, Student's t and the posterior of two rates, checked against scipy."""

import math

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, given
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.stats.beta import (
    beta_cdf,
    probability_at_least,
    student_cdf,
    student_quantile,
)
from relight.stats.rates import Counts

shares = st.floats(1e-9, 1 - 1e-9)
shapes = st.floats(-1, 6).map(lambda exponent: 10**exponent)
freedoms = st.floats(0, 6).map(lambda exponent: 10**exponent)
few = st.tuples(st.integers(0, 60), st.integers(0, 60))
many = st.tuples(st.floats(0, 1e4), st.floats(0, 1e4))
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
def test_the_probability_is_the_closed_form(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert probability_at_least(a, b) == pytest.approx(probability_b_beats_a(a, b), abs=CLOSE)


@given(many, many)
def test_either_b_is_as_good_or_a_is_better(a: Counts, b: Counts) -> None:
    """Also for fractional (decayed) counts, and with the arms exchanged inside the integral."""
    there, back = probability_at_least(a, b), probability_at_least(b, a)
    assert there + back == pytest.approx(1, abs=CLOSE)


def test_a_million_runs_are_as_close() -> None:
    a, b = (900_000.0, 100_000.0), (899_500.0, 100_500.0)
    assert probability_at_least(a, b) + probability_at_least(b, a) == pytest.approx(1, abs=CLOSE)
    assert probability_at_least(a, a) == pytest.approx(0.5, abs=CLOSE)
    assert probability_at_least((3, 0), (1e6, 0)) == pytest.approx(1, abs=CLOSE)


def test_an_arm_without_runs_may_be_anywhere() -> None:
    assert probability_at_least((0, 0), (0, 0)) == pytest.approx(0.5, abs=CLOSE)
    assert probability_at_least((0, 0), (99, 0)) == pytest.approx(100 / 101, abs=CLOSE)


def test_bad_counts_are_refused() -> None:
    with pytest.raises(RelightError, match=r"^a must be \(successes, failures\)"):
        probability_at_least((-1, 2), (1, 1))
