"""Filters as people type them: `7d`, a date, parts of names or whole names in quotes."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

from relight.aliases import find_model_name
from relight.errors import MissingError, RelightError
from relight.store import Store
from relight.store.queries.filters import Filter, is_whole

DEFAULT_SINCE = "30d"


def read_filter(
    store: Store,
    *,
    since: str = DEFAULT_SINCE,
    until: str | None = None,
    source: str | None = None,
    model: str | None = None,
    project: str | None = None,
    job: str | None = None,
    now: datetime | None = None,
) -> Filter:
    """Return the filter that a person typed: `7d`, `all` or a date, parts of names, a job."""
    from zoneinfo import ZoneInfo

    if source is not None:
        _check_source(source)
    today = (now or datetime.now(UTC)).astimezone(ZoneInfo(store.timezone)).date()
    return Filter(
        since=read_day(since, today=today),
        until=read_day(until, today=today) if until else None,
        source=source,
        model=model,
        project=project,
        jobs=find_jobs(store, job) if job else (),
    )


def find_jobs(store: Store, name: str) -> tuple[str, ...]:
    """Return the full names of the jobs with this name or id; raise if there are none."""
    from relight.store.queries.runs import find_job_names

    names = find_job_names(store, name)
    if not names:
        raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")
    return tuple(names)


def _check_source(name: str) -> None:
    """Raise if there is no source of this name."""
    from relight.sources import is_source, list_sources

    if not is_source(name):
        names = ", ".join(list_sources())
        raise RelightError(f"there is no source {name!r}", f"there are {names}")


def read_day(text: str, *, today: date) -> str | None:
    """Return a day from `2026-05-01` or `7d` (seven days up to today); None for `all`.

    >>> read_day("7d", today=date(2026, 11, 15))
    '2026-11-09'
    """
    if text == "all":
        return None
    try:
        if days := re.fullmatch(r"(\d{1,6})d", text):
            return (today - timedelta(days=max(int(days[1]) - 1, 0))).isoformat()
        return date.fromisoformat(text).isoformat()
    except (ValueError, OverflowError):
        raise RelightError(
            f"{text!r} is not a day", "write 2026-05-01, or 7d for the last seven days, or all"
        ) from None


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
