"""Responses that need not be built again while the store stays the same."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from relight.web.guard import MEMBER

LARGEST_BYTES = 8_000_000
# a response may also depend on today's date
OLDEST_SECONDS = 20.0
# While an import writes, the version changes all the time. A slow response is then rebuilt less
# often, so that no address takes more than a tenth of a processor.
TIMES_AS_LONG, OUTDATED_SECONDS = 10, 10.0
# the path, the query, and the rights of the token that asks
Key = tuple[str, bytes, tuple[int, bool] | None]


class CachedResponse(Struct, frozen=True):
    """A cached response: store version, creation time, build time."""

    version: str
    created_at: float
    took: float
    response: Response


class ResponseCache:
    """The newest responses by address; simultaneous requests for the same one share a build."""

    def __init__(self) -> None:
        self._cached: OrderedDict[Key, CachedResponse] = OrderedDict()
        self._bytes = 0
        self._building: dict[Key, asyncio.Future[Response]] = {}

    async def respond(
        self, request: Request, version: str, build: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the cached response to this address, else a new one; a forced reload skips it."""
        member = request.scope.get(MEMBER)
        viewer = None if member is None else (member.person_id, member.may("admin"))
        key = (request.url.path, request.scope["query_string"], viewer)
        is_forced = "no-cache" in request.headers.get("cache-control", "")
        cached = None if is_forced else self._cached.get(key)
        if cached is not None and _is_fresh(cached, version):
            self._cached.move_to_end(key)
            return cached.response
        building = self._building.get(key)
        if building is None:
            began = time.monotonic()
            building = asyncio.ensure_future(build())
            self._building[key] = building
            building.add_done_callback(lambda done: self._store(key, version, began, done))
        # a client that disconnects must not cancel the build for the others
        return await asyncio.shield(building)

    def clear(self) -> None:
        """Drop everything: a change made by this process must show at once."""
        self._cached.clear()
        self._building.clear()
        self._bytes = 0

    def _store(
        self, key: Key, version: str, began: float, done: "asyncio.Future[Response]"
    ) -> None:
        is_current = self._building.get(key) is done
        if is_current:
            del self._building[key]
        if done.cancelled() or done.exception() is not None or not is_current:
            return
        response = done.result()
        if response.status_code != 200 or len(response.body) > LARGEST_BYTES // 4:
            return
        if key in self._cached:
            self._bytes -= len(self._cached.pop(key).response.body)
        now = time.monotonic()
        self._cached[key] = CachedResponse(version, now, now - began, response)
        self._bytes += len(response.body)
        while self._bytes > LARGEST_BYTES:
            _, oldest = self._cached.popitem(last=False)
            self._bytes -= len(oldest.response.body)


def _is_fresh(cached: CachedResponse, version: str) -> bool:
    age = time.monotonic() - cached.created_at
    if cached.version == version:
        return age < OLDEST_SECONDS
    return age < min(cached.took * TIMES_AS_LONG, OUTDATED_SECONDS)
