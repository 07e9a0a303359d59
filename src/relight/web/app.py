"""The application: pages, API and static files, behind the guard."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from relight.errors import MissingError, RelightError, StoreError
from relight.web.filters import Filters
from relight.web.guard import Guard
from relight.web.login import login_route
from relight.web.page import page_route
from relight.web.pages import PAGES, Page
from relight.web.request import RefusedError
from relight.web.routes import JSON, api_routes, check_local
from relight.web.site import Site


def create_app(
    home: str | Path | None = None,
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    is_loopback: bool = True,
) -> ASGIApp:
    """The dashboard of a home folder.

    With a token nothing is told without it; `hosts` are further names it is reached by.
    """
    site = Site(home, token=token)
    tell = tell_error(site)

    @asynccontextmanager
    async def close_at_end(_: Starlette) -> AsyncIterator[None]:
        yield
        site.close()

    app = Starlette(
        lifespan=close_at_end,
        routes=[
            *(page_route(site, page) for page in PAGES),
            *api_routes(site),
            login_route(site),
            Route("/static/{name}", site.statics.answer, methods=["GET"]),
        ],
        exception_handlers={RelightError: tell, HTTPException: tell, Exception: tell},
    )
    # outermost, so that not even an error is told without its headers
    return Guard(app, token=token, hosts=hosts, is_loopback=is_loopback)


def tell_error(site: Site) -> Callable[[Request, Exception], Response]:
    """What went wrong, told in the manner it was asked: JSON for programs, a page for people."""

    def tell(request: Request, error: Exception) -> Response:
        is_program = request.url.path.startswith("/api/")
        status, message, hint = judge_error(error, is_program=is_program)
        headers = error.headers if isinstance(error, HTTPException) else None
        is_form = request.headers.get("content-type", "").startswith("application/x-www-form")
        if is_program and not is_form:
            return JSON({"error": message, "hint": hint}, status_code=status, headers=headers)
        page = Page("error", "", str(status), is_in_navigation=False)
        text = site.render(
            "error.html",
            version="",
            filters=Filters(),
            page=page,
            message=message,
            hint=hint,
            back=find_back(request) if is_form else "/",
        )
        return HTMLResponse(text, status_code=status, headers=headers)

    return tell


def find_back(request: Request) -> str:
    """The page of ours that a form was sent from, else the overview."""
    came = urlsplit(request.headers.get("referer", ""))
    is_ours = came.netloc == request.headers.get("host")
    return check_local(urlunsplit(("", "", came.path, came.query, ""))) if is_ours else "/"


def judge_error(error: Exception, *, is_program: bool) -> tuple[int, str, str | None]:
    addresses = "/api/openapi.json" if is_program else "the navigation"
    match error:
        case RefusedError():
            return error.status, error.message, error.hint
        case MissingError():
            return 404, error.message, error.hint
        case StoreError():
            return 503, error.message, error.hint
        case RelightError():
            return 400, error.message, error.hint
        case HTTPException(status_code=404):
            thing = "address" if is_program else "page"
            return 404, f"there is no such {thing}", f"{addresses} shows those there are"
        case HTTPException(status_code=405):
            return 405, "that cannot be done here", f"{addresses} shows what can"
        case HTTPException():
            return error.status_code, error.detail, None
        case _:
            return 500, "Relight failed to make this page", "its terminal shows what happened"
