"""The filters in the address of every page and list."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from msgspec import Struct
from msgspec.structs import asdict

from relight.errors import RelightError
from relight.reports.filters import DEFAULT_SINCE, read_filter
from relight.store import Store
from relight.store.queries.filters import Filter

LONGEST = 200
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# words for the first day that pages offer, beside the spans in days
DAY_CHOICES = ("today", "yesterday", "monday", "2w", "month", "year")


# the filters that narrow a page, besides its days
NARROWING = ("source", "model", "project", "machine", "person")
# and those that narrow lists of sessions alone
WITHIN = (
    *("outcome", "label", "category", "failure", "tool", "skill", "job"),
    *("template", "version", "arm", "experiment"),
)


class Filters(Struct, frozen=True, kw_only=True):
    """The filters as written in the address; an empty text is a filter that is not set.

    >>> Filters(model="opus").link("/sessions", source="codex")
    '/sessions?source=codex&model=opus'
    """

    since: str = DEFAULT_SINCE
    until: str = ""
    source: str = ""
    model: str = ""
    project: str = ""
    machine: str = ""
    person: str = ""
    search: str = ""

    def link(self, path: str, /, **changes: object) -> str:
        """Return an address with these filters and the changes; None removes a parameter."""
        values = asdict(self) | changes
        kept = [
            f"{_quote(name)}={_quote(str(value))}"
            for name, value in values.items()
            if value not in (None, "") and (name, value) != ("since", DEFAULT_SINCE)
        ]
        address = _quote_path(path)
        return f"{address}?{'&'.join(kept)}" if kept else address

    def is_date(self, name: str) -> bool:
        """True if a day is given as a date, not as a word such as `2w`."""
        return DATE.fullmatch(getattr(self, name)) is not None


NAMES = Filters.__struct_fields__
DOTS = re.compile(r"/(?=\.\.?(?:/|$))")


# a page has a thousand links, whose names and values are mostly the same


@lru_cache(maxsize=4096)
def _quote(text: str) -> str:
    return quote_plus(text)


@lru_cache(maxsize=4096)
def _quote_path(path: str) -> str:
    """Return a path as an address; a browser would take dots between slashes for folders.

    >>> _quote_path("/templates/a b"), _quote_path("/templates/../a")
    ('/templates/a%20b', '/templates%2F../a')
    """
    return DOTS.sub("%2F", quote(path, safe="/:@"))


def read_filters(query: Mapping[str, str]) -> Filters:
    """Return the filters of an address; raise if one is too long."""
    found = {name: query[name].strip() for name in NAMES if query.get(name, "").strip()}
    for name, value in found.items():
        if len(value) > LONGEST:
            raise RelightError(
                f"{name} is longer than {LONGEST} characters", "search for a part of it"
            )
    return Filters(**found)


def choose(store: Store, filters: Filters, *, now: datetime | None = None) -> Filter:
    """Return the filters as reports take them, with days for words such as `7d`.

    A page explains a filter that nothing passes, so the last day may be before the first.
    """
    given: dict[str, Any] = {name: getattr(filters, name) or None for name in ("until", *NARROWING)}
    return read_filter(store, since=filters.since, now=now, may_be_empty=True, **given)
