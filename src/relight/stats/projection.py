"""The sum that a period will end with, from its sum so far and from comparable days before it."""

import math
import random
from array import array
from collections.abc import Sequence
from functools import lru_cache
from operator import add
from statistics import NormalDist, fmean

from msgspec import Struct

REPLICATES = 1000
# the range of 84 % of the replicates holds 80 % of the ends: a few weeks lack the rare dear days
SHARE = 0.84
_NORMAL = NormalDist()


class DrawGroup(Struct, frozen=True):
    """So many parts of the rest of a period, each of which will be like one of these values."""

    values: Sequence[float]
    count: int = 1


class ProjectedSum(Struct, frozen=True):
    """The expected sum at the end of a period, and the range that holds it 8 times of 10."""

    value: float
    low: float
    high: float


def project_sum(so_far: float, groups: Sequence[DrawGroup], *, seed: int) -> ProjectedSum:
    """Return the projected sum, with the range that holds 8 of 10 ends.

    The range is a bootstrap: each replicate first draws the past again from itself, because a few
    days show the usual day only roughly, and then the rest of the period from that past. It is the
    same for the same seed.

    >>> project_sum(2.0, [DrawGroup([1.0, 1.0, 1.0], 3)], seed=1)
    ProjectedSum(value=5.0, low=5.0, high=5.0)
    """
    fewest = min((len(one.values) for one in groups if one.count), default=0)
    ends = [so_far] * REPLICATES
    places = _draw_places(seed, tuple((len(one.values), one.count) for one in groups))
    for group, drawn in zip(groups, places, strict=True):
        if not group.count:
            continue
        values = map(group.values.__getitem__, drawn)
        sums = map(sum, zip(*[values] * group.count, strict=True))
        ends = list(map(add, ends, sums))
    ends.sort()
    outside = round(REPLICATES * _find_tail(fewest))
    return ProjectedSum(
        value=so_far + sum(fmean(group.values) * group.count for group in groups),
        low=ends[outside],
        high=ends[-1 - outside],
    )


@lru_cache(maxsize=16)
def _draw_places(seed: int, shapes: tuple[tuple[int, int], ...]) -> "list[array[int]]":
    """Return the places of the values that replicates draw from groups of so many values.

    They do not depend on the values: a page that is shown again draws nothing.
    """
    dice = random.Random(seed)
    drawn: list[array[int]] = [array("l") for _ in shapes]
    for _ in range(REPLICATES):
        for places, (number, count) in zip(drawn, shapes, strict=True):
            past = dice.choices(range(number), k=number)
            places.extend(dice.choices(past, k=count))
    return drawn


def _find_tail(number: int) -> float:
    """Return the share of replicates to leave out at each end, after so few values of the past.

    A bootstrap's range is too narrow by the ratio of a normal to Student's t, and by that of the
    two ways to divide a variance.

    >>> round(_find_tail(8), 3), round(_find_tail(1000), 3)
    (0.047, 0.08)
    """
    freedom = max(number - 1, 2)
    z = _NORMAL.inv_cdf(0.5 + SHARE / 2)
    student = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return _NORMAL.cdf(-math.sqrt((freedom + 1) / freedom) * student)
