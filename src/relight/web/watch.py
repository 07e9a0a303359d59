"""The process that watches the agents' folders for a dashboard, and what it last reported.

It is a separate process: an import takes no time from requests, and however it ends, pages
are served. It ends with the server, however that ends, because its standard input does.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, Literal

import msgspec
from msgspec import Struct

from relight.config import find_home, read_config
from relight.errors import as_typed
from relight.intake.importing import Imported
from relight.intake.watching import Watcher, WatchReport, open_watched
from relight.intake.workers import describe_exit
from relight.store import Store
from relight.text import clean, size

# an import that is done sooner needs no words
QUIET_SECONDS = 2.0
# a watch that was not heard of for so long is not live
LATE_SECONDS = 10.0
RESTART_SECONDS = 10.0
CLOSE_SECONDS = 5.0
# lessons: how often and how long sessions are read, and how long ago they must have ended
READ_EACH_SECONDS, READ_SECONDS, OVER_SECONDS = 60.0, 0.5, 600.0


class Liveness(Struct, frozen=True):
    """The state of the watch in words, and the seconds since its last look."""

    state: Literal["live", "reading", "waiting", "failing", "off"]
    words: str
    read_seconds: float | None = None


OFF = Liveness("off", as_typed("not watching: relight import reads what is new"))


class WatchProcess:
    """The watching process of one home folder, started again if it ends by itself."""

    def __init__(
        self,
        home: Path,
        clock: Callable[[], float] = time.monotonic,
        *,
        target: str = "relight.web.watch:run_watch",
        title: str = "the watch",
    ) -> None:
        self._home = home
        self._target = target
        self._title = title
        self._clock = clock
        self._child: Popen[bytes] | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        # the last report, and the last one that is not of an import under way
        self._last = self._settled = WatchReport("live")
        # when the folders were last looked at, and since when they are not
        self._read_at: float | None = None
        self._since = self._clock()
        self._printed: set[str] = set()

    def start(self) -> None:
        self._closing.clear()
        # before the first request: later there may be no descriptors left
        self._start_child()
        self._thread = threading.Thread(target=self._run, name="relight-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the process; an import that is under way ends as if it were killed."""
        self._closing.set()
        if self._child is not None:
            self._child.terminate()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def read(self) -> Liveness:
        """Return the present state in words."""
        now = self._clock()
        waited = now - self._since
        is_quiet = self._last.state == "reading" and waited < QUIET_SECONDS
        last = self._settled if is_quiet else self._last
        ago = None if self._read_at is None else round(now - self._read_at, 1)
        if last.state == "failing":
            return Liveness("failing", f"not live: {clean(last.note or 'unknown')}", ago)
        if last.state == "waiting":
            return Liveness("waiting", "another import is reading", ago)
        if last.state == "reading":
            share = f", {size(last.total_bytes - last.done_bytes)} left" if last.total_bytes else ""
            return Liveness("reading", f"reading what is new{share}", ago)
        if (waited if ago is None else ago) >= LATE_SECONDS:
            return Liveness("failing", "not live: the watch does not answer", ago)
        return Liveness("live", "live", ago)

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._child is not None:
                reason = f"{self._title} {describe_exit(self._follow(self._child))}"
                if not self._closing.is_set():
                    self.take(WatchReport("failing", reason))
            self._closing.wait(RESTART_SECONDS)
            if not self._closing.is_set():
                self._start_child()

    def _start_child(self) -> None:
        module, _, name = self._target.partition(":")
        code = f"import sys; from {module} import {name}; {name}(sys.argv[1])"
        # with paths as they are here, even when Relight is not installed but only on sys.path
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-c", code, str(self._home.absolute())]
        try:
            # Ctrl-C is for the server alone: an interrupted worker would look like a failure
            self._child = Popen(
                command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
            )
        except OSError as error:
            self._child = None
            self.take(
                WatchReport("failing", f"{self._title} could not start: {error.strerror or error}")
            )

    def _follow(self, child: Popen[bytes]) -> int:
        """Take the process's reports until it ends; return its code."""
        with child:
            assert child.stdout is not None
            for line in child.stdout:
                with suppress(msgspec.DecodeError):
                    self.take(msgspec.json.decode(line, type=WatchReport))
            return child.wait()

    def take(self, report: WatchReport) -> None:
        """Take a report of the process; print trouble once."""
        now = self._clock()
        if report.state != self._last.state:
            self._since = now
        if report.state == "live":
            self._read_at = now
            self._printed.clear()
        self._last = report
        if report.state != "reading":
            self._settled = report
        if report.note and report.note not in self._printed:
            self._printed.add(report.note)
            sys.stderr.write(f"warning: {clean(report.note)}\n")


def run_watch(home: str) -> None:
    """Watch for the server that started this process, until its end of the input is closed."""
    report = make_reporter(sys.stdout.buffer)
    received = read_config(find_home(home)).telemetry
    watcher = Watcher(
        lambda: open_watched(home), LessonReader().take, report=report, received=received
    )
    watcher.watch(end_with_server())


def end_with_server() -> Callable[[float], None]:
    """Let this process end with its server; return the function by which it waits.

    No thread does this where processes fork: with a second thread none could fork its worker.
    """
    if hasattr(os, "fork"):
        return wait_for_end
    # Windows: its pipes cannot be waited for
    threading.Thread(target=wait_for_end, args=(None,), daemon=True).start()
    return time.sleep


class LessonReader:
    """Imports, and reads sessions that are over for their lessons, now and then."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._read_at = 0.0

    def take(self, store: Store, **options: Any) -> "list[Imported]":
        """Import as `import_and_notify` does; each minute, read sessions for half a second."""
        from relight.reports.lessons import read_new
        from relight.store.queries.filters import Filter
        from relight.work.notices import import_and_notify

        done = import_and_notify(store, **options)
        now = self._clock()
        if now - self._read_at >= READ_EACH_SECONDS:
            self._read_at = now
            ended = round((now - OVER_SECONDS) * 1000)
            read_new(store, Filter(), seconds=READ_SECONDS, ended_before=ended)
        return done


def make_reporter(output: IO[bytes]) -> Callable[[WatchReport], None]:
    """Return the function by which a process reports its state to the server."""

    def report(state: WatchReport) -> None:
        try:
            output.write(msgspec.json.encode(state) + b"\n")
            output.flush()
        except OSError:  # the server has gone meanwhile
            os._exit(0)

    return report


def wait_for_end(seconds: float | None) -> None:
    """Wait for so long, without an end if None; end the process if the standard input ends."""
    if seconds is not None:
        import select

        if not select.select([sys.stdin], [], [], seconds)[0]:
            return
    sys.stdin.buffer.read()
    os._exit(0)
