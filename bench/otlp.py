"""Telemetry: spans acknowledged in a second, and how far the index is behind.

The bytes are those that real exporters sent (`tests/sources/telemetry.zip`), with new ids: 42 spans
of five instrumentations, 29 of them model calls with messages. The floor is a server that redacts
the same requests and appends them as they are, with an `fsync` for each, in the same run. It is
compared by processor time: on a loaded machine, waiting says nothing about either.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bench.measure import ROOT, judge, print_rows, tree_of
from relight.store import Store, open_store

CAPTURES = ROOT / "tests" / "sources" / "telemetry.zip"
RATE, LAG_SECONDS, CORES = 3000, 5.0, 2
# times the floor, which does not parse spans, sort calls and write lines
FLOOR_LIMIT = 15.0
PROGRAMS = 20
COPIES = 12  # of the captures in one request: about 500 spans, as exporters send them
NAMES = re.compile(rb"(?:chatcmpl-|msg_|req_)\d{5}")
TOOLS = re.compile(rb"(?:call_|toolu_)\d{5}")
# the fields of a span that have an id: trace, span, parent
IDS = re.compile(rb"\x0a\x10(.{16})\x12\x08(.{8})", re.DOTALL)
SPANS = 42
# different model calls in one copy of the captures: siblings of two instrumentations are one
CALLS = 6 + 6 + 5 + 3 + 3


def read_bodies() -> list[bytes]:
    """The requests with spans that were sent in protobuf."""
    with zipfile.ZipFile(CAPTURES) as archive:
        names = [name for name in archive.namelist() if name.endswith("traces1.pb")]
        return [archive.read(name) for name in names]


class Exporter:
    """One program: its conversations stay the same, its calls and spans are new each time."""

    def __init__(self, number: int, bodies: list[bytes]) -> None:
        self._bodies = [_rename(body, TOOLS, number) for body in bodies]
        self._traces = {found: os.urandom(16) for body in bodies for found, _ in IDS.findall(body)}

    def make(self, call: int) -> bytes:
        """A request with all captures, in which every call and span is new."""
        found = b"".join(_rename(body, NAMES, call) for body in self._bodies)
        for old, new in self._traces.items():
            found = found.replace(old, new)
        for _, old in set(IDS.findall(found)):
            found = found.replace(old, os.urandom(8))
        return found


def _rename(body: bytes, pattern: re.Pattern[bytes], number: int) -> bytes:
    """The body with other ids of the same length."""

    def replace(match: re.Match[bytes]) -> bytes:
        old = match[0]
        head = old[:-5]
        return head + b"%05x" % ((int(old[-5:]) * 4099 + number * 64) % 0xFFFFF)

    return pattern.sub(replace, body)


def make_requests(count: int) -> Iterator[bytes]:
    """Requests of several programs, about 500 spans each."""
    bodies = read_bodies()
    exporters = [Exporter(number, bodies) for number in range(PROGRAMS)]
    for number in range(count):
        parts = (
            exporters[(number * COPIES + copy) % PROGRAMS].make(number * COPIES + copy)
            for copy in range(COPIES)
        )
        yield b"".join(parts)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench otlp")
    parser.add_argument("--seconds", type=int, default=20)
    chosen = parser.parse_args(words)
    spans = SPANS * COPIES
    requests = list(make_requests(chosen.seconds * RATE // spans))
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measure(Path(folder), requests))
    print_rows(rows)
    return int(any(row[-1] != "ok" for row in rows))


def serve_floor(path: str) -> None:
    """Serve what every receiver must do: take a request, remove secrets, store it, answer."""
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from relight.cli.serve import HOST, listen, run_app
    from relight.redact import redact

    with Path(path).open("ab") as file:

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            file.write(redact(await Request(scope, receive).body(), key=b"key"))
            file.flush()
            os.fsync(file.fileno())
            await Response()(scope, receive, send)

        with listen(HOST, 0) as listening:
            print(f"http://{HOST}:{listening.getsockname()[1]}/", flush=True)
            run_app(app, listening)


@contextmanager
def running(command: list[str], home: Path) -> Iterator[tuple[int, str]]:
    """The process of a server and its address."""
    environment = {**os.environ, "HOME": str(home), "RELIGHT_HOME": str(home / "relight")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        try:
            yield server.pid, address
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def measure_floor(folder: Path, requests: list[bytes]) -> float:
    """Processor seconds of the floor for these requests."""
    code = f"from bench.otlp import serve_floor; serve_floor({str(folder / 'floor')!r})"
    with running([sys.executable, "-c", code], folder) as (pid, address):
        connection = connect(address)
        post(connection, requests[0])
        begun = _read_cpu(pid)
        for body in requests:
            post(connection, body)
        return _read_cpu(pid) - begun


def measure(folder: Path, requests: list[bytes]) -> Iterator[tuple[str, str, str, str]]:
    floor = measure_floor(folder, requests)
    home = folder / "home"
    open_store(home / "relight").close()
    with running([sys.executable, "-m", "relight", "collect", "--port", "0"], home) as found:
        pid, address = found
        begun = _read_cpu(pid)
        yield from _drive(address, home / "relight", requests)
        received = _read_cpu(pid) - begun
        indexed = sum(_read_cpu(one, with_ended=True) for one in tree_of(pid)[1:])
    part = RATE / (SPANS * COPIES * len(requests))
    ratio = received / floor
    yield (
        f"processor time until {RATE:,} spans are acknowledged",
        f"{received * part:.2f} s of a core, {ratio:.1f} × redacting and storing them",
        f"{FLOOR_LIMIT:.0f} ×",
        judge(ratio, FLOOR_LIMIT),
    )
    for what, spent, most in (
        # each is one process: within a core of its own it keeps up
        ("received", received, CORES / 2),
        ("indexed", indexed, CORES / 2),
        ("received and indexed", received + indexed, CORES),
    ):
        yield (
            f"processor time for {RATE:,} spans, {what}",
            f"{spent * part:.2f} s of {CORES} cores",
            f"{most:.0f} s",
            judge(spent * part, most),
        )


def connect(address: str) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]))


def post(connection: HTTPConnection, body: bytes) -> None:
    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    response = connection.getresponse()
    response.read()
    assert response.status == 200, response.status


def _read_cpu(pid: int, *, with_ended: bool = False) -> float:
    """Seconds of processor time of a process, with its children that have ended if wanted."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def _drive(address: str, home: Path, requests: list[bytes]) -> Iterator[tuple[str, str, str, str]]:
    spans = SPANS * COPIES
    connection = connect(address)
    sent: list[tuple[float, int]] = []
    spent = behind = 0.0
    with open_store(home) as store:
        began = time.perf_counter()
        for number, body in enumerate(requests):
            while time.perf_counter() - began < number * spans / RATE:
                time.sleep(0.005)
            started = time.perf_counter()
            post(connection, body)
            spent += time.perf_counter() - started
            sent.append((time.perf_counter(), number + 1))
            if number % 6 == 5:
                behind = max(behind, _measure_lag(store, sent))
        took = time.perf_counter() - began
        last = sent[-1][0]
        while count_calls(store) < len(requests) * COPIES * CALLS:
            behind = max(behind, time.perf_counter() - last)
            if behind > 120:
                break
            time.sleep(0.1)
    total = spans * len(requests)
    busy = total / spent
    load = f"load {os.getloadavg()[0]:.0f}"
    yield (
        f"{total:,} spans sent, {RATE:,} in a second",
        f"{busy:,.0f} spans acknowledged in a second of waiting ({took:.0f} s, {load})",
        f"≥ {RATE:,}",
        judge(RATE / busy, 1.0),
    )
    yield (
        "the index is behind by at most",
        f"{behind:.1f} s ({load})",
        f"{LAG_SECONDS:.0f} s",
        judge(behind, LAG_SECONDS),
    )


def count_calls(store: Store) -> int:
    ((found,),) = store.query("select count(*) from turn")
    return int(found)


def _measure_lag(store: Store, sent: list[tuple[float, int]]) -> float:
    """Seconds since the oldest request was acknowledged that the index does not have whole."""
    known = count_calls(store) // (COPIES * CALLS)
    missing = [at for at, number in sent if number > known]
    return time.perf_counter() - missing[0] if missing else 0.0
