"""Changes: actions with their secret, and the forms of pages, which are shown again if one fails.

So nothing that was typed is lost, the error stands where it was made, and the address stays that of
the page, with script or without.
"""

from collections.abc import Mapping
from functools import cache
from re import Pattern
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import compile_path

from relight.reports.sessions import find_session
from relight.store import Store, open_store
from relight.store.members import Member
from relight.store.queries.sessions import read_name
from relight.store.rights import may_label
from relight.web.actions import ACTIONS, Action
from relight.web.guard import MEMBER, is_same
from relight.web.request import RequestError, convert, read_body
from relight.web.site import WRITE_SECONDS, Site


class FailedForm(Struct, frozen=True, kw_only=True):
    """A form that was refused: the address of its action, what was typed, and why.

    `is_on_top` is set if the page no longer has the form.
    """

    action: str
    fields: dict[str, str]
    message: str
    hint: str | None
    is_on_top: bool = False


async def read_form(request: Request) -> dict[str, Any]:
    """Return the fields of a page's form."""
    fields, is_form = await read_body(request)
    if not is_form:
        raise RequestError(415, "a page takes forms only", "programs use the addresses of the API")
    return fields


async def submit(site: Site, request: Request, sent: dict[str, Any]) -> str:
    """Perform the action of a form, and return the address that follows it; raise if it fails."""
    fields = dict(sent)
    check_secret(site, request, fields.pop("secret", ""))
    address, following = fields.pop("act", ""), fields.pop("next", "")
    action, path = find_action(address)
    await perform(site, action, fields, path)
    return check_local(following)


async def perform(
    site: Site, action: Action, fields: dict[str, Any], path: Mapping[str, str]
) -> Any:
    """Return the result of an action with these fields of a body; raise if it fails."""
    body = convert(fields, action.body)

    # raises if the database is gone: opening the store would create an empty one
    site.watcher.version()

    def act() -> Any:
        with open_store(site.config.home, wait_seconds=WRITE_SECONDS) as store:
            return action.act(store, body, path)

    # not in a reader's thread: pages are served while this waits for an import
    done = await run_in_threadpool(act)
    site.watcher.look_again()
    site.cache.clear()
    return done


async def check_action(site: Site, request: Request) -> Mapping[str, str]:
    """Return the names in the address of a change; raise unless the member may make it.

    The guard lets only tokens for admin change more than labels. A session is named in full: what
    is unique among those that a person sees need not be so among all.
    """
    member: Member | None = request.scope.get(MEMBER)
    if member is None or member.may("admin"):
        return request.path_params

    def find(store: Store) -> tuple[int, str]:
        found = find_session(store, request.path_params["session"])
        return found, read_name(store, found).session

    found, name = await site.read(request, find)
    if not await site.readers.read(lambda store: may_label(store, member.person_id, found)):
        raise RequestError(
            403,
            "only its owner and leads of its project may label this session",
            f"relight member allow {member.person} PROJECT --role lead",
        )
    return {"session": name}


def find_action(address: str) -> tuple[Action, dict[str, str]]:
    """Return the action at an address of the API, and the names in the address."""
    for action, pattern in _compile_actions():
        if found := pattern.match(unquote(address)):
            return action, found.groupdict()
    raise RequestError(404, "there is no such action", "reload the page and retry")


@cache
def _compile_actions() -> list[tuple[Action, Pattern[str]]]:
    return [(action, compile_path(action.path)[0]) for action in ACTIONS]


def check_secret(site: Site, request: Request, sent: str) -> None:
    """Raise unless the client has the token, or sent the secret that only our pages contain."""
    is_shown = request.headers.get("authorization", "").lower().startswith("bearer ")
    if is_shown and (site.token or MEMBER in request.scope):
        return  # the guard has checked it; another site cannot send it
    if not is_same(sent, site.secret):
        raise RequestError(403, "the secret is missing or outdated", "reload the page and retry")


def check_local(address: str) -> str:
    """Return the address a form leads to if it is one of our pages, else `/`.

    >>> [check_local(one) for one in ("/jobs?a=b", "//evil.example", "https://evil.example", "")]
    ['/jobs?a=b', '/', '/', '/']
    """
    is_local = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_local and address.isprintable() else "/"
