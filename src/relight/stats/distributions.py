"""The normal, Student and beta distributions, accurate to about 1e-12.

Own code because scipy is 170 MB; the tests compare it with scipy.
"""

import math
from statistics import NormalDist

from relight.checks import refuse

_NORMAL = NormalDist()
_LOGIT_END = 690.0  # odds of 1e-300: beyond them floats, and their quotients, give out


def normal_cdf(x: float) -> float:
    """Probability that a standard normal value is at most `x`.

    >>> round(normal_cdf(1.96), 4)
    0.975
    """
    return math.erfc(-x / math.sqrt(2)) / 2  # erf would round the far tail to zero


def normal_quantile(p: float) -> float:
    """The value a standard normal stays under with probability `p`.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    check_share(p=p)
    return _NORMAL.inv_cdf(p)


def student_cdf(t: float, df: float) -> float:
    """Probability that a Student t value with `df` degrees of freedom is at most `t`.

    >>> round(student_cdf(2.228, 10), 3)
    0.975
    """
    check_positive(df=df)
    if math.isinf(t):
        return float(t > 0)
    square = t * t
    tail = _incomplete_beta(df / 2, 0.5, x=df / (df + square), y=square / (df + square)) / 2
    return 1 - tail if t > 0 else tail


def student_quantile(p: float, df: float) -> float:
    """The value a Student t with `df` degrees of freedom stays under with probability `p`.

    >>> round(student_quantile(0.975, 10), 3)
    2.228
    """
    check_share(p=p)
    check_positive(df=df)
    outside = 2 * min(p, 1 - p)
    # t² / df has the odds of a beta value. Near the middle the small side is the inside one.
    if outside < 0.5:
        log_odds = -_solve_logit(outside, df / 2, 0.5)
    else:
        log_odds = _solve_logit(abs(1 - 2 * p), 0.5, df / 2)
    return math.copysign(math.sqrt(df) * math.exp(log_odds / 2), p - 0.5)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Probability that a Beta(a, b) value is at most `x`: the regularised incomplete beta.

    >>> round(beta_cdf(0.5, 2, 3), 4)
    0.6875
    """
    check_positive(a=a, b=b)
    return _incomplete_beta(a, b, x=x, y=1 - x)


def beta_pdf(x: float, a: float, b: float) -> float:
    """Density of Beta(a, b) at `x`, which must be inside of 0 and 1.

    >>> round(beta_pdf(0.5, 2, 3), 4)
    1.5
    """
    check_positive(a=a, b=b)
    check_share(x=x)
    return _beta_front(a, b, x=x, y=1 - x) / (x * (1 - x))


def beta_quantile(p: float, a: float, b: float) -> float:
    """The value a Beta(a, b) stays under with probability `p`.

    >>> round(beta_quantile(0.6875, 2, 3), 4)
    0.5
    """
    check_share(p=p)
    check_positive(a=a, b=b)
    return _from_logit(_solve_logit(p, a, b))


def check_share(**named: float) -> None:
    """Refuse a parameter that is not strictly between 0 and 1, by its name."""
    for name, value in named.items():
        if not 0 < value < 1:
            raise refuse(name, f"must be above 0 and below 1, not {value}")


def check_positive(**named: float) -> None:
    """Refuse a parameter that is not a finite number above zero, by its name."""
    for name, value in named.items():
        if not (value > 0 and math.isfinite(value)):
            raise refuse(name, f"must be a number above 0, not {value}")


def _from_logit(z: float) -> float:
    odds = math.exp(-abs(z))
    share = odds / (1 + odds)
    return 1 - share if z > 0 else share


def _solve_logit(p: float, a: float, b: float) -> float:
    """Logit of the Beta(a, b) quantile at `p`.

    In logits neither end of the range loses digits, and the logarithm of the lower tail is
    close to a straight line there, so Newton's steps need few repetitions; a bracket catches
    those that go astray.
    """
    if p <= 0:
        return -math.inf
    if p > 0.5:  # the smaller tail is the one that can be computed to full relative accuracy
        return -_solve_logit(1 - p, b, a)
    low, high = -_LOGIT_END, _LOGIT_END
    z = min(max(math.log(a) - math.log(b), low), high)
    for _ in range(200):
        x, y = _from_logit(z), _from_logit(-z)
        reached = _incomplete_beta(a, b, x=x, y=y)
        low, high = (z, high) if reached < p else (low, z)
        slope = _beta_front(a, b, x=x, y=y)  # of the tail, by the logit
        middle = (low + high) / 2
        step = reached * math.log(reached / p) / slope if reached > 0 and slope > 0 else math.inf
        following = z - step if low <= z - step <= high else middle
        if abs(following - z) <= 1e-15 * max(1.0, abs(z)):
            return following
        z = following
    return z


def _incomplete_beta(a: float, b: float, *, x: float, y: float) -> float:
    """I_x(a, b), where `y` is 1 − x and is given so that neither loses digits."""
    if x <= 0:
        return 0.0
    if y <= 0:
        return 1.0
    if x * (a + b + 2) > a + 1:  # the fraction converges fast on the other side of the mean only
        return 1 - _beta_front(b, a, x=y, y=x) * _beta_fraction(b, a, x=y, y=x)
    return _beta_front(a, b, x=x, y=y) * _beta_fraction(a, b, x=x, y=y)


def _beta_front(a: float, b: float, *, x: float, y: float) -> float:
    """x^a · y^b / B(a, b), by Loader's saddle point.

    The difference of log-gammas would lose nine digits at a million runs.
    """
    if x <= 0 or y <= 0:
        return 0.0
    n = a + b
    log_scale = _stirling_rest(n) - _stirling_rest(a) - _stirling_rest(b)
    log_scale -= _deviance(a, n * x) + _deviance(b, n * y)
    return math.sqrt(a / n * b / math.tau) * math.exp(log_scale)


def _stirling_rest(a: float) -> float:
    """What Stirling's formula leaves out of log Γ(a)."""
    if a < 16:
        return math.lgamma(a) - (a - 0.5) * math.log(a) + a - math.log(math.tau) / 2
    s = 1 / (a * a)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - s / 1188) * s) * s) * s) / a


def _deviance(a: float, mean: float) -> float:
    """a · log(a / mean) + mean − a, without cancellation where the two are close."""
    if mean <= 0:
        return math.inf
    if abs(a - mean) > 0.1 * (a + mean):
        return a * math.log(a / mean) + mean - a
    v = (a - mean) / (a + mean)
    total = (a - mean) * v
    power = 2 * a * v
    for odd in range(3, 1000, 2):
        power *= v * v
        following = total + power / odd
        if following == total:
            break
        total = following
    return total


def _beta_fraction(a: float, b: float, *, x: float, y: float) -> float:
    """The factor that makes `_beta_front` the lower tail: a continued fraction, by Lentz.

    It is the even part of the textbook one (Didonato and Morris), because the textbook's loses
    six digits to cancellation when one shape is a million times the other.
    """
    tiny = 1e-300
    drift = a * y - b * x + 1
    fraction = c = a * drift / (a + 1) or tiny
    d = 0.0
    for m in range(1, 1_000_000):
        odd = a + 2 * m - 1
        above = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / odd) ** 2
        below = m + m * (b - m) * x / odd + (a + m) * (drift + m * (1 + y)) / (odd + 2)
        d = 1 / (below + above * d or tiny)
        c = below + above / c or tiny
        fraction *= c * d
        if abs(c * d - 1) < 3e-16:
            break
    return 1 / fraction
