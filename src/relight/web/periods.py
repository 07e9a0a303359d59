"""The period of a page: its days, the steps that show them, and the period before."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from relight.reports.series import HOUR_MS, SeriesKey, SeriesPoint, TimeStep, read_series
from relight.store import Store
from relight.store.queries.costs import CostSums, sum_cost
from relight.store.queries.filters import Filter, find_day_start, find_first_day
from relight.store.queries.sessions import find_first_days
from relight.times import write_time
from relight.web.page import View
from relight.web.rendering import day as format_day

FIRST = date(1970, 1, 1)  # earlier than any record
MOST_DAYS = 92
# steps of a chart: with more, its page would be larger than 100 KB; a year touches 54 weeks
DAY_STEPS, WEEK_STEPS = 45, 54


class PeriodStep(Struct, frozen=True):
    """A step of a chart: its name in reports, its first and last day, its label."""

    name: str
    first: str
    last: str
    label: str


def today_of(view: View) -> date:
    """Return today in the store's time zone."""
    return view.now.astimezone(ZoneInfo(view.store.timezone)).date()


def last_of(view: View) -> date:
    """Return the last chosen day that is not in the future."""
    return _find_last(view.chosen, today_of(view))


def _find_last(chosen: Filter, today: date) -> date:
    return min(max(date.fromisoformat(chosen.until), FIRST), today) if chosen.until else today


def find_days(view: View) -> int:
    """Return the number of chosen days up to the last, at most `MOST_DAYS`."""
    if view.chosen.since is None:
        return MOST_DAYS
    first = date.fromisoformat(view.chosen.since)
    return min(max((last_of(view) - first).days + 1, 1), MOST_DAYS)


def find_bounds(store: Store, chosen: Filter, today: date) -> tuple[date, date]:
    """Return the first and last day; without a chosen first day, the first recorded one."""
    last = _find_last(chosen, today)
    found = chosen.since or find_first_day(store, chosen)
    return date.fromisoformat(found) if found else last, last


def walk_days(view: View) -> tuple[str, list[PeriodStep]]:
    """Return the step's kind, and all steps: days, weeks or months."""
    first, last = find_bounds(view.store, view.chosen, today_of(view))
    step = choose_step(first, last)
    return step, list(walk(first, last, step))


def walk_steps(view: View) -> tuple[TimeStep, list[PeriodStep]]:
    """Return the step's kind, and all steps: hours if only one day is chosen."""
    first, last = find_bounds(view.store, view.chosen, today_of(view))
    step = choose_time_step(first, last)
    if step == "hour":
        return step, list(walk_hours(first, view.store.timezone))
    return step, list(walk(first, last, step))


def walk_hours(day: date, timezone: str) -> Iterator[PeriodStep]:
    """Yield the hours of a day; it has 23 or 25 when clocks change.

    >>> [one.label for one in walk_hours(date(2026, 10, 25), "Europe/Berlin")][1:4]
    ['01:00', '02:00', '02:00']
    """
    zone = ZoneInfo(timezone)
    name = day.isoformat()
    at, end = (find_day_start(name, timezone, later_days=days) for days in (0, 1))
    while at < end:
        local = datetime.fromtimestamp(at / 1000, zone)
        yield PeriodStep(write_time(at) or "", name, name, f"{local:%H:%M}")
        at += HOUR_MS


class TimeSeries(Struct, frozen=True):
    """The figures of a chart over time: its step, its other key, and its points."""

    step: TimeStep
    by: SeriesKey
    points: list[SeriesPoint]


def read_time_series(
    store: Store, by: SeriesKey, chosen: Filter, today: date, *, has_outcomes: bool = True
) -> TimeSeries:
    """Return the figures of the chosen days, in steps that stay readable."""
    first, last = find_bounds(store, chosen, today)
    step = choose_time_step(first, last)
    if step == "hour":  # hours are counted from the first day on
        chosen = replace(chosen, since=first.isoformat())
    points = read_series(store, step, by, chosen, has_outcomes=has_outcomes)
    return TimeSeries(step, by, points)


def find_step(days: Sequence[PeriodStep], day: str) -> int | None:
    """Return the index of the step that contains a day; None if none does.

    >>> days = [PeriodStep("2026-11-14", "2026-11-14", "2026-11-14", "14 Nov")]
    >>> find_step(days, "2026-11-14"), find_step(days, "unknown")
    (0, None)
    """
    if day > days[-1].last:
        return None
    return max(bisect(days, day, key=lambda one: one.first) - 1, 0)


def choose_time_step(first: date, last: date) -> TimeStep:
    """Return the step of a chart: hour for one day, else as `choose_step`."""
    return "hour" if first == last else choose_step(first, last)


def choose_step(first: date, last: date) -> Literal["day", "week", "month"]:
    """Return the smallest step of days that stays readable.

    >>> choose_step(date(2026, 1, 1), date(2026, 12, 31))
    'week'
    """
    if (last - first).days < DAY_STEPS:
        return "day"
    first_week, last_week = (day - timedelta(days=day.weekday()) for day in (first, last))
    return "week" if (last_week - first_week).days < WEEK_STEPS * 7 else "month"


def walk(first: date, last: date, step: str) -> Iterator[PeriodStep]:
    """Yield every step between two days.

    >>> list(walk(date(2026, 11, 14), date(2026, 11, 14), "week"))
    [PeriodStep(name='2026-W46', first='2026-11-09', last='2026-11-15', label='9 Nov')]
    """
    at = first
    if step == "week":
        at -= timedelta(days=at.weekday())
    elif step == "month":
        at = at.replace(day=1)
    while at <= last:
        if step == "day":
            end, name = at, at.isoformat()
        elif step == "week":
            year, week, _ = at.isocalendar()
            end, name = at + timedelta(days=6), f"{year}-W{week:02}"
        else:
            end = (at + timedelta(days=31)).replace(day=1) - timedelta(days=1)
            name = f"{at:%Y-%m}"
        day = at.isoformat()
        yield PeriodStep(name, day, end.isoformat(), name if step == "month" else format_day(day))
        at = end + timedelta(days=1)


def read_calendar(store: Store, chosen: Filter, today: date) -> dict[str, CostSums]:
    """Return the cost of today and of this month, whatever days are chosen.

    They end today: what has no known day sorts after every day.
    """
    last = today.isoformat()
    return {
        name: sum_cost(store, replace(chosen, since=first.isoformat(), until=last))
        for name, first in (("today", today), ("month", today.replace(day=1)))
    }


def count_days(chosen: Filter) -> int:
    """Return the number of days of a filter that has a first and a last day."""
    first, last = (date.fromisoformat(day or "") for day in (chosen.since, chosen.until))
    return (last - first).days + 1


def find_before(store: Store, chosen: Filter, today: date) -> Filter | None:
    """Return the equally long period before the chosen one; None if it is not wholly recorded.

    Agents delete old files: the record of each agent in both periods must reach back so far. A
    morning costs less than the whole day before it: today alone is compared with nothing.
    """
    if chosen.since is None:
        return None
    first = date.fromisoformat(chosen.since)
    if first >= today:
        return None
    last = date.fromisoformat(chosen.until) if chosen.until else today
    days = max((last - first).days + 1, 1)
    try:
        since = first - timedelta(days=days)
    except OverflowError:
        return None
    began = find_first_days(store, replace(chosen, since=since.isoformat())).values()
    if not began or max(began) > since.isoformat():
        return None
    until = first - timedelta(days=1)
    return replace(chosen, since=since.isoformat(), until=until.isoformat())
