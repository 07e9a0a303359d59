"""How probable it is that one success rate is at least another, given the runs so far."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from relight.errors import RelightError
from relight.stats.distributions import (
    beta_cdf,
    beta_pdf,
    beta_quantile,
    check_share,
    normal_quantile,
)
from relight.stats.rates import Counts, check_counts

POINTS = 40
SMOOTH = 10  # the least shape from which a density leaves both ends gently


def probability_at_least(a: Counts, b: Counts, *, margin: float = 0.0) -> float:
    """Posterior probability that the success rate of `b` is at least that of `a` less `margin`.

    Both rates have a Beta(1, 1) prior, so an arm without runs may be anywhere. Computed by
    quadrature, not by drawing: the same counts always give the same figure.

    >>> round(probability_at_least((9, 1), (8, 2)), 3)
    0.293
    >>> round(probability_at_least((9, 1), (8, 2), margin=0.05), 3)
    0.416
    """
    shape_a = tuple(1 + count for count in check_counts("a", a))
    shape_b = tuple(1 + count for count in check_counts("b", b))
    if not -1 <= margin <= 1:
        raise RelightError(f"margin must be between -1 and 1, not {margin}")
    # P = ∫ density of a at x · P(b > x − margin) dx, cut to where both factors still move.
    rest = 1e-14
    low = max(beta_quantile(rest, *shape_a), beta_quantile(rest, *shape_b) + margin)
    high = min(beta_quantile(1 - rest, *shape_a), beta_quantile(1 - rest, *shape_b) + margin)
    below = beta_cdf(min(max(low, 0.0), 1.0), *shape_a)
    if low >= high:
        return below
    integrate = _integrate_smooth if min(*shape_a, *shape_b) >= SMOOTH else _integrate
    inside = integrate(
        lambda x: beta_pdf(x, *shape_a) * beta_cdf(1 - x + margin, shape_b[1], shape_b[0]),
        low,
        high,
    )
    return min(1.0, below + inside)


def runs_to_settle(
    a: Counts, b: Counts, *, margin: float = 0.0, certainty: float = 0.95, limit: int = 10_000
) -> int | None:
    """How many more runs of each arm would settle whether `b` is within `margin` of `a`.

    Settled is a `probability_at_least` of `certainty` or more, or as far on the other side; it
    is 0 if that is so already. Further runs are taken to succeed at the rates seen so
    far. None if `limit` runs would not do, or if an arm has no runs and so no rate.

    >>> runs_to_settle((9, 1), (8, 2), margin=0.05)
    268
    >>> runs_to_settle((9, 1), (9, 1)) is None
    True
    """
    check_share(certainty=certainty)
    runs_a, runs_b = sum(check_counts("a", a)), sum(check_counts("b", b))
    if not runs_a or not runs_b:
        return None

    def is_settled(more: int) -> bool:
        probability = probability_at_least(
            (a[0] + more * a[0] / runs_a, a[1] + more * a[1] / runs_a),
            (b[0] + more * b[0] / runs_b, b[1] + more * b[1] / runs_b),
            margin=margin,
        )
        return not 1 - certainty < probability < certainty

    if is_settled(0):
        return 0
    low, high = 0, _guess_runs(a, b, margin=margin, certainty=certainty, limit=limit)
    step = max(high // 64, 1)
    if is_settled(high):
        while high - step > 0 and is_settled(high - step):
            high, step = high - step, 2 * step
        low = max(high - step, 0)
    else:
        while not is_settled(high):
            if high >= limit:
                return None
            low, high, step = high, min(high + step, limit), 2 * step
    nearer = range(low + 1, high)
    return nearer.start + bisect_left(nearer, True, key=is_settled)


def _guess_runs(a: Counts, b: Counts, *, margin: float, certainty: float, limit: int) -> int:
    """Nearly how many more runs would do, from 1 to `limit`: both rates taken as normal."""
    runs_a, runs_b = sum(a), sum(b)
    rate_a, rate_b = (1 + a[0]) / (2 + runs_a), (1 + b[0]) / (2 + runs_b)
    apart = abs(rate_b - rate_a + margin)
    spread = rate_a * (1 - rate_a) + rate_b * (1 - rate_b)
    if not apart:
        return limit
    wanted = (normal_quantile(certainty) / apart) ** 2 * spread - min(runs_a, runs_b)
    return round(min(max(wanted, 1), limit))


def _integrate_smooth(function: Callable[[float], float], low: float, high: float) -> float:
    """The integral of a smooth function by the rule of Gauss and Legendre.

    The integrand is cut to some fifteen of its standard deviations, over which this many points
    are exact to the last digits, unless it rises like a root at an end.
    """
    half, middle = (high - low) / 2, (high + low) / 2
    return half * math.fsum(
        weight * function(middle + half * node) for node, weight in _find_nodes(POINTS)
    )


@cache
def _find_nodes(number: int) -> list[tuple[float, float]]:
    """The roots of Legendre's polynomial of this degree, by Newton's method, with their weights."""
    nodes = []
    for place in range(1, number + 1):
        x = math.cos(math.pi * (place - 0.25) / (number + 0.5))
        for _ in range(8):
            before, value = 1.0, x
            for degree in range(2, number + 1):
                later = ((2 * degree - 1) * x * value - (degree - 1) * before) / degree
                before, value = value, later
            slope = number * (x * value - before) / (x * x - 1)
            x -= value / slope
        nodes.append((x, 2 / ((1 - x * x) * slope * slope)))
    return nodes


def _integrate(function: Callable[[float], float], low: float, high: float) -> float:
    """The integral by the tanh-sinh rule, which does not mind a root at either end."""
    width = high - low
    total, before = 0.0, math.inf
    for level in range(1, 12):
        step = 0.5**level
        # Beyond 3.5 the weights vanish; each level adds the points between those it has.
        last = int(3.5 / step)
        for k in range(-last, last + 1) if level == 1 else range(-last | 1, last + 1, 2):
            share = 1 / (1 + math.exp(-math.pi * math.sinh(k * step)))
            x = low + width * share
            if low < x < high:
                total += function(x) * share * (1 - share) * math.cosh(k * step)
        value = total * step * width * math.pi
        if abs(value - before) < 1e-12:
            break
        before = value
    return value
