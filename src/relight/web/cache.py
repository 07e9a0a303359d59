"""Answers that need not be made again while the store stays as it is."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

LARGEST_BYTES = 8_000_000
# an answer may also tell what day it is
OLDEST_SECONDS = 20.0
# While an import writes, the store changes all the time. What took long to make is then made again
# the less often, so that no address takes more than a tenth of a processor.
TIMES_AS_LONG, OUTDATED_SECONDS = 10, 10.0
# A page that takes long enough to be waited for is shown as it was last while the next is made: it
# then sees by itself that there is a newer one.
SLOW_SECONDS, LAST_SECONDS = 0.1, 30.0
Key = tuple[str, bytes]


class Answer(Struct, frozen=True):
    """An answer, the version of the store that it tells of, when it was made and in what time."""

    version: str
    made_at: float
    took: float
    response: Response


class Kept:
    """The newest answers by their address.

    Of those who ask for the same at once one is answered from the store, and the others with it.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Answer] = OrderedDict()
        self._bytes = 0
        self._making: dict[Key, asyncio.Future[Response]] = {}

    async def answer(
        self,
        request: Request,
        version: str,
        make: Callable[[], Awaitable[Response]],
        *,
        is_page: bool = False,
    ) -> Response:
        """The answer kept for this address, else a new one, as it is where a reload is forced."""
        key = (request.url.path, request.scope["query_string"])
        is_forced = "no-cache" in request.headers.get("cache-control", "")
        kept = None if is_forced else self._kept.get(key)
        if kept is not None and _is_good(kept, version):
            self._kept.move_to_end(key)
            return kept.response
        making = self._making.get(key)
        if making is None:
            began = time.monotonic()
            making = asyncio.ensure_future(make())
            self._making[key] = making
            making.add_done_callback(lambda done: self._keep(key, version, began, done))
        if kept is not None and is_page and _is_better_than_waiting(kept):
            return kept.response
        # one who goes away must not take the answer from the others
        return await asyncio.shield(making)

    def forget(self) -> None:
        """Make all anew: what this process did itself must show at once."""
        self._kept.clear()
        self._making.clear()
        self._bytes = 0

    def _keep(self, key: Key, version: str, began: float, done: "asyncio.Future[Response]") -> None:
        is_current = self._making.get(key) is done
        if is_current:
            del self._making[key]
        if done.cancelled() or done.exception() is not None or not is_current:
            return
        response = done.result()
        if response.status_code != 200 or len(response.body) > LARGEST_BYTES // 4:
            return
        if key in self._kept:
            self._bytes -= len(self._kept.pop(key).response.body)
        now = time.monotonic()
        self._kept[key] = Answer(version, now, now - began, response)
        self._bytes += len(response.body)
        while self._bytes > LARGEST_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.response.body)


def _is_good(kept: Answer, version: str) -> bool:
    age = time.monotonic() - kept.made_at
    if kept.version == version:
        return age < OLDEST_SECONDS
    return age < min(kept.took * TIMES_AS_LONG, OUTDATED_SECONDS)


def _is_better_than_waiting(kept: Answer) -> bool:
    return kept.took > SLOW_SECONDS and time.monotonic() - kept.made_at < LAST_SECONDS
