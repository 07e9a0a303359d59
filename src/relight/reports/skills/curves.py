"""How well each skill did on each model, day by day: the averages of `averages` as curves."""

from collections.abc import Container, Sequence
from datetime import date, timedelta

from msgspec import Struct

from relight.reports.skills.averages import RECENT, read_half_life
from relight.stats.rates import Estimate, decay, wilson
from relight.store import Store

LARGEST = 400  # days; more could not be told apart
# where a day's uses stand in a row of RECENT, its known outcomes and successes, its known costs
FIGURES = (4, 5, 6, 7, 8)


class SkillCurve(Struct, frozen=True, kw_only=True):
    """One skill on one model: for each day what its average was then, None before its first use.

    Intervals are Wilson's at the effective sample size: three fresh runs are not thirty.
    """

    skill_name: str
    model: str | None
    uses: list[int]
    success: list[Estimate | None]
    cost_usd: list[Estimate | None]


def read_curves(
    store: Store,
    *,
    last: date,
    days: int = 30,
    skill: str | None = None,
    window_days: int = 14,
    alpha: float | None = None,
    half_life_days: float | None = None,
    with_intervals: bool = True,
    only: Container[tuple[str, str | None]] | None = None,
) -> list[SkillCurve]:
    """The curves of all skills, or of one, over the days up to `last`; the most used first.

    A point is what `query_skill_ema` would have said on that day. Intervals take the most time:
    a list of many skills does without, and asks for `only` the skills and models that it shows.
    """
    half_life = read_half_life(alpha, half_life_days)
    days = min(max(days, 1), LARGEST)
    length = days + window_days - 1
    first = last - timedelta(days=length - 1)
    groups: dict[tuple[str, str | None], list[list[float]]] = {}
    for row in store.query(RECENT, (first.isoformat(), last.isoformat())):
        if skill is None or row[0] == skill:
            sums = groups.setdefault((row[0], row[1]), [])
            if not sums:
                sums += [[0.0] * length for _ in FIGURES]
            place = (date.fromisoformat(row[3]) - first).days
            for figure, at in zip(sums, FIGURES, strict=True):
                figure[place] += row[at]
    curves = [
        _make_curve(name, model, sums, days, window_days, half_life, with_intervals)
        for (name, model), sums in groups.items()
        if only is None or (name, model) in only
    ]
    return sorted(curves, key=lambda one: (-sum(one.uses), one.skill_name, one.model or ""))


def _make_curve(
    skill: str,
    model: str | None,
    sums: Sequence[Sequence[float]],
    days: int,
    window_days: int,
    half_life: float,
    with_intervals: bool,
) -> SkillCurve:
    uses, known, successes, priced, nanos = sums
    rates = _decay(known, successes, window_days, half_life)
    costs = _decay(priced, nanos, window_days, half_life)
    return SkillCurve(
        skill_name=skill,
        model=model,
        uses=[round(count) for count in uses[-days:]],
        success=[
            None if one is None else _estimate_rate(*one, with_intervals) for one in rates[-days:]
        ],
        cost_usd=[
            None if one is None else Estimate(one[0] / 1e9, None, None) for one in costs[-days:]
        ],
    )


def _decay(
    counts: Sequence[float], totals: Sequence[float], window_days: int, half_life: float
) -> list[tuple[float, float] | None]:
    """The weighted mean and the effective sample size of each day; None where nothing is known.

    Each day's sums are those of the day before, a day older, with what came in and without what
    left the window: so a year of many skills costs little.
    """
    older = decay(1, half_life)
    oldest = older**window_days
    weight = total = squares = known = 0.0
    found: list[tuple[float, float] | None] = []
    for place, (count, value) in enumerate(zip(counts, totals, strict=True)):
        weight = weight * older + count
        total = total * older + value
        squares = squares * older * older + count
        known += count
        if place >= window_days:
            gone = counts[place - window_days]
            weight -= oldest * gone
            total -= oldest * totals[place - window_days]
            squares -= oldest * oldest * gone
            known -= gone
        if not known:  # what is left of the sums is only rounding
            weight = total = squares = 0.0
        found.append((total / weight, weight * weight / squares) if known else None)
    return found


def _estimate_rate(rate: float, size: float, with_interval: bool) -> Estimate:
    rate = min(max(rate, 0.0), 1.0)  # rounding may be a bit beyond
    if not with_interval:
        return Estimate(rate, None, None)
    interval = wilson(min(rate * size, size), size)
    return Estimate(rate, interval.low, interval.high)
