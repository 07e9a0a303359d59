"""Limits of connections: a client that sends no request is closed, wrong tokens wait."""

import asyncio
import errno
import io
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from relight.cli.serve import make_server
from relight.web.connections import LimitedConnection, TroubleReporter
from relight.web.token_checks import MOST_WAITING, PAUSE_SECONDS, TokenChecks


class HastyConnection(LimitedConnection):
    limit = 5
    header_seconds = 0.2
    body_seconds = 0.2
    send_seconds = 0.2


class PatientConnection(LimitedConnection):
    limit = 5
    header_seconds = 600.0


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    size = 50_000_000 if scope["path"] == "/large" else 2
    await PlainTextResponse("x" * size)(scope, receive, send)


@contextmanager
def serving(protocol: type[LimitedConnection]) -> Iterator[int]:
    """A server in a thread: its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_level="error")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def connect(port: int, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(sent)
    return client


def is_closed(client: socket.socket) -> bool:
    """Wait until the server closes the connection; False if it sends something."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
    ],
)
def test_a_request_that_does_not_end_is_closed(sent: bytes) -> None:
    with serving(HastyConnection) as port, connect(port, sent) as client:
        assert is_closed(client)


def test_a_second_half_request_on_a_connection_is_closed() -> None:
    with serving(HastyConnection) as port, connect(port, WHOLE) as client:
        answer = b""
        while not answer.endswith(b"xx"):
            answer += client.recv(1000)
        client.sendall(b"GET / HT")
        assert is_closed(client)


def test_a_client_that_reads_nothing_is_closed() -> None:
    is_lost = threading.Event()

    class WatchedConnection(HastyConnection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            is_lost.set()

    with serving(WatchedConnection) as port, connect(port, WHOLE.replace(b"/ ", b"/large ", 1)):
        assert is_lost.wait(60)


def test_at_the_limit_the_longest_waiting_connection_makes_room() -> None:
    with serving(PatientConnection) as port:
        clients = [connect(port, b"GET / HTTP/1.1\r\n") for _ in range(20)]
        with connect(port, WHOLE) as client:
            assert client.recv(12) == b"HTTP/1.1 200"
        assert is_closed(clients[0])
        for one in clients:
            one.close()


def test_wrong_tokens_are_checked_one_after_another_over_all_connections() -> None:
    token_checks = TokenChecks()
    assert token_checks.reserve("a", 100.0) == 0.0
    token_checks.punish("a", 100.0)
    waits = [token_checks.reserve("a", 100.0) for _ in range(100)]
    granted = [wait for wait in waits if wait is not None]
    assert granted == [PAUSE_SECONDS * number for number in range(1, MOST_WAITING + 1)]
    # another client does not wait, nor does this one when its pause is over
    assert token_checks.reserve("b", 100.0) == 0.0
    assert token_checks.reserve("a", 100.0 + PAUSE_SECONDS * (MOST_WAITING + 1)) == 0.0


def test_right_tokens_do_not_wait_for_each_other() -> None:
    async def check_many() -> list[bool | None]:
        token_checks = TokenChecks()
        return await asyncio.gather(*(token_checks.check("a", lambda: True) for _ in range(100)))

    assert asyncio.run(check_many()) == [True] * 100


def test_many_wrong_tokens_at_once_are_refused_unchecked() -> None:
    checked: list[bool] = []

    def is_right() -> bool:
        checked.append(True)
        return False

    async def check_many() -> list[bool | None]:
        token_checks = TokenChecks()
        token_checks.punish("a", time.monotonic() + 3600)
        return await asyncio.gather(*(token_checks.check("a", is_right) for _ in range(100)))

    assert (asyncio.run(check_many()), checked) == ([None] * 100, [])


def test_running_out_of_descriptors_is_reported_in_one_line() -> None:
    report, written = TroubleReporter(), io.StringIO()
    loop = asyncio.new_event_loop()
    with redirect_stderr(written):
        for _ in range(1000):
            error = OSError(errno.EMFILE, "Too many open files")
            report(loop, {"message": "socket.accept() out of system resource", "exception": error})
    loop.close()
    assert written.getvalue().count("\n") == 1
    assert "Too many open files" in written.getvalue()


def test_requests_that_the_end_of_the_server_cuts_off_fill_no_log() -> None:
    async def app(*_: object) -> None: ...

    make_server(app)
    log, seen = logging.getLogger("uvicorn.error"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(str(record.exc_info))  # type: ignore[method-assign]
    log.addHandler(handler)
    log.error("Cancel %s running task(s), timeout graceful shutdown exceeded", 8)
    log.error("Exception in ASGI application", exc_info=asyncio.CancelledError())
    log.error("Exception in ASGI application", exc_info=ValueError("broken"))
    log.removeHandler(handler)
    assert len(seen) == 1
    assert "broken" in seen[0]
