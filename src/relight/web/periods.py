"""The period of a page: its days, the steps that show them, and the period before."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.queries.totals import find_first_day
from relight.web.page import View
from relight.web.rendering import day as format_day

FIRST = date(1970, 1, 1)  # earlier than any record
MOST_DAYS = 92
MOST_WEEKS = 110


def today_of(view: View) -> date:
    """Return today in the store's time zone."""
    return view.now.astimezone(ZoneInfo(view.store.timezone)).date()


def last_of(view: View) -> date:
    """Return the last chosen day that is not in the future."""
    until, today = view.chosen.until, today_of(view)
    return min(max(date.fromisoformat(until), FIRST), today) if until else today


def find_days(view: View) -> int:
    """Return the number of chosen days up to the last, at most `MOST_DAYS`."""
    if view.chosen.since is None:
        return MOST_DAYS
    first = date.fromisoformat(view.chosen.since)
    return min(max((last_of(view) - first).days + 1, 1), MOST_DAYS)


def walk_days(view: View) -> tuple[str, list[tuple[str, str, str, str]]]:
    """Return the step's kind, and for each step its name, first and last day and label.

    Without a chosen first day, the first recorded day is used.
    """
    chosen, last = view.chosen, last_of(view)
    if chosen.since is None:
        found = find_first_day(view.store, chosen)
        first = date.fromisoformat(found) if found else last
    else:
        first = date.fromisoformat(chosen.since)
    step = choose_step(first, last)
    days = []
    for name, begin, end in walk(first, last, step):
        label = name if step == "month" else format_day(begin)
        days.append((name, begin, end, label))
    return step, days


def find_step(days: Sequence[tuple[str, str, str, str]], day: str) -> int | None:
    """Return the index of the step that contains a day; None if none does.

    >>> days = [("2026-11-14", "2026-11-14", "2026-11-14", "14 Nov")]
    >>> find_step(days, "2026-11-14"), find_step(days, "unknown")
    (0, None)
    """
    if day > days[-1][2]:
        return None
    return max(bisect(days, day, key=lambda one: one[1]) - 1, 0)


def choose_step(first: date, last: date) -> str:
    """Return the smallest step that stays readable: day, week or month.

    >>> choose_step(date(2026, 1, 1), date(2026, 12, 31))
    'week'
    """
    days = (last - first).days + 1
    if days <= MOST_DAYS:
        return "day"
    return "week" if days <= MOST_WEEKS * 7 else "month"


def walk(first: date, last: date, step: str) -> Iterator[tuple[str, str, str]]:
    """Yield every step between two days: its name in reports, its first and last day.

    >>> list(walk(date(2026, 11, 14), date(2026, 11, 16), "week"))
    [('2026-W46', '2026-11-09', '2026-11-15'), ('2026-W47', '2026-11-16', '2026-11-22')]
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
        yield name, at.isoformat(), end.isoformat()
        at = end + timedelta(days=1)


def count_days(chosen: Filter) -> int:
    """Return the number of days of a filter that has a first and a last day."""
    first, last = (date.fromisoformat(day or "") for day in (chosen.since, chosen.until))
    return (last - first).days + 1


def find_before(store: Store, chosen: Filter, today: date) -> Filter | None:
    """Return the equally long period before the chosen one; None if it is not wholly recorded."""
    if chosen.since is None:
        return None
    first = date.fromisoformat(chosen.since)
    last = date.fromisoformat(chosen.until) if chosen.until else today
    days = max((last - first).days + 1, 1)
    try:
        since = first - timedelta(days=days)
    except OverflowError:
        return None
    began = find_first_day(store, Filter(source=chosen.source))
    if began is None or began > since.isoformat():
        return None
    until = first - timedelta(days=1)
    return replace(chosen, since=since.isoformat(), until=until.isoformat())
