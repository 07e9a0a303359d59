"""Pages: from an address to what its module finds and its template shows."""

from datetime import UTC, datetime
from importlib import import_module

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from relight.errors import RelightError
from relight.store import Store
from relight.web.filters import NAMES, Filters, choose, read_filters
from relight.web.pages import Page
from relight.web.site import Site
from relight.web.view import View


def page_route(site: Site, page: Page) -> Route:
    async def answer(request: Request) -> Response:
        # before the store is read: a page may be newer than it says, but never older
        version = site.watcher.version()

        async def make() -> Response:
            return await site.readers.read(lambda store: show(site, page, store, request, version))

        return await site.kept.answer(request, version, make, is_page=True)

    return Route(page.path, answer, name=page.name)


def show(site: Site, page: Page, store: Store, request: Request, version: str) -> Response:
    """A page as its module and template make it; filters that are none are told and left out."""
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
