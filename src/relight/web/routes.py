"""Routes of the API and the sign-in page: parse the request, check it, respond."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from relight.store.members import COOKIE_MARK
from relight.web.actions import ACTIONS, Action
from relight.web.api import QUERIES, Query
from relight.web.filters import Filters
from relight.web.forms import check_action, check_local, check_secret, perform
from relight.web.guard import COOKIE, JSON
from relight.web.pages import Page
from relight.web.parameters import NoParameters
from relight.web.request import RequestError, check_sees_all, read_body, read_query
from relight.web.site import Site
from relight.web.watch import OFF, Liveness

DOCUMENT = Path(__file__).parent / "openapi.json"
LOGIN = Page("login", "/login", "Sign in", is_in_navigation=False)
COOKIE_SECONDS = 30 * 86_400


class LiveStore(Liveness, frozen=True, kw_only=True):
    """The store's version, a text that changes with the store, and whether new turns appear."""

    version: str


class PageSecret(Struct, frozen=True):
    """The secret to send as X-Relight-Secret with every change."""

    secret: str


def api_routes(site: Site) -> list[Route]:
    return [
        *(server_route(site, path, read) for path, read in SERVER_QUERIES.items()),
        *(action_route(site, action) for action in ACTIONS),
        *(query_route(site, query) for query in QUERIES),
    ]


def read_version(site: Site) -> LiveStore:
    """The version of the store, and the state of the watch.

    Cheap however many clients poll it: visible pages do so every 0.75 seconds. `state` is `live` if
    the agents' folders are watched, `reading` during a long import, `waiting` if another process
    imports, `failing` if nothing can be read, `off` without a watch; `words` explain it.
    """
    found = site.watch.read() if site.watch else OFF
    return LiveStore(version=site.watcher.version(), **asdict(found))


def read_secret(site: Site) -> PageSecret:
    """The secret that every change requires.

    A new one whenever the server starts. A browser does not let another web site read it.
    """
    return PageSecret(site.secret)


def read_document(_: Site) -> dict[str, Any]:
    """This document."""
    document: dict[str, Any] = msgspec.json.decode(DOCUMENT.read_bytes())
    return document


# addresses that describe the server, not the record
SERVER_QUERIES: dict[str, Callable[[Site], Any]] = {
    "/api/live": read_version,
    "/api/secret": read_secret,
    "/api/openapi.json": read_document,
}


def server_route(site: Site, path: str, read: Callable[[Site], Any]) -> Route:
    async def respond(request: Request) -> Response:
        read_query(request, NoParameters)
        return JSON(read(site))

    return Route(path, respond, methods=["GET"])


def query_route(site: Site, query: Query) -> Route:
    async def respond(request: Request) -> Response:
        parameters = read_query(request, query.parameters)
        path = request.path_params
        if query.is_of_server:
            check_sees_all(request)

        async def build() -> Response:
            return await site.read(request, lambda store: JSON(query.read(store, parameters, path)))

        return await site.cache.respond(request, site.watcher.version(), build)

    return Route(query.path, respond, methods=["GET"])


def action_route(site: Site, action: Action) -> Route:
    async def respond(request: Request) -> Response:
        read_query(request, NoParameters)
        check_secret(site, request, request.headers.get("x-relight-secret", ""))
        fields, is_form = await read_body(request)
        if is_form:
            raise RequestError(415, "a form is not supported here", "send it to its page")
        path = await check_action(site, request)
        return JSON(await perform(site, action, fields, path))

    return Route(action.path, respond, methods=["POST"])


def login_route(site: Site) -> Route:
    """The sign-in page: it takes the token and sets a cookie that proves it."""

    def show(following: str, problem: str | None, status: int) -> Response:
        page = site.render(
            "login.html",
            version="",
            filters=Filters(),
            page=LOGIN,
            following=check_local(following),
            problem=problem,
        )
        return HTMLResponse(page, status_code=status)

    async def respond(request: Request) -> Response:
        if site.token is None and not site.is_team:
            return RedirectResponse("/", status_code=303)
        if request.method != "POST":
            return show(request.query_params.get("next", "/"), None, 200)
        fields, _ = await read_body(request)
        following = str(fields.get("next", "/"))
        cookie = await site.sign_in(str(fields.get("token", "")).strip())
        address = request.client.host if request.client else None
        # as in the guard: a member's token waits for no wrong ones
        is_member = cookie is not None and COOKIE_MARK in cookie
        is_right = is_member or await site.token_checks.check(address, lambda: cookie is not None)
        if is_right is None:
            return show(following, "Too many wrong tokens: try again later.", 429)
        if cookie is None:
            return show(following, "That is not the token.", 403)
        response = RedirectResponse(check_local(following), status_code=303)
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    return Route(LOGIN.path, respond, methods=["GET", "POST"])
