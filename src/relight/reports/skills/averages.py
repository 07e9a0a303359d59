"""Moving averages of each skill on each model, in which the newest uses count most."""

import math
import time
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from msgspec import Struct

from relight.errors import ParameterError, check_count, check_number, refuse
from relight.reports.coverage import show_interval
from relight.stats.rates import (
    Estimate,
    Interval,
    check_positive,
    decay,
    half_life_from_alpha,
    wilson,
)
from relight.store import Store
from relight.store.queries import group_rows
from relight.store.queries.skills import SkillDay, read_days
from relight.times import day_reader, take_time, write_time

ALPHA = 0.3
WINDOW_DAYS = 14
MOST_DAYS = 400  # of a curve: more points would not be visible
LEAST_COVERAGE = 0.5  # of known outcomes, below which no rate is shown
CURVE_FIGURES = ("uses", "known", "successes", "priced", "nanos")
SkillModel = tuple[str, str | None]


class SkillEma(Struct, frozen=True, kw_only=True):
    """The moving averages of a skill on one model; a use's weight falls with its age in days.

    `n_eff` is the effective number of uses with a known outcome, `coverage` the weighted share of
    known outcomes. The low and high success rates are Wilson's 95 % interval at that number. A mean
    without known values is None; a partly known cost is unknown.
    """

    skill_name: str
    model: str | None
    provider: str | None
    sample_count: int
    success_count: int
    failure_count: int
    unknown_count: int
    unpriced_count: int
    n_eff: float
    coverage: float
    ema_success_rate: float | None
    ema_success_low: float | None
    ema_success_high: float | None
    ema_cost_per_call: float | None
    ema_duration_s: float | None
    days_with_data: int
    last_invoked_at: str | None


class SkillAverages(Struct, frozen=True):
    """The moving averages of all skills, with the window and half-life they were computed with."""

    window_days: int
    half_life_days: float
    rows: list[SkillEma]


class SkillCurve(Struct, frozen=True, kw_only=True):
    """The averages of a skill on one model, day by day; None before its first use.

    Intervals are Wilson's at the effective sample size.
    """

    skill_name: str
    model: str | None
    uses: list[int]
    success: list[Estimate | None]
    cost_usd: list[Estimate | None]


def query_skill_ema(
    store: Store,
    *,
    window_days: int = WINDOW_DAYS,
    alpha: float | None = None,
    half_life_days: float | None = None,
    now: object = None,
) -> list[SkillEma]:
    """Return the moving averages of each skill on each model, the last used first.

    `alpha` is the weight of the newest day: 0.3, if neither is given, halves a use's weight in 1.94
    days. Ages are whole calendar days of the store's time zone, so that one day of data is that
    day's plain mean, and a gap ages what came before it.
    """
    half_life = read_half_life(alpha, half_life_days)
    since, today = find_window(store, window_days=window_days, now=now)
    found = group_days(read_days(store, since, today.isoformat()))
    return [average_days(days, today, half_life) for days in found.values()]


def group_days(found: Iterable[SkillDay]) -> dict[SkillModel, list[SkillDay]]:
    """Return the days of each skill and model, the last used first."""
    groups = group_rows(found, lambda day: (day.skill_name, day.model))
    last = {key: max(day.last_at for day in days) for key, days in groups.items()}
    ranked = sorted(groups, key=lambda key: (-last[key], key[0], key[1] or ""))
    return {key: groups[key] for key in ranked}


def show_band(row: SkillEma) -> str:
    """Return the interval of the recent success rate; a dash if most outcomes are unknown.

    The rate alone would be misread: three successes after a failure are a recent 99 %.
    """
    low, high = row.ema_success_low, row.ema_success_high
    if low is None or high is None or row.coverage < LEAST_COVERAGE:
        return "–"
    return show_interval(Interval(low, high))


def find_window(store: Store, *, window_days: int, now: object = None) -> tuple[str, date]:
    """Return the first and the last day of a window that ends now, in the store's time zone."""
    check_count("window_days", window_days, least=1)
    at = int(time.time() * 1000) if now is None else take_time("now", now)
    today = date.fromisoformat(day_reader(store.timezone)(at) or "1970-01-01")
    try:
        return (today - timedelta(days=window_days - 1)).isoformat(), today
    except OverflowError:
        return "", today


def read_half_life(alpha: float | None, half_life_days: float | None) -> float:
    """Return the half-life in days from either parameter, or the default."""
    if alpha is not None and half_life_days is not None:
        raise ParameterError(
            "alpha and half_life_days exclude each other",
            "give one of them, not both",
            names=["alpha", "half_life_days"],
        )
    if half_life_days is not None:
        half_life = check_number("half_life_days", half_life_days)
        check_positive(half_life_days=half_life)
        return half_life
    half_life = half_life_from_alpha(check_number("alpha", ALPHA if alpha is None else alpha))
    if math.isinf(half_life):
        raise refuse("alpha", f"must be above 0 by more than {alpha!r}")
    return half_life


