"""The connections to model servers; the one home of httpx2, loaded when first needed."""

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from relight.errors import RelightError
from relight.models.background import find_background

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient

CONNECT_SECONDS = 15.0
_clients: dict[int, "AsyncClient"] = {}


def find_client() -> "AsyncClient":
    """The client of the background loop, with its open connections; ask for it only in there."""
    background = find_background()
    if id(background) not in _clients:
        import httpx2

        # time is limited for each call as a whole, by whoever makes it
        timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
        limits = httpx2.Limits(max_connections=256, max_keepalive_connections=64)
        client = httpx2.AsyncClient(timeout=timeout, limits=limits)
        _clients[id(background)] = client

        async def close() -> None:
            _clients.pop(id(background), None)
            await client.aclose()

        background.closers.append(close)
    return _clients[id(background)]


@lru_cache(maxsize=64)
def read_url(text: str) -> "URL":
    """An address, read once: the same few are asked again and again."""
    import httpx2

    return httpx2.URL(text)


def read_key(variable: str | None) -> str | None:
    """The key that an environment variable holds; a variable that is named must be set."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise RelightError(
            f"the variable {variable} is not set", f"export {variable}=… with the endpoint's key"
        )
    if not (key.isascii() and key.isprintable()):  # an error of HTTP's would show it
        raise RelightError(
            f"the variable {variable} holds more than a key", "a key is plain letters on one line"
        )
    return key


def headers_of(variable: str | None) -> dict[str, str]:
    key = read_key(variable)
    return {"Authorization": f"Bearer {key}"} if key else {}
