"""Showing the token once, for a browser that keeps a proof of it."""

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from relight.web.filters import Filters
from relight.web.guard import COOKIE, is_same, make_cookie
from relight.web.pages import Page
from relight.web.request import read_body
from relight.web.routes import check_local
from relight.web.site import Site

PAGE = Page("login", "/login", "Sign in", is_in_navigation=False)
WRONG_SECONDS = 0.5
KEPT_SECONDS = 30 * 86_400


def login_route(site: Site) -> Route:
    def show(following: str, problem: str | None, status: int) -> Response:
        page = site.render(
            "login.html",
            version="",
            filters=Filters(),
            page=PAGE,
            following=check_local(following),
            problem=problem,
        )
        return HTMLResponse(page, status_code=status)

    async def answer(request: Request) -> Response:
        if site.token is None:
            return RedirectResponse("/", status_code=303)
        if request.method != "POST":
            return show(request.query_params.get("next", "/"), None, 200)
        fields, _ = await read_body(request)
        following = str(fields.get("next", "/"))
        if not is_same(str(fields.get("token", "")), site.token):
            await asyncio.sleep(WRONG_SECONDS)
            return show(following, "That is not the token.", 403)
        response = RedirectResponse(check_local(following), status_code=303)
        response.set_cookie(
            COOKIE,
            make_cookie(site.token),
            max_age=KEPT_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    return Route("/login", answer, methods=["GET", "POST"])
