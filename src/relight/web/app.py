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
from relight.web.page import page_route
from relight.web.pages import PAGES, Page
from relight.web.request import RequestError
from relight.web.routes import JSON, ErrorResponse, api_routes, check_local, login_route
from relight.web.site import Site


def create_app(
    home: str | Path | None = None,
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    is_loopback: bool = True,
    is_watching: bool = False,
) -> ASGIApp:
    """Return the dashboard of a home folder as an ASGI application.

    With a token, every request must carry it. `hosts` are further names of this server. With
    `is_watching`, it imports what is new in the agents' folders as long as it runs.
    """
    site = Site(home, token=token, is_watching=is_watching)
    respond = error_responder(site)

    @asynccontextmanager
    async def start_and_close(_: Starlette) -> AsyncIterator[None]:
        site.start()
        yield
        site.close()

    app = Starlette(
        lifespan=start_and_close,
        routes=[
            *(page_route(site, page) for page in PAGES),
            *api_routes(site),
            login_route(site),
            Route("/static/{name}", site.static_files.respond, methods=["GET"]),
        ],
        exception_handlers={RelightError: respond, HTTPException: respond, Exception: respond},
    )
    # outermost, so that error responses get its headers too
    return Guard(
        app, token=token, hosts=hosts, is_loopback=is_loopback, token_checks=site.token_checks
    )


def error_responder(site: Site) -> Callable[[Request, Exception], Response]:
    """Return a handler that responds to errors with JSON for programs and a page for people."""

    def respond(request: Request, error: Exception) -> Response:
        is_program = request.url.path.startswith("/api/")
        status, message, hint = choose_status(error, is_program=is_program)
        headers = error.headers if isinstance(error, HTTPException) else None
        is_form = request.headers.get("content-type", "").startswith("application/x-www-form")
        if is_program and not is_form:
            return JSON(ErrorResponse(message, hint), status_code=status, headers=headers)
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

    return respond


def find_back(request: Request) -> str:
    """Return the page that sent a form, else the overview."""
    referer = urlsplit(request.headers.get("referer", ""))
    is_ours = referer.netloc == request.headers.get("host")
    return check_local(urlunsplit(("", "", referer.path, referer.query, ""))) if is_ours else "/"


def choose_status(error: Exception, *, is_program: bool) -> tuple[int, str, str | None]:
    """Return the status, message and hint of an error."""
    addresses = "/api/openapi.json" if is_program else "the navigation"
    match error:
        case RequestError():
            return error.status, error.message, error.hint
        case MissingError():
            return 404, error.message, error.hint
        case StoreError():
            return 503, error.message, error.hint
        case RelightError():
            return 400, error.message, error.hint
        case HTTPException(status_code=404):
            thing = "address" if is_program else "page"
            return 404, f"there is no such {thing}", f"{addresses} lists every {thing}"
        case HTTPException(status_code=405):
            return (
                405,
                "this method is not allowed here",
                f"{addresses} lists the methods of each address",
            )
        case HTTPException():
            return error.status_code, error.detail, None
        case _:
            return 500, "Relight could not build this page", "its terminal shows the error"
