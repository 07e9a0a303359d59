"""The beta distribution and what follows from it: Student's t, and the posterior of two rates.

Own code because scipy is 170 MB. Probabilities are exact to about 1e-9; people see whole percents.
"""

import math

from relight.stats.rates import Counts, check_counts, check_positive, check_share

_INTERVALS = 200  # an even number
_REACH = 5.0  # ten standard deviations of the angle
_TINY = 1e-300


def beta_cdf(x: float, a: float, b: float) -> float:
    """Probability that a Beta(a, b) value is at most `x`: the regularised incomplete beta.

    >>> round(beta_cdf(0.5, 2, 3), 4)
    0.6875
    """
    check_positive(a=a, b=b)
    if x <= 0 or x >= 1:
        return float(x > 0)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below the mean only
        return 1 - _lower_tail(1 - x, b, a)
    return _lower_tail(x, a, b)


def _lower_tail(x: float, a: float, b: float) -> float:
    """The incomplete beta below its mean: a continued fraction, evaluated by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / (1 + step * d or _TINY)
            c = 1 + step / c or _TINY
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)) * fraction / a


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def student_cdf(t: float, df: float) -> float:
    """Probability that a Student t value with `df` degrees of freedom is at most `t`.

    >>> round(student_cdf(2.228, 10), 3)
    0.975
    """
    check_positive(df=df)
    tail = beta_cdf(df / (df + t * t), df / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def student_quantile(p: float, df: float) -> float:
    """The value that a Student t with `df` degrees of freedom stays under with probability `p`.

    >>> round(student_quantile(0.975, 10), 3)
    2.228
    """
    check_share(p=p)
    check_positive(df=df)
    if p < 0.5:
        return -student_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while student_cdf(high, df) < p:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, df) < p else (low, middle)
    return high if p > 0.5 else 0.0


def probability_at_least(a: Counts, b: Counts) -> float:
    """Posterior probability that the success rate of `b` is at least that of `a`.

    Both rates have a Beta(1, 1) prior, so an arm without runs may be anywhere. Computed by
    quadrature, not by drawing: the same counts always give the same figure.

    >>> round(probability_at_least((9, 1), (8, 2)), 3)
    0.293
    """
    a1, a2 = (1 + count for count in check_counts("a", a))
    b1, b2 = (1 + count for count in check_counts("b", b))
    # P = ∫ density of a at x · P(b > x) dx, cut to where both factors still move, and
    # taken over the angle whose sine squared is x: there no density is steep at either end.
    low_a, high_a = _find_range(a1, a2)
    low_b, high_b = _find_range(b1, b2)
    low, high = max(low_a, low_b), min(high_a, high_b)
    below = beta_cdf(low, a1, a2)
    if low >= high:
        return below
    start, end = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))
    width, log_scale = (end - start) / _INTERVALS, _log_beta(a1, a2)
    total = 0.0
    for place in range(_INTERVALS + 1):  # Simpson's rule
        angle = start + place * width
        x, rest = math.sin(angle) ** 2, math.cos(angle) ** 2
        if x and rest:
            log_density = (a1 - 0.5) * math.log(x) + (a2 - 0.5) * math.log(rest) - log_scale
            weight = 1 if place in (0, _INTERVALS) else 2 + 2 * (place % 2)
            total += weight * math.exp(log_density) * beta_cdf(rest, b2, b1)
    return min(1.0, below + total * 2 * width / 3)


def _find_range(a: float, b: float) -> tuple[float, float]:
    """The range with all but a vanishing part of the weight of a Beta(a, b), shapes from 1 up."""
    angle, reach = math.asin(math.sqrt(a / (a + b))), _REACH / math.sqrt(a + b)
    return (
        math.sin(max(angle - reach, 0.0)) ** 2,
        math.sin(min(angle + reach, math.pi / 2)) ** 2,
    )
