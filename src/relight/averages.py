"""How well each skill did lately on each model: averages in which the newest counts most."""

import math
import time
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from msgspec import Struct

from relight.distributions import check_positive
from relight.errors import RelightError
from relight.stats import half_life_from_alpha
from relight.store import Store
from relight.times import day_reader, take_time, write_time

ALPHA = 0.3
# weights go by day, so days are added up in SQL and weighed here
RECENT = """
    select skill_name, model, provider, day, count(*), count(success), coalesce(sum(success), 0),
        count(cost_nanos), coalesce(sum(cost_nanos), 0), count(duration_seconds),
        coalesce(sum(duration_seconds), 0), max(invoked_at)
    from skill_invocations
    where day >= ? and day <= ?
    group by day, skill_name, model, provider
"""


class SkillEma(Struct, frozen=True, kw_only=True):
    """How a skill did lately on one model; each use weighs by its age in calendar days.

    `n_eff` is how many equal uses the known outcomes are worth, `coverage` the weighted share of
    outcomes that are known. A mean of nothing known is None.
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
    ema_cost_per_call: float | None
    ema_duration_s: float | None
    days_with_data: int
    last_invoked_at: str | None


def query_skill_ema(
    store: Store,
    *,
    window_days: int = 14,
    alpha: float | None = None,
    half_life_days: float | None = None,
    now: object = None,
) -> list[SkillEma]:
    """How each skill did on each model in the last days, the newest first.

    `alpha` is the weight of the newest day: 0.3, if neither is given, halves a use's weight in 1.94
    days. Ages are whole calendar days of the store's time zone, so that one day of data is that
    day's plain mean, and a gap ages what came before it.
    """
    half_life = read_half_life(alpha, half_life_days)
    _check_window(window_days)
    at = int(time.time() * 1000) if now is None else take_time("now", now)
    today = date.fromisoformat(day_reader(store.timezone)(at) or "1970-01-01")
    try:
        since = (today - timedelta(days=window_days - 1)).isoformat()
    except OverflowError:
        since = ""
    groups: dict[tuple[str, str | None], list[tuple[int, tuple[Any, ...]]]] = {}
    for row in store.query(RECENT, (since, today.isoformat())):
        age = (today - date.fromisoformat(row[3])).days
        groups.setdefault((row[0], row[1]), []).append((age, row))
    found = [
        (max(row[11] for _, row in rows), _average(skill, model, rows, half_life))
        for (skill, model), rows in groups.items()
    ]
    found.sort(key=lambda one: (-one[0], one[1].skill_name, one[1].model or ""))
    return [row for _, row in found]


def read_half_life(alpha: float | None, half_life_days: float | None) -> float:
    """The half-life in days that either parameter means, or both left out."""
    if alpha is not None and half_life_days is not None:
        raise RelightError(
            "alpha and half_life_days say the same thing twice", "give one of them, not both"
        )
    if half_life_days is None:
        return half_life_from_alpha(_as_number("alpha", ALPHA if alpha is None else alpha))
    check_positive(half_life_days=_as_number("half_life_days", half_life_days))
    return half_life_days


def _average(
    skill: str,
    model: str | None,
    rows: Sequence[tuple[int, tuple[Any, ...]]],
    half_life: float,
) -> SkillEma:
    """The averages of one skill and model from its days."""
    samples, known, successes = (sum(row[place] for _, row in rows) for place in (4, 5, 6))
    coverage, _ = _decay([(age, row[4], row[5]) for age, row in rows], half_life)
    rate, n_eff = _decay([(age, row[5], row[6]) for age, row in rows], half_life)
    cost, _ = _decay([(age, row[7], row[8]) for age, row in rows], half_life)
    duration, _ = _decay([(age, row[9], row[10]) for age, row in rows], half_life)
    last, provider = max((row[11], row[2] or "") for _, row in rows)
    return SkillEma(
        skill_name=skill,
        model=model,
        provider=provider or None,
        sample_count=samples,
        success_count=successes,
        failure_count=known - successes,
        unknown_count=samples - known,
        unpriced_count=samples - sum(row[7] for _, row in rows),
        n_eff=n_eff,
        coverage=coverage or 0.0,
        ema_success_rate=rate,
        ema_cost_per_call=None if cost is None else cost / 1e9,
        ema_duration_s=duration,
        days_with_data=len({age for age, _ in rows}),
        last_invoked_at=write_time(last),
    )


def _decay(days: Sequence[tuple[int, int, float]], half_life: float) -> tuple[float | None, float]:
    """Mean and effective size of (age, count, sum) by day; None where nothing is counted."""
    known = [(age, count, total) for age, count, total in days if count]
    if not known:
        return None, 0.0
    # relative to the newest, so that they cannot all vanish
    newest = min(age for age, _, _ in known)
    pairs = [(math.exp2((newest - age) / half_life), count, total) for age, count, total in known]
    weight = math.fsum(w * count for w, count, _ in pairs)
    squares = math.fsum(w * w * count for w, count, _ in pairs)
    return math.fsum(w * total for w, _, total in pairs) / weight, weight * weight / squares


def _check_window(days: object) -> None:
    if isinstance(days, bool) or not isinstance(days, int) or days < 1:
        raise RelightError(f"window_days must be a whole number from 1 up, not {days!r}")


def _as_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RelightError(f"{name} must be a number, not {value!r}")
    return value
