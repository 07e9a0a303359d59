"""The application: pages, API and static files, behind the guard."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from relight.errors import RelightError
from relight.web.filters import Filters
from relight.web.guard import JSON, ErrorResponse, Guard, is_api
from relight.web.page import page_route
from relight.web.pages import PAGES, Page
from relight.web.request import choose_status
from relight.web.routes import api_routes, login_route
from relight.web.site import Site
from relight.web.team import Team, health_route


def create_app(
    home: str | Path | None = None,
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    is_loopback: bool = True,
    is_watching: bool = False,
    is_team: bool = False,
    is_deriving: bool = True,
) -> ASGIApp:
    """Return the dashboard of a home folder as an ASGI application.

    With a token, every request must carry it. `hosts` are further names of this server. With
    `is_watching`, it imports what is new in the agents' folders as long as it runs. With `is_team`
    machines of members push to it, and every request needs a member's token; with `is_deriving` a
    process beside it derives what they push.
    """
    site = Site(home, token=token, is_watching=is_watching, is_team=is_team)
    team = Team(site, is_deriving=is_deriving) if is_team else None
    respond = error_responder(site)

    @asynccontextmanager
    async def start_and_close(_: Starlette) -> AsyncIterator[None]:
        site.start()
        if team is not None:
            team.start()
        yield
        if team is not None:
            team.close()
        site.close()

    app = Starlette(
        lifespan=start_and_close,
        routes=[
            *(page_route(site, page) for page in PAGES),
            *api_routes(site),
            *(team.routes() if team is not None else ()),
            health_route(site),
            login_route(site),
            Route("/static/{name}", site.static_files.respond, methods=["GET"]),
        ],
        exception_handlers={RelightError: respond, HTTPException: respond, Exception: respond},
    )
    # outermost, so that error responses get its headers too
    return Guard(
        app,
        token=token,
        hosts=hosts,
        is_loopback=is_loopback,
        token_checks=site.token_checks,
        find_member=site.find_member if is_team else None,
    )


def error_responder(site: Site) -> Callable[[Request, Exception], Response]:
    """Return a handler that responds to errors with JSON for programs and a page for people."""

    def respond(request: Request, error: Exception) -> Response:
        is_program = is_api(request.url.path)
        status, message, hint = choose_status(error, is_program=is_program)
        headers = error.headers if isinstance(error, HTTPException) else None
        if is_program:
            return JSON(ErrorResponse(message, hint), status_code=status, headers=headers)
        page = Page("error", "", str(status), is_in_navigation=False)
        text = site.render(
            "error.html",
            version="",
            filters=Filters(),
            page=page,
            message=message,
            hint=hint,
        )
        return HTMLResponse(text, status_code=status, headers=headers)

    return respond
