"""Access control: this machine's browser or a holder of the token, never another web site."""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from math import ceil
from socket import gethostname
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relight.store.members import Member
from relight.store.members import Scope as TokenScope
from relight.web.token_checks import PAUSE_SECONDS, TokenChecks

FindMember = Callable[[str], Awaitable[Member | None]]
MEMBER = "relight.member"
# the addresses that machines push to
PUSH = "/api/v1/"
CLAIM = ("/api/v1/claims", "/api/v1/runs/")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "relight_token"
# served without the token
LABEL = re.compile(r"/api/sessions/.+/label")
OPEN = re.compile(r"/login|/healthz|/static/[^/]+")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.IGNORECASE)
# a search for 10 KB of text, each byte of it encoded
LONGEST_QUERY = 32_768
# no outside content, no inline scripts or styles, no framing
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would remove the Origin from our own forms
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class JSON(Response):
    """A Struct as the command line prints it, without the spaces."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class ErrorResponse(Struct, frozen=True):
    """An error, and what to do about it."""

    error: str
    hint: str | None


class Guard:
    """Refuses foreign requests, and adds security headers to every response.

    A web site can make its own name point to 127.0.0.1 and send requests that look like ours. It
    cannot choose the Host that the browser sends, so only this server's names are accepted.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        hosts: Iterable[str] = (),
        is_loopback: bool = True,
        token_checks: TokenChecks | None = None,
        find_member: FindMember | None = None,
    ) -> None:
        self.app = app
        self.find_member = find_member
        self.token_checks = token_checks or TokenChecks()
        self.token = token
        self.is_loopback = is_loopback
        self.hosts = {*LOOPBACK, *(host.lower() for host in hosts)}
        if not is_loopback:
            self.hosts |= {gethostname().lower(), f"{gethostname().lower()}.local"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_static = scope["path"].startswith("/static/")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if not is_static:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        headers = Headers(scope=scope)
        if headers.get("x-forwarded-proto") == "https":
            scope["scheme"] = "https"  # said by a proxy; a client that lies harms only itself
        refusal = self._check(scope, headers) or await self._check_token(scope, headers)
        await (refusal or self.app)(scope, receive, send_guarded)

    def _check(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a refused request; None if it may pass."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return _refuse(
                scope, 403, f"{host[:100]!r} is not a name of this server", "open it by its address"
            )
        origin = headers.get("origin")
        own = (None, f"http://{host}", f"https://{host}")
        is_elsewhere = (origin and origin.lower()) not in own
        is_foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
        is_opening = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if is_elsewhere or (is_foreign and not is_opening):
            hint = "send it from Relight's own pages"
            return _refuse(scope, 403, "the request comes from another site", hint)
        if len(scope["query_string"]) > LONGEST_QUERY:
            return _refuse(scope, 414, "the address is too long", "request less at once")
        return None

    async def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a request without the token; None if it may pass."""
        is_open = self.token is None and self.find_member is None
        if is_open or OPEN.fullmatch(scope["path"]):
            return None
        if headers.get("authorization") or COOKIE in headers.get("cookie", ""):
            client = (scope.get("client") or (None,))[0]
            # a member's token is too long to be guessed: it never waits for wrong ones of others,
            # who have the same address behind a proxy
            if member := await self._find_member(headers):
                return self._check_scope(scope, member)
            is_right = await self.token_checks.check(client, lambda: self._has_token(headers))
            if is_right:
                return self._check_scope(scope, None)
            if is_right is None:
                refusal = _refuse(scope, 429, "too many wrong tokens", "try again later")
                refusal.headers["Retry-After"] = str(ceil(PAUSE_SECONDS))
                return refusal
        if is_api(scope["path"]):
            refusal = _refuse(
                scope, 401, "a token is required", "send `Authorization: Bearer TOKEN`"
            )
            refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        address = scope["path"] + ("?" if scope["query_string"] else "")
        address += scope["query_string"].decode("latin-1")
        return RedirectResponse(f"/login?next={quote(address, safe='/')}", status_code=303)

    async def _find_member(self, headers: Headers) -> Member | None:
        """Return the member whose token or cookie a request carries."""
        if self.find_member is None:
            return None
        return await self.find_member(_read_bearer(headers) or _read_cookie(headers))

    def _check_scope(self, scope: Scope, member: Member | None) -> Response | None:
        """Return the response to a request that the token does not allow; None if it may pass."""
        is_push = scope["path"].startswith(PUSH)
        if member is None:  # the one token of this server, which belongs to no machine
            return _refuse(scope, 403, "a member's token is required", "") if is_push else None
        scope[MEMBER] = member
        needed = choose_scope(scope["method"], scope["path"])
        if member.may(needed):
            return None
        return _refuse(
            scope,
            403,
            f"this token does not allow to {needed}",
            f"relight member token {member.person} --scope {needed}",
        )

    def _is_ours(self, host: str) -> bool:
        found = HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].lower()
        # a numeric address cannot be pointed here by another site
        return name in self.hosts or (not self.is_loopback and _is_address(name.strip("[]")))

    def _has_token(self, headers: Headers) -> bool:
        if self.token is None:
            return False
        if is_same(_read_bearer(headers), self.token):
            return True
        return is_same(_read_cookie(headers), make_cookie(self.token))


def choose_scope(method: str, path: str) -> TokenScope:
    """Return what a token must allow for a request.

    >>> choose_scope("POST", "/api/v1/runs/5/begin"), choose_scope("GET", "/api/report")
    ('claim', 'read')
    """
    if path.startswith(CLAIM):
        return "claim"
    if path.startswith(PUSH):
        return "push"
    if method in ("GET", "HEAD"):
        return "read"
    return "label" if LABEL.fullmatch(path) else "admin"


def _read_bearer(headers: Headers) -> str:
    kind, _, sent = headers.get("authorization", "").partition(" ")
    return sent.strip() if kind.lower() == "bearer" else ""


def _read_cookie(headers: Headers) -> str:
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def is_api(path: str) -> bool:
    """True for the addresses of programs, whose errors are JSON."""
    return path == "/api" or path.startswith("/api/")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _refuse(scope: Scope, status: int, message: str, hint: str) -> Response:
    if is_api(scope["path"]):
        return JSON(ErrorResponse(message, hint), status_code=status)
    return PlainTextResponse(f"{message}: {hint}\n", status_code=status)


def make_cookie(token: str) -> str:
    """Return the cookie's value: a proof of the token, not the token."""
    return hmac.new(token.encode(), b"relight cookie", "sha256").hexdigest()


def is_same(sent: str, expected: str) -> bool:
    """True if both are equal, compared in constant time."""
    return hmac.compare_digest(sent.encode(), expected.encode())
