"""The distributions agree with scipy."""

import math

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, given
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.stats.distributions import (
    beta_cdf,
    beta_pdf,
    beta_quantile,
    normal_cdf,
    normal_quantile,
    student_cdf,
    student_quantile,
)

shares = st.floats(1e-9, 1 - 1e-9)
shapes = st.floats(-1, 6).map(lambda exponent: 10**exponent)
freedoms = st.floats(0, 6).map(lambda exponent: 10**exponent)


@given(st.floats(-40, 40), shares)
def test_the_normal_agrees_with_scipy(x: float, p: float) -> None:
    assert normal_cdf(x) == pytest.approx(scipy.stats.norm.cdf(x), rel=1e-12)
    assert normal_quantile(p) == pytest.approx(scipy.stats.norm.ppf(p), rel=1e-12, abs=1e-12)


@given(st.floats(-50, 50), shares, freedoms)
def test_student_agrees_with_scipy(t: float, p: float, df: float) -> None:
    assume(abs(t) > 1e-4)  # scipy rounds t away against df below
    assert student_cdf(t, df) == pytest.approx(scipy.stats.t.cdf(t, df), abs=1e-12)
    assert student_quantile(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=1e-10, abs=1e-12)


@given(st.floats(-1, 1))
def test_student_with_one_degree_of_freedom_is_the_arc_tangent(t: float) -> None:
    assert student_cdf(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, abs=1e-15)


@given(shares, shapes, shapes)
def test_beta_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=1e-12)
    assert beta_pdf(x, a, b) == pytest.approx(scipy.stats.beta.pdf(x, a, b), rel=1e-9, abs=1e-9)
    assert beta_quantile(x, a, b) == pytest.approx(scipy.stats.beta.ppf(x, a, b), abs=1e-10)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 1e6), st.floats(0.5, 1e6))
def test_a_quantile_is_where_the_distribution_reaches_it(p: float, a: float, b: float) -> None:
    x = beta_quantile(p, a, b)
    # One float further along may cross p when the beta is as narrow as the floats are wide.
    assert beta_cdf(math.nextafter(x, 0), a, b) <= p + 1e-11
    assert beta_cdf(math.nextafter(x, 1), a, b) >= p - 1e-11


def test_a_billion_runs_are_computed_in_the_same_way() -> None:
    assert beta_cdf(0.5, 1e9, 1.00001e9) == pytest.approx(
        scipy.stats.beta.cdf(0.5, 1e9, 1.00001e9), abs=1e-10
    )
    assert student_quantile(0.975, 1e12) == pytest.approx(normal_quantile(0.975), rel=1e-11)


def test_the_ends_are_certain() -> None:
    assert (beta_cdf(0, 2, 3), beta_cdf(1, 2, 3), beta_cdf(1.5, 2, 3)) == (0, 1, 1)
    assert (student_cdf(-math.inf, 3), student_cdf(1e200, 3)) == (0, 1)
    assert student_quantile(0.5, 3) == 0
    assert beta_quantile(0.025, 1e-4, 1) < 1e-299  # 10 ** -16000 is no float


def test_a_bad_parameter_is_refused_by_name() -> None:
    with pytest.raises(RelightError, match=r"^p must be above 0 and below 1, not 1\.2$"):
        normal_quantile(1.2)
    with pytest.raises(RelightError, match=r"^df must be a number above 0, not nan$"):
        student_cdf(1, math.nan)
    with pytest.raises(RelightError, match=r"^b must be a number above 0, not -1$"):
        beta_cdf(0.5, 2, -1)
