"""The API's addresses: what is asked is checked, what is sent must come from our own pages."""

from pathlib import Path
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from relight.store import open_store
from relight.web.actions import ACTIONS, Action
from relight.web.api import READINGS, Reading
from relight.web.guard import is_same
from relight.web.questions import Nothing
from relight.web.request import RefusedError, convert, read_body, read_query
from relight.web.site import Site

DOCUMENT = Path(__file__).parent / "openapi.json"
WRITE_SECONDS = 10.0


class JSON(Response):
    """JSON as the command line prints it, but for the spaces."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def api_routes(site: Site) -> list[Route]:
    return [
        Route("/api/live", live(site), methods=["GET"]),
        Route("/api/secret", secret(site), methods=["GET"]),
        Route("/api/openapi.json", document, methods=["GET"]),
        *(action_route(site, action) for action in ACTIONS),
        *(reading_route(site, reading) for reading in READINGS),
    ]


def live(site: Site) -> Any:
    async def answer(request: Request) -> Response:
        read_query(request, Nothing)
        return JSON({"version": site.watcher.version()})

    return answer


def secret(site: Site) -> Any:
    """For programs; a web site may ask too, but its browser does not let it see the answer."""

    async def answer(request: Request) -> Response:
        read_query(request, Nothing)
        return JSON({"secret": site.secret})

    return answer


async def document(request: Request) -> Response:
    read_query(request, Nothing)
    return Response(DOCUMENT.read_bytes(), media_type="application/json")


def reading_route(site: Site, reading: Reading) -> Route:
    async def answer(request: Request) -> Response:
        asked = read_query(request, reading.question)
        path = request.path_params

        async def make() -> Response:
            return await site.readers.read(lambda store: JSON(reading.answer(store, asked, path)))

        return await site.kept.answer(request, site.watcher.version(), make)

    return Route(reading.path, answer, methods=["GET"])


def action_route(site: Site, action: Action) -> Route:
    async def answer(request: Request) -> Response:
        read_query(request, Nothing)
        fields, is_form = await read_body(request)
        check_secret(site, request, fields, is_form=is_form)
        following = fields.pop("next", "") if is_form else ""
        sent = convert(fields, action.body)

        # a store that went away must not be made anew, empty
        site.watcher.version()

        def act() -> Any:
            with open_store(site.config.home, wait_seconds=WRITE_SECONDS) as store:
                return action.act(store, sent, request.path_params)

        # not in a reader's thread: pages go on while this one waits for an import
        done = await run_in_threadpool(act)
        site.watcher.look_again()
        site.kept.forget()
        if is_form:
            return RedirectResponse(check_local(following), status_code=303)
        return JSON(done)

    return Route(action.path, answer, methods=["POST"])


def check_secret(site: Site, request: Request, fields: dict[str, Any], *, is_form: bool) -> None:
    """Whoever changes something shows that it could read one of our pages, or has the token."""
    if site.token and request.headers.get("authorization"):
        return  # the guard has looked at it; no other site can send it
    told = fields.pop("secret", "") if is_form else request.headers.get("x-relight-secret", "")
    if not is_same(str(told), site.secret):
        raise RefusedError(
            403, "the secret is missing or an old one", "load the page anew and try once more"
        )


def check_local(address: str) -> str:
    """Where a form leads afterwards: a page of ours, whatever it says.

    >>> [check_local(one) for one in ("/jobs?a=b", "//evil.example", "https://evil.example", "")]
    ['/jobs?a=b', '/', '/', '/']
    """
    is_local = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_local and address.isprintable() else "/"
