"""A connection to one server: what goes out of this machine over HTTP, besides model calls."""

import http.client
import socket
from collections.abc import Mapping
from math import ceil
from selectors import EVENT_READ, DefaultSelector
from urllib.parse import urlsplit

from msgspec import Struct

from relight.errors import RelightError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SECONDS = 30.0
MOST_ANSWER = 1 << 20
UNREACHABLE = (OSError, http.client.HTTPException)


class Answer(Struct, frozen=True):
    """A response of the server; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpLine:
    """A connection to a server, opened on first use and again after an error or a long pause."""

    def __init__(self, url: str, *, seconds: float = SECONDS) -> None:
        self._url = url
        self.seconds = seconds
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def exchange(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request and return the response."""
        parts = urlsplit(self._url)
        connection = self._open(parts.scheme, parts.hostname or "", parts.port)
        connection.request(method, f"{parts.path}{path}", data, dict(headers))
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read(MOST_ANSWER))

    def _open(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if self._connection is not None and is_closed(self._connection.sock):
            self.close()
        if self._connection is None:
            kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            self._connection = kind(host, port, timeout=self.seconds)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(self.seconds)
        return self._connection


def split_address(url: str, noun: str = "an address", *, hint: str, place: str) -> tuple[str, str]:
    """Return a server's address without a slash at its end, and its host.

    Raise if it is not one, with a hint what it is like; `place` is where its password belongs.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise RelightError(f"{url!r} is not an address: {error}", hint) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise RelightError(f"{url!r} is not {noun}", hint)
    if parts.username or parts.password:
        raise RelightError("the address has a password", place)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}", parts.hostname


def is_closed(sock: socket.socket | None) -> bool:
    """True if the other side has closed a connection on which no response is awaited.

    Only then is there something to read. Servers close what is silent for a few seconds.
    """
    if sock is None:
        return False
    with DefaultSelector() as selector:
        selector.register(sock, EVENT_READ)
        return bool(selector.select(0))


def name_reason(error: BaseException) -> str:
    """Return why a server could not be reached, in its own words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def read_wait(answer: Answer, default: int) -> int:
    """Return the seconds that a server asks to wait."""
    from relight.judging.error_text import read_wait_headers

    asked = read_wait_headers(answer.headers)
    return default if asked is None else ceil(asked)
