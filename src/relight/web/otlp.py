"""The OTLP receiver's HTTP side: `POST /v1/traces`, `/v1/logs` and `/v1/metrics`.

A request is answered with 200 when its records are on disk. One thread takes them in turn; while
too many wait, exporters are asked to send again. Only requests from this machine are accepted.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from relight.intake.receiver import (
    FORMATS,
    JSON_TYPE,
    MOST_BODY,
    Format,
    Receiver,
    RefusedRequestError,
    encode_status,
    too_large,
)
from relight.sources.otlp.otlp_requests import Signal
from relight.store import open_store
from relight.web.guard import Guard
from relight.web.watch import WatchProcess

# bodies that wait to be taken: with more, or more bytes, exporters are asked to send again
MOST_WAITING = 16
MOST_HELD = 2 * MOST_BODY
# bytes of a refused body that are read and dropped
MOST_DRAINED = 8 * MOST_BODY
REPORT_SECONDS = 60.0
SIGNALS: tuple[Signal, ...] = ("traces", "logs", "metrics")


class OtlpSite:
    """The requests that are being received for one home folder."""

    def __init__(self, home: str | Path | None) -> None:
        self._store = open_store(home)
        self.home = self._store.config.home
        self.receiver = Receiver(self._store)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="relight-otlp")
        self._waiting = 0
        self._held = 0
        self._reported_at: dict[int, float] = {}

    def close(self) -> None:
        self._thread.shutdown()
        self._store.close()

    async def respond(self, request: Request, signal: Signal) -> Response:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        form = FORMATS.get(media)
        try:
            if form is None:
                raise RefusedRequestError(
                    415, f"content-type {media[:60]!r} is not supported: send protobuf or JSON"
                )
            content = await self._receive(request, signal, form)
            return Response(content, media_type=form)
        except RefusedRequestError as error:
            await _drain(request)
            return self._refuse(error, form or JSON_TYPE)  # type: ignore[arg-type]

    async def _receive(self, request: Request, signal: Signal, form: Format) -> bytes:
        length = request.headers.get("content-length", "")
        announced = int(length) if length.isdecimal() else 0
        if announced > MOST_BODY:
            raise too_large()
        if self._waiting >= MOST_WAITING or self._held + announced > MOST_HELD:
            # not 429: Python's exporters up to 1.44 drop what is refused so
            raise RefusedRequestError(503, "too many requests wait", retry_seconds=1)
        self._waiting += 1
        held = 0
        try:
            parts: list[bytes] = []
            async for part in request.stream():
                held += len(part)
                self._held += len(part)
                if held > MOST_BODY:
                    raise too_large()
                parts.append(part)
            encoding = request.headers.get("content-encoding", "").strip().lower()
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._take, parts, signal, form, encoding
            )
        except ClientDisconnect as error:
            raise RefusedRequestError(400, "the client has gone") from error
        finally:
            self._waiting -= 1
            self._held -= held

    def _take(self, parts: list[bytes], signal: Signal, form: Format, encoding: str) -> bytes:
        self.receiver.check_room()
        body = b"".join(parts)
        parts.clear()
        now = int(time.time() * 1000)
        return self.receiver.take(body, signal, form, encoding=encoding, now=now)

    def _refuse(self, error: RefusedRequestError, form: Format) -> Response:
        """The response to a refused request, which is reported once a minute and counted."""
        self.receiver.counts.refused += 1
        now = time.monotonic()
        if now - self._reported_at.get(error.status, -REPORT_SECONDS) >= REPORT_SECONDS:
            self._reported_at[error.status] = now
            sys.stderr.write(f"warning: refused a request: {error.message}\n")
        if error.retry_seconds is None:  # an exporter drops it
            self._thread.submit(self.receiver.count_lost, error.message)
        headers = {} if error.retry_seconds is None else {"Retry-After": str(error.retry_seconds)}
        content = encode_status(form, error.message)
        return Response(content, status_code=error.status, media_type=form, headers=headers)


async def _drain(request: Request) -> None:
    """Read on what a refused request still sends, and drop it.

    A connection that is closed before is a broken one for the exporter, which sends it again.
    """
    left = MOST_DRAINED
    with suppress(ClientDisconnect, RuntimeError):  # gone, or read to its end
        async for part in request.stream():
            left -= len(part)
            if left < 0:
                return


def create_receiver(home: str | Path | None, *, is_watching: bool = False) -> ASGIApp:
    """Return the receiver of a home folder as an ASGI application.

    With `is_watching`, what it received is read into the record as long as it runs.
    """
    site = OtlpSite(home)
    watch = WatchProcess(site.home) if is_watching else None

    @asynccontextmanager
    async def start_and_close(_: Starlette) -> AsyncIterator[None]:
        if watch:
            watch.start()
        yield
        if watch:
            watch.close()
        site.close()

    def make_route(signal: Signal) -> Route:
        async def receive(request: Request) -> Response:
            return await site.respond(request, signal)

        return Route(f"/v1/{signal}", receive, methods=["POST"])

    app = Starlette(lifespan=start_and_close, routes=[make_route(one) for one in SIGNALS])
    return Guard(app, is_loopback=True)
