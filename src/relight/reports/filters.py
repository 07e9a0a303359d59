"""Which part of the record is asked about: days, sources, models and projects."""

import re
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct

from relight.errors import RelightError
from relight.sources import is_source, list_sources
from relight.store import Store

DEFAULT_SINCE = "30d"


class Filter(Struct, frozen=True, kw_only=True):
    """Which part of the record a report is about; days are in the store's time zone."""

    since: str | None = None
    until: str | None = None
    source: str | None = None
    model: str | None = None
    project: str | None = None


def read_filter(
    store: Store,
    *,
    since: str = DEFAULT_SINCE,
    until: str | None = None,
    source: str | None = None,
    model: str | None = None,
    project: str | None = None,
    now: datetime | None = None,
) -> Filter:
    """A filter from what people type: `7d`, `all` or a date, and parts of names.

    A name in quotes is meant whole, and `""` are those without one.
    """
    from zoneinfo import ZoneInfo

    if source is not None and not is_source(source):
        names = ", ".join(list_sources())
        raise RelightError(f"there is no source {source!r}", f"there are {names}")
    today = (now or datetime.now(UTC)).astimezone(ZoneInfo(store.timezone)).date()
    return Filter(
        since=read_day(since, today=today),
        until=read_day(until, today=today) if until else None,
        source=source,
        model=model,
        project=project,
    )


def read_day(text: str, *, today: date) -> str | None:
    """A day from `2026-05-01`, or `7d`: the last seven days with today; None for `all`.

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


def where(chosen: Filter) -> tuple[str, list[str]]:
    """The test and its values for what a filter takes, over columns of these names."""
    tests, values = [], []
    for test, value in (
        ("day >= ?", chosen.since),
        ("day <= ?", chosen.until),
        ("source = ?", chosen.source),
        _test_name("model", chosen.model),
        _test_name("project", chosen.project),
    ):
        if value is not None:
            tests.append(test)
            values.append(value)
    return f"where {' and '.join(tests)}" if tests else "", values


def _test_name(column: str, wanted: str | None) -> tuple[str, str | None]:
    if wanted is None or not is_whole(wanted):
        return f"{column} like ? escape '\\'", None if wanted is None else escape_like(wanted)
    name = wanted[1:-1]
    return f"{column} = ?" if name else f"coalesce({column}, '') = ?", name


def is_whole(wanted: str) -> bool:
    """Whether a filter names the whole of a name, and not a part of it."""
    return len(wanted) > 1 and wanted[0] == wanted[-1] == '"'


def quote_name(name: str | None) -> str:
    """The filter that takes what has this name, or no name, and nothing else."""
    return f'"{name or ""}"'


def is_named(name: str | None, wanted: str) -> bool:
    """Whether a filter takes a name, as `where` would.

    >>> [is_named("gpt-5.2-codex", one) for one in ("", "Codex", '"gpt-5.2"', '"gpt-5.2-codex"')]
    [True, True, False, True]
    """
    if is_whole(wanted):
        return (name or "") == wanted[1:-1]
    return wanted.lower() in (name or "").lower()


def escape_like(text: str) -> str:
    """A pattern of `like … escape '\\'` for whatever has this text in it."""
    escaped = re.sub(r"([%_\\])", r"\\\1", text)
    return f"%{escaped}%"
