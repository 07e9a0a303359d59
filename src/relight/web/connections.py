"""Connections of the server: limits of time and number, so that strangers cannot block it."""

import asyncio
import logging
import sys
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# from the first byte to the last of a request's headers, and then of its body
HEADER_SECONDS = 10.0
BODY_SECONDS = 30.0
# a client that reads nothing of its response
SEND_SECONDS = 30.0
MOST_CONNECTIONS = 100
# descriptors of the database, of the pages' files and of the process itself
OWN_DESCRIPTORS = 64
REPORT_SECONDS = 60.0


def count_acceptable() -> int:
    """Return the number of connections to accept: fewer if the system grants few descriptors."""
    try:
        import resource
    except ImportError:  # Windows
        return MOST_CONNECTIONS
    (granted, _) = resource.getrlimit(resource.RLIMIT_NOFILE)
    if granted == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(8, min(MOST_CONNECTIONS, granted - OWN_DESCRIPTORS))


def is_worth_logging(record: logging.LogRecord) -> bool:
    """False for requests that the end of the server cuts off: they need no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    is_cut_off = isinstance(error, asyncio.CancelledError)
    return not is_cut_off and not str(record.msg).startswith("Cancel ")


class LimitedConnection(H11Protocol):
    """A connection that is closed if its request takes too long to arrive.

    At the limit a new connection replaces the one that has waited longest for its request, so
    that connections which only wait keep nobody out.
    """

    limit = MOST_CONNECTIONS
    header_seconds = HEADER_SECONDS
    body_seconds = BODY_SECONDS
    send_seconds = SEND_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._awaited: str | None = None
        self._awaited_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await("headers", self.header_seconds)
        if len(self.connections) > self.limit:
            self._replace_one()

    def _replace_one(self) -> None:
        waiting = [
            one
            for one in self.connections
            if isinstance(one, LimitedConnection) and one is not self and one._is_waiting()
        ]
        oldest = min(waiting, key=lambda one: one._awaited_since, default=self)
        # leaves at once: many may arrive before the loop reports the loss
        self.connections.discard(oldest)
        oldest.transport.abort()

    def _is_waiting(self) -> bool:
        """True if the client has not sent a whole request."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._await("headers", self.header_seconds)
        elif self.conn.their_state is h11.SEND_BODY:
            self._await("body", self.body_seconds)
        else:
            self._await(None)

    def _await(self, part: str | None, seconds: float = 0.0) -> None:
        """Close the connection unless this part of a request has arrived in time."""
        if part == self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited, self._awaited_since = part, time.monotonic()
        self._timer = self.loop.call_later(seconds, self.transport.abort) if part else None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(self.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._send_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


class TroubleReporter:
    """A handler of the event loop's errors that reports each kind in one line, once a minute.

    Without descriptors asyncio fails to accept a thousand times a second, and would write a
    traceback each time.
    """

    def __init__(self) -> None:
        self._reported_at: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, ValueError) and "Invalid file descriptor" in str(error):
            return  # asyncio tries to accept again on a socket that was closed meanwhile
        if not isinstance(error, OSError):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        line = f"{context.get('message', 'error')}: {error.strerror or error}"
        if now - self._reported_at.get(line, -REPORT_SECONDS) >= REPORT_SECONDS:
            self._reported_at[line] = now
            sys.stderr.write(f"relight serve: {line}\n")
