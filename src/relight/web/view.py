"""What a page is given."""

import re
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from relight.reports.filters import Filter
from relight.sources import SOURCES
from relight.store import Store
from relight.web.filters import Filters
from relight.web.pages import Page

# where one is in a list, and what was just done
PASSING = ("after", "done")


class View(Struct, frozen=True, kw_only=True):
    """One look at one page: the store to read from, and what the address asks for.

    `problems` are filters that could not be understood; they are told and left out.
    """

    page: Page
    store: Store
    filters: Filters
    chosen: Filter
    path: Mapping[str, str]
    query: Mapping[str, str]
    now: datetime
    problems: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Where this page is, without its filters."""
        return re.sub(r"{(\w+)(:\w+)?}", lambda name: self.path[name[1]], self.page.path)

    def here(self, /, **changes: object) -> str:
        """This page, from its beginning, as it is but for the changes; None takes one out."""
        return self.filters.link(self.address, **(self.kept | changes))

    @property
    def kept(self) -> dict[str, str]:
        """The parameters of its own that stay when filters change."""
        return {name: value for name, value in self.query.items() if name not in PASSING}

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(SOURCES)


def read_number(view: View, name: str) -> int | None:
    """A parameter that counts from 1; None where it is not there or no such number."""
    text = view.query.get(name, "")
    return int(text) or None if text.isdecimal() and len(text) < 9 else None
