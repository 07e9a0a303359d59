"""How well each skill did lately on each model: averages in which the newest counts most."""

import math
import time
from collections.abc import Sequence
from datetime import date, timedelta

from msgspec import Struct

from relight.checks import check_count, check_number, refuse
from relight.errors import ParameterError
from relight.stats.rates import check_positive, decay, half_life_from_alpha
from relight.store import Store
from relight.store.derive.skills.uses import KNOWN_NANOS
from relight.times import day_reader, take_time, write_time

ALPHA = 0.3
# weights go by day, so days are added up in SQL and weighed here
RECENT = f"""
    select skill_name, model, provider, day, count(*), count(success), coalesce(sum(success), 0),
        count({KNOWN_NANOS}), coalesce(sum({KNOWN_NANOS}), 0), count(duration_seconds),
        coalesce(sum(duration_seconds), 0), max(invoked_at)
    from skill_invocations
    where day >= ? and day <= ?
    group by day, skill_name, model, provider
"""


class SkillEma(Struct, frozen=True, kw_only=True):
    """How a skill did lately on one model; each use weighs by its age in calendar days.

    `n_eff` is how many equal uses the known outcomes are worth, `coverage` the weighted share of
    outcomes that are known. A mean of nothing known is None; a cost known in part is not known.
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


class SkillAverages(Struct, frozen=True):
    """The moving averages of all skills, with the window and half-life they were computed with."""

    window_days: int
    half_life_days: float
    rows: list[SkillEma]


class _Day(Struct, frozen=True):
    """A skill's uses on one model and provider on one day, as `RECENT` counts them."""

    age: int
    provider: str | None
    uses: int
    known: int
    successes: int
    priced: int
    nanos: int
    timed: int
    seconds: float
    last_at: int


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
    since, today = find_window(store, window_days=window_days, now=now)
    groups: dict[tuple[str, str | None], list[_Day]] = {}
    for skill, model, provider, day, *figures in store.query(RECENT, (since, today.isoformat())):
        age = (today - date.fromisoformat(day)).days
        groups.setdefault((skill, model), []).append(_Day(age, provider, *figures))
    found = [
        (max(day.last_at for day in days), _average(skill, model, days, half_life))
        for (skill, model), days in groups.items()
    ]
    found.sort(key=lambda one: (-one[0], one[1].skill_name, one[1].model or ""))
    return [row for _, row in found]


def find_window(store: Store, *, window_days: int, now: object = None) -> tuple[str, date]:
    """The first and the last of so many days up to `now`, in the store's time zone."""
    check_count("window_days", window_days, least=1)
    at = int(time.time() * 1000) if now is None else take_time("now", now)
    today = date.fromisoformat(day_reader(store.timezone)(at) or "1970-01-01")
    try:
        return (today - timedelta(days=window_days - 1)).isoformat(), today
    except OverflowError:
        return "", today


def read_half_life(alpha: float | None, half_life_days: float | None) -> float:
    """The half-life in days that either parameter means, or both left out."""
    if alpha is not None and half_life_days is not None:
        raise ParameterError(
            "alpha and half_life_days say the same thing twice",
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


def _average(skill: str, model: str | None, days: Sequence[_Day], half_life: float) -> SkillEma:
    """The averages of one skill and model from its days."""
    uses, known, successes, priced = (
        sum(getattr(day, name) for day in days) for name in ("uses", "known", "successes", "priced")
    )
    coverage, _ = _decay([(day.age, day.uses, day.known) for day in days], half_life)
    rate, n_eff = _decay([(day.age, day.known, day.successes) for day in days], half_life)
    cost, _ = _decay([(day.age, day.priced, day.nanos) for day in days], half_life)
    duration, _ = _decay([(day.age, day.timed, day.seconds) for day in days], half_life)
    last_at, provider = max((day.last_at, day.provider or "") for day in days)
    return SkillEma(
        skill_name=skill,
        model=model,
        provider=provider or None,
        sample_count=uses,
        success_count=successes,
        failure_count=known - successes,
        unknown_count=uses - known,
        unpriced_count=uses - priced,
        n_eff=n_eff,
        coverage=coverage or 0.0,
        ema_success_rate=rate,
        ema_cost_per_call=None if cost is None else cost / 1e9,
        ema_duration_s=duration,
        days_with_data=len({day.age for day in days}),
        last_invoked_at=write_time(last_at),
    )


def _decay(days: Sequence[tuple[int, int, float]], half_life: float) -> tuple[float | None, float]:
    """Mean and effective size of (age, count, sum) by day; None where nothing is counted."""
    known = [(age, count, total) for age, count, total in days if count]
    if not known:
        return None, 0.0
    # relative to the newest, so that they cannot all vanish
    newest = min(age for age, _, _ in known)
    pairs = [(decay(age - newest, half_life), count, total) for age, count, total in known]
    weight = math.fsum(w * count for w, count, _ in pairs)
    squares = math.fsum(w * w * count for w, count, _ in pairs)
    return math.fsum(w * total for w, _, total in pairs) / weight, weight * weight / squares
