"""Filters as people type them: `7d`, `monday`, a date, parts of names or whole names in quotes."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

from relight.errors import MissingError, RelightError
from relight.names import find_model_name
from relight.store import Store
from relight.store.queries.filters import Filter, find_day_start, is_whole

DEFAULT_SINCE = "30d"
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY_WORDS = ("today", "yesterday", *WEEKDAYS, "month", "year")
DAY_COUNT = re.compile(r"(\d{1,6})([dw])", re.ASCII)
DAY_FORMS = "2026-05-01, 7d, 2w, today, yesterday, monday … sunday, month, year or all"


def read_filter(
    store: Store,
    *,
    since: str = DEFAULT_SINCE,
    until: str | None = None,
    source: str | None = None,
    model: str | None = None,
    project: str | None = None,
    job: str | None = None,
    machine: str | None = None,
    person: str | None = None,
    now: datetime | None = None,
    may_be_empty: bool = False,
) -> Filter:
    """Return the filter that a person typed: days (see `read_day`), parts of names, a job.

    A last day before the first is refused, unless the filter may be empty.
    """
    if source is not None:
        from relight.sources import is_source, list_sources

        if not is_source(source):
            names = ", ".join(list_sources())
            raise RelightError(f"there is no source {source!r}", f"there are {names}")
    today = (now or datetime.now(UTC)).astimezone(store.zone).date()
    first = read_day(since, today=today)
    last = read_day(until, today=today, is_last=True) if until else None
    if first and last and last < first and not may_be_empty:
        raise RelightError(
            f"the last day, {last}, is before the first, {first}",
            "swap them" if since != DEFAULT_SINCE else f"also give the first day, such as {last}",
        )
    return Filter(
        since=first,
        until=last,
        source=source,
        model=model,
        project=project,
        jobs=find_jobs(store, job) if job else (),
        machine=machine,
        person=person,
    )


def read_day(text: str, *, today: date, is_last: bool = False) -> str | None:
    """Return the day that a person typed, the first of a period or its last; None for `all`.

    `7d` and `2w` are so many days up to today, `monday` is the latest Monday, `month` and `year`
    are the present ones.

    >>> [read_day(one, today=date(2026, 11, 15)) for one in ("7d", "2w", "monday", "month")]
    ['2026-11-09', '2026-11-02', '2026-11-09', '2026-11-01']
    >>> read_day("month", today=date(2026, 11, 15), is_last=True)
    '2026-11-30'
    """
    word = text.strip().lower()
    try:
        if word == "all":
            return None
        if found := DAY_COUNT.fullmatch(word):
            days = int(found[1]) * (7 if found[2] == "w" else 1)
            return (today - timedelta(days=max(days - 1, 0))).isoformat()
        if word in DAY_WORDS:
            return _find_named_day(word, today, is_last=is_last).isoformat()
        return date.fromisoformat(word).isoformat()
    except (ValueError, OverflowError):
        raise RelightError(f"{text!r} is not a day", f"write {DAY_FORMS}") from None


def _find_named_day(word: str, today: date, *, is_last: bool) -> date:
    if word in WEEKDAYS:
        return today - timedelta(days=(today.weekday() - WEEKDAYS.index(word)) % 7)
    if word == "month":
        following = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        return following - timedelta(days=1) if is_last else today.replace(day=1)
    if word == "year":
        return date(today.year, 12, 31) if is_last else date(today.year, 1, 1)
    return today - timedelta(days=1) if word == "yesterday" else today


def read_start(store: Store, since: str) -> int | None:
    """Return when the day that a person typed begins; None if all days are meant."""
    day = read_filter(store, since=since).since
    return None if day is None else find_day_start(day, store.timezone)


def find_jobs(store: Store, name: str) -> tuple[str, ...]:
    """Return the full names of the jobs with this name or id; raise if there are none."""
    from relight.store.queries.runs import find_job_names

    names = find_job_names(store, name)
    if not names:
        from relight.reports.narrowing import find_near

        near = find_near(store, "job", name)
        meant = f"did you mean {near!r}? " if near else ""
        raise MissingError(f"there is no job {name!r}", f"{meant}`relight job list` shows them")
    return tuple(names)


def quote_name(name: str | None) -> str:
    """Return the filter for exactly this name, or for records without one."""
    return f'"{name or ""}"'


def is_model(model: str | None, wanted: str, own: Mapping[str, str] | None = None) -> bool:
    """True if a filter matches one of a model's names; `own` are the user's aliases.

    >>> is_model("claude-opus-4-5-20251101", '"claude-opus-4-5"')
    True
    """
    if is_named(model, wanted) or model is None:
        return is_named(model, wanted)
    short = find_model_name(model, own)
    return is_named(short, wanted) or short == find_model_name(wanted.strip('"'), own)


def is_named(name: str | None, wanted: str) -> bool:
    """True if a filter matches a name, by the same rule as `where`.

    >>> [is_named("gpt-5.2-codex", one) for one in ("", "Codex", '"gpt-5.2"', '"gpt-5.2-codex"')]
    [True, True, False, True]
    """
    if is_whole(wanted):
        return (name or "") == wanted[1:-1]
    return wanted.lower() in (name or "").lower()


def is_in_project(project: str | None, wanted: str) -> bool:
    """True if a filter matches a project, by the same rule as `where`.

    >>> folders = ("/dev/shop", "/dev/shop/src", "/dev/shop-old")
    >>> [is_in_project(one, "/dev/shop") for one in folders]
    [True, True, False]
    """
    if not wanted.startswith("/"):
        return is_named(project, wanted)
    return f"{project or ''}/".lower().startswith(f"{wanted.rstrip('/')}/".lower())
