"""One request to a model and its answer, as bytes that pass between a program and a server."""

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit
from weakref import WeakSet

from msgspec import Struct

from relight.chat.request_reader import read_request, renew_reader
from relight.chat.requests import WireRequest, find_format
from relight.chat.responses import BROKEN, WireAnswer, read_stream, read_whole
from relight.intake.auto.scope import AutoSession, find_block

# when the pieces of an answer arrived, and the pieces
Pieces: TypeAlias = tuple[list[float], list[bytes]]
# a longer answer is no model's: its rest is not copied
LIMIT_BYTES = 64 << 20
ERROR_BYTES = 64 << 10

logger = logging.getLogger("relight")


class OnceFilter(logging.Filter):
    """Lets each kind of warning through once, so that a program's log is not filled with them."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg)
        is_new = kind not in self._seen
        self._seen.add(kind)
        return is_new or record.levelno < logging.WARNING


def warn_once() -> None:
    """Let each kind of warning through once in this program, which is being recorded."""
    if not any(isinstance(one, OnceFilter) for one in logger.filters):
        logger.addFilter(OnceFilter())


class ignoring_errors:
    """A block whose errors are ours, and not the program's."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Exception):
            logger.warning("a model call was not recorded: %r", error)
            return True
        return False


class EndedCall(Struct, frozen=True, kw_only=True):
    """A call as it is recorded; one with a `failure` is no turn."""

    request: WireRequest
    address: str
    answer: WireAnswer | None = None
    failure: object = None
    duration_ms: float
    first_token_ms: float | None = None
    scope: AutoSession | None = None


class ObservedCall:
    """Copies the pieces of an answer; when it ends, the call is read and recorded, once."""

    def __init__(self, url: str, body: bytes) -> None:
        self._url = url
        self._body = body
        self._scope = find_block()
        self._status: int | None = None
        self._is_stream = False
        self._is_ended = False
        self._times: list[float] = []
        self._pieces: list[bytes] = []
        self._room = LIMIT_BYTES
        # undoes the compression of the pieces
        self.decode: Callable[[Pieces], Pieces] | None = None
        self._started = time.perf_counter()

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._is_stream = "event-stream" in headers.get("content-type", "")
        _unended.add(self)

    def add(self, piece: bytes) -> None:
        """Keep a piece of the answer."""
        self._room -= len(piece)
        if self._room >= 0:
            self._times.append(time.perf_counter())
            self._pieces.append(piece)

    def end(self, error: BaseException | None = None) -> None:
        """Record the call, unless it was; `error` is what ended it, if not the server.

        A GeneratorExit means that the program wants no more of the answer.
        """
        # a fork that ends frees the calls of its parent when nothing can be loaded any more
        if self._is_ended or sys.is_finalizing():
            return
        self._is_ended = True
        _unended.discard(self)
        duration_ms = (time.perf_counter() - self._started) * 1000
        with ignoring_errors():
            if (done := self._finish(error, duration_ms)) is not None:
                # it loads the store: only programs that call a model wait for that, once
                from relight.intake.auto.recording import record_call

                record_call(done)

    def _finish(self, error: BaseException | None, duration_ms: float) -> EndedCall | None:
        request = read_request(urlsplit(self._url).path, self._body)
        if request is None or (self._status is not None and 300 <= self._status < 400):
            return None
        answer = None
        try:
            times, pieces = self._times, self._pieces
            if self.decode is not None:
                times, pieces = self.decode((times, pieces))
            if self._status and self._status < 300:
                answer = self._read_answer(request, times, pieces)
        except Exception as damaged:  # noqa: BLE001 - the program's client raises the same
            pieces, error = [], error or damaged
        if answer is not None and answer.is_pending and answer.is_complete:
            return None  # the program asks for the answer later, with another request
        first_at = answer.first_at if answer else None
        return EndedCall(
            request=request,
            address=self._url,
            answer=answer,
            failure=self._find_failure(answer, pieces, error),
            duration_ms=duration_ms,
            first_token_ms=None if first_at is None else (first_at - self._started) * 1000,
            scope=self._scope,
        )

    def _read_answer(
        self, request: WireRequest, times: list[float], pieces: list[bytes]
    ) -> WireAnswer:
        if self._is_stream:
            return read_stream(request.format, times, pieces)
        return read_whole(request.format, b"".join(pieces))

    def _find_failure(
        self, answer: WireAnswer | None, pieces: list[bytes], error: BaseException | None
    ) -> object:
        """Return why the call gave no complete answer; None if it did."""
        if answer is not None and answer.error is None and answer.is_complete:
            return None
        from relight.judging.failures import classify_error, make_failure

        if answer is None and self._status is not None and self._status >= 300:
            text = b"".join(pieces)[:ERROR_BYTES].decode("utf-8", "replace")
            return classify_error(text, status=self._status)
        if answer is not None and answer.error is not None:
            return classify_error(answer.error)
        if isinstance(error, GeneratorExit):
            return make_failure("interrupted", "the program closed the stream before its end")
        return error or classify_error(BROKEN)


def begin_call(
    url: str, read_body: Callable[[], bytes], *, client: object = None
) -> ObservedCall | None:
    """Return a call to watch if an address is that of a model; None for all others."""
    if find_format(urlsplit(url).path) is None:
        return None
    # Relight's own client records what it does
    own = sys.modules.get("relight.models.background")
    if own is not None and own.is_own_client(client):
        return None
    return ObservedCall(url, read_body())


# the calls whose answers a program has begun to read
_unended: WeakSet[ObservedCall] = WeakSet()


def end_unended() -> None:
    """End the calls that a program leaves unread at its own end, while there still is a store."""
    for call in list(_unended):
        call.end(GeneratorExit())


def _end_all() -> None:
    if _unended:
        end_unended()
        # loaded just now, too late to be asked at the end of the program
        sys.modules["relight.intake.auto.recording"].close_sessions()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    # they are the parent's, which ends them
    os.register_at_fork(after_in_child=_unended.clear)
    os.register_at_fork(after_in_child=renew_reader)
