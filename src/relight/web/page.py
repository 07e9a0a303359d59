"""Pages: the request for a page, its module's `show` and its template."""

import re
from collections.abc import Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from importlib import import_module

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from relight.errors import RelightError
from relight.sources import list_sources
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.text import show_in
from relight.web.filters import NAMES, Filters, choose, read_filters
from relight.web.pages import Page
from relight.web.site import Site

# the position in a list, and the message after an action
TRANSIENT = ("after", "done")

# the names that a page's template sees
Context = dict[str, object]


class View(Struct, frozen=True, kw_only=True):
    """A request for a page: the store to read and the parsed address.

    `problems` are errors in the filters; the page shows them and ignores those filters.
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
        """The path of this page, without its filters."""
        return re.sub(r"{(\w+)(:\w+)?}", lambda name: self.path[name[1]], self.page.path)

    def here(self, /, **changes: object) -> str:
        """Return this page's address with changed parameters; None removes one."""
        return self.filters.link(self.address, **(self.own_query | changes))

    @property
    def own_query(self) -> dict[str, str]:
        """The page's own parameters that stay when filters change."""
        return {name: value for name, value in self.query.items() if name not in TRANSIENT}

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(list_sources())


def find_view_number(view: View, name: str) -> int | None:
    """Return a parameter that counts from 1; None if it is absent or not such a number."""
    text = view.query.get(name, "")
    return int(text) or None if text.isdecimal() and len(text) < 9 else None


def page_route(site: Site, page: Page) -> Route:
    async def respond(request: Request) -> Response:
        # read before the store: a page may be newer than its version, but never older
        version = site.watcher.version()

        async def build() -> Response:
            # a currency is for this page alone, not for what the thread reads next
            context = copy_context()
            return await site.readers.read(
                lambda store: context.run(render_page, site, page, store, request, version)
            )

        return await site.cache.respond(request, version, build)

    return Route(page.path, respond, name=page.name)


def render_page(site: Site, page: Page, store: Store, request: Request, version: str) -> Response:
    """Return the page; invalid filters are reported on it and ignored."""
    display = store.config.display
    if display.rate is not None:
        show_in(display.currency, display.rate)
    query = dict(request.query_params)
    now = datetime.now(UTC)
    problems: tuple[str, ...] = ()
    try:
        filters = read_filters(query)
        chosen = choose(store, filters, now=now)
    except RelightError as error:
        problems = (f"{error.message}: {error.hint}" if error.hint else error.message,)
        filters = Filters()
        chosen = choose(store, filters, now=now)
    view = View(
        page=page,
        store=store,
        filters=filters,
        chosen=chosen,
        path=request.path_params,
        query={name: value for name, value in query.items() if name not in NAMES},
        now=now,
        problems=problems,
    )
    found = import_module(f"relight.web.pages.{page.name}").show(view)
    if isinstance(found, Response):
        return found
    return HTMLResponse(
        site.render(
            f"{page.name}.html", version=version, filters=filters, page=page, view=view, **found
        )
    )