def average_days(days: Sequence[SkillDay], today: date, half_life: float) -> SkillEma:
    """Return the averages of one skill and model from its days."""
    uses, known, successes, priced = (
        sum(getattr(day, name) for day in days) for name in ("uses", "known", "successes", "priced")
    )
    ages = [(today - date.fromisoformat(day.day)).days for day in days]

    def average(counts: Sequence[int], sums: Sequence[float]) -> tuple[float | None, float]:
        return _weigh(list(zip(ages, counts, sums, strict=True)), half_life)

    coverage, _ = average([day.uses for day in days], [day.known for day in days])
    rate, n_eff = average([day.known for day in days], [day.successes for day in days])
    cost, _ = average([day.priced for day in days], [day.nanos for day in days])
    duration, _ = average([day.timed for day in days], [day.seconds for day in days])
    interval = None if rate is None else wilson(min(rate * n_eff, n_eff), n_eff)
    last_at, provider = max((day.last_at, day.provider or "") for day in days)
    return SkillEma(
        skill_name=days[0].skill_name,
        model=days[0].model,
        provider=provider or None,
        sample_count=uses,
        success_count=successes,
        failure_count=known - successes,
        unknown_count=uses - known,
        unpriced_count=uses - priced,
        n_eff=n_eff,
        coverage=coverage or 0.0,
        ema_success_rate=rate,
        ema_success_low=None if interval is None else interval.low,
        ema_success_high=None if interval is None else interval.high,
        ema_cost_per_call=None if cost is None else cost / 1e9,
        ema_duration_s=duration,
        days_with_data=len(set(ages)),
        last_invoked_at=write_time(last_at),
    )


def _weigh(days: Sequence[tuple[int, int, float]], half_life: float) -> tuple[float | None, float]:
    """Return mean and effective size of (age, count, sum) by day; None if nothing is counted."""
    known = [(age, count, total) for age, count, total in days if count]
    if not known:
        return None, 0.0
    # relative to the newest, so that not all weights become zero
    newest = min(age for age, _, _ in known)
    pairs = [(decay(age - newest, half_life), count, total) for age, count, total in known]
    weight = math.fsum(w * count for w, count, _ in pairs)
    squares = math.fsum(w * w * count for w, count, _ in pairs)
    return math.fsum(w * total for w, _, total in pairs) / weight, weight * weight / squares


def read_curves(
    store: Store,
    *,
    last: date,
    days: int = 30,
    skill: str | None = None,
    window_days: int = WINDOW_DAYS,
    alpha: float | None = None,
    half_life_days: float | None = None,
) -> list[SkillCurve]:
    """Return the curves of all skills, or of one, over the days up to `last`; the most used first.

    A point is the value of `query_skill_ema` on that day.
    """
    half_life = read_half_life(alpha, half_life_days)
    days = min(max(days, 1), MOST_DAYS)
    first = last - timedelta(days=days + window_days - 2)
    found = group_days(read_days(store, first.isoformat(), last.isoformat(), skill=skill))
    curves = [
        make_curve(own, last=last, days=days, window_days=window_days, half_life=half_life)
        for own in found.values()
    ]
    return sorted(curves, key=lambda one: (-sum(one.uses), one.skill_name, one.model or ""))


def make_curve(
    found: Sequence[SkillDay],
    *,
    last: date,
    days: int,
    half_life: float,
    window_days: int = WINDOW_DAYS,
    with_intervals: bool = True,
) -> SkillCurve:
    """Return the curve of one skill and model, from its days in the window before the first too.

    Intervals take the most time: a list of many skills leaves them out.
    """
    length = days + window_days - 1
    first = last - timedelta(days=length - 1)
    sums = [[0.0] * length for _ in CURVE_FIGURES]
    for day in found:
        place = (date.fromisoformat(day.day) - first).days
        for figure, name in zip(sums, CURVE_FIGURES, strict=True):
            figure[place] += getattr(day, name)
    uses, known, successes, priced, nanos = sums
    rates = _decay_daily(known, successes, window_days, half_life)
    costs = _decay_daily(priced, nanos, window_days, half_life)
    return SkillCurve(
        skill_name=found[0].skill_name,
        model=found[0].model,
        uses=[round(count) for count in uses[-days:]],
        success=[
            None if one is None else _estimate_rate(*one, with_intervals) for one in rates[-days:]
        ],
        cost_usd=[
            None if one is None else Estimate(one[0] / 1e9, None, None) for one in costs[-days:]
        ],
    )


def _decay_daily(
    counts: Sequence[float], totals: Sequence[float], window_days: int, half_life: float
) -> list[tuple[float, float] | None]:
    """Return the weighted mean and the effective size of each day; None if nothing is known.

    Each day's sums come from those of the day before: one day older, plus the new day, minus the
    day that left the window. So a year of many skills costs little.
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
        if not known:  # the rest of the sums is rounding
            weight = total = squares = 0.0
        found.append((total / weight, weight * weight / squares) if known else None)
    return found


def _estimate_rate(rate: float, size: float, with_interval: bool) -> Estimate:
    rate = min(max(rate, 0.0), 1.0)  # rounding may go slightly beyond
    if not with_interval:
        return Estimate(rate, None, None)
    interval = wilson(min(rate * size, size), size)
    return Estimate(rate, interval.low, interval.high)
