"""Pages: the request for a page, its module's `show` and its template."""

import re
from collections.abc import Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from relight.errors import RelightError
from relight.sources import list_sources
from relight.store import Store
from relight.store.queries.completions import list_lately_used
from relight.store.queries.filters import Filter
from relight.store.write.pushed import read_backlog
from relight.text import show_in
from relight.web.charts.chart import SeriesLink
from relight.web.filters import NAMES, Filters, choose, read_filters
from relight.web.forms import FailedForm, read_form, submit
from relight.web.pages import Page
from relight.web.request import check_sees_all, choose_status
from relight.web.site import Site

# the position in a list, and the message after an action
TRANSIENT = ("after", "done")

# the names that a page's template sees
Context = dict[str, object]


class View(Struct, frozen=True, kw_only=True):
    """A request for a page: the store to read and the parsed address.

    `problems` are errors in the filters; the page shows them and ignores those filters. `failed`
    is a form of the page that was refused.
    """

    page: Page
    store: Store
    filters: Filters
    chosen: Filter
    path: Mapping[str, str]
    query: Mapping[str, str]
    now: datetime
    problems: tuple[str, ...] = ()
    failed: FailedForm | None = None

    @property
    def address(self) -> str:
        """The path of this page, without its filters."""
        return re.sub(r"{(\w+)(:\w+)?}", lambda name: self.path[name[1]], self.page.path)

    def here(self, /, **changes: object) -> str:
        """Return this page's address with changed parameters; None removes one."""
        return self.filters.link(self.address, **(self.own_query | changes))

    def toggle(self, name: str, value: str | None) -> SeriesLink:
        """Return the link that filters this page by a value, and if it already does, no more."""
        is_on = value is not None and value == (
            getattr(self.filters, name) if name in NAMES else self.query.get(name)
        )
        return SeriesLink(self.here(**{name: None if is_on else value}), is_on)

    @property
    def own_query(self) -> dict[str, str]:
        """The page's own parameters that stay when filters change."""
        return {name: value for name, value in self.query.items() if name not in TRANSIENT}

    def find_failed(self, action: str) -> FailedForm | None:
        """Return the form with this action if it was refused, to be shown where it stands."""
        failed = self.failed
        return failed if failed and failed.action == action and not failed.is_on_top else None

    def typed(self, action: str, name: str) -> str:
        """Return what was typed into a field of a form that was refused."""
        failed = self.find_failed(action)
        return failed.fields.get(name, "") if failed else ""

    def suggest(self, kind: str) -> list[str]:
        """Return names of projects, models, skills or jobs to filter by."""
        return list_lately_used(self.store, kind)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(list_sources())

    @property
    def has_team(self) -> bool:
        """True if other machines have pushed here: pages can be narrowed to one."""
        return self.store.has_rows("machine")

    @property
    def behind(self) -> int:
        """The number of parts that machines pushed and that are not in the figures yet."""
        return read_backlog(self.store).parts


def find_view_number(view: View, name: str) -> int | None:
    """Return a parameter that counts from 1; None if it is absent or not such a number."""
    text = view.query.get(name, "")
    return int(text) or None if text.isdecimal() and len(text) < 9 else None


def read_page_query(request: Request) -> dict[str, str]:
    """Return the parameters of an address; of several values of one, the last that is not empty.

    So a form has a word for the first day, which stays unless a date is picked.
    """
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if value.strip() or name not in query:
            query[name] = value
    return query


def page_route(site: Site, page: Page) -> Route:
    async def respond(request: Request) -> Response:
        if request.method == "POST":
            return await respond_to_form(site, page, request)
        if page.is_of_server:
            check_sees_all(request)
        # read before the store: a page may be newer than its version, but never older
        version = site.watcher.version()

        async def build() -> Response:
            # a currency is for this page alone, not for what the thread reads next
            context = copy_context()
            return await site.read(
                request,
                lambda store: context.run(render_page, site, page, store, request, version),
            )

        return await site.cache.respond(request, version, build)

    return Route(page.path, respond, name=page.name, methods=["GET", "POST"])


async def respond_to_form(site: Site, page: Page, request: Request) -> Response:
    """Return the redirect after a form's action; if that fails, the page with the reason."""
    fields = await read_form(request)
    try:
        return RedirectResponse(await submit(site, request, fields), status_code=303)
    except RelightError as error:
        status, message, hint = choose_status(error, is_program=False)
    failed = FailedForm(action=fields.get("act", ""), fields=fields, message=message, hint=hint)
    version = site.watcher.version()

    def show(store: Store) -> Response:
        response = render_page(site, page, store, request, version, failed=failed)
        if b'data-failed="' not in response.body:
            on_top = replace(failed, is_on_top=True)
            response = render_page(site, page, store, request, version, failed=on_top)
        response.status_code = status
        return response

    return await site.read(request, show)


def render_page(
    site: Site,
    page: Page,
    store: Store,
    request: Request,
    version: str,
    *,
    failed: FailedForm | None = None,
) -> Response:
    """Return the page; invalid filters are reported on it and ignored."""
    display = store.config.display
    if display.rate is not None:
        show_in(display.currency, display.rate)
    query = read_page_query(request)
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
        failed=failed,
    )
    found = import_module(f"relight.web.pages.{page.name}").show(view)
    if isinstance(found, Response):
        return found
    return HTMLResponse(
        site.render(
            f"{page.name}.html", version=version, filters=filters, page=page, view=view, **found
        )
    )
