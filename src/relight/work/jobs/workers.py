"""The worker processes of one scheduler: started when there is work, let go when there is none."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.intake.workers import read_message, write_message
from relight.work.jobs.leases import Holder

EXECUTE = "relight.work.jobs.run:execute_run"
IDLE_SECONDS = 60.0
STOP_SECONDS = 12.0


class Worker(Struct, eq=False):
    """A worker process, the run it is doing, and since when it has none."""

    process: subprocess.Popen[bytes]
    run_id: int | None = None
    idle_since: float = 0.0


class Event(Struct, frozen=True):
    """A worker is through with a run, or has ended in the middle of it (`ended_by`)."""

    run_id: int
    ended_by: str | None = None


class Crew:
    """Up to `size` workers. Whoever waits for what they tell must be a single thread."""

    def __init__(self, home: Path, holder: Holder, *, size: int, execute: str = EXECUTE) -> None:
        self.size = size
        self._holder = holder
        words = [str(home), holder.name, execute]
        self._command = [sys.executable, "-m", "relight.work.jobs.worker", *words]
        self._workers: list[Worker] = []
        self._told: queue.SimpleQueue[tuple[Worker, bytes | None] | None] = queue.SimpleQueue()

    @property
    def runs(self) -> set[int]:
        """The runs that are being done."""
        return {worker.run_id for worker in self._workers if worker.run_id is not None}

    @property
    def busy(self) -> int:
        return len(self.runs)

    @property
    def free(self) -> int:
        """How many more runs can begin at once."""
        return self.size - self.busy

    def warm_up(self) -> None:
        """Have a worker ready, since starting one takes a moment."""
        if self.free and self._find_idle() is None:
            self._start()

    def hand_out(self, run_id: int) -> None:
        """Give a run to a worker that has none."""
        worker = self._find_idle() or self._start()
        worker.run_id = run_id
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):  # that it is gone is told by the end of what it tells
            write_message(worker.process.stdin, msgspec.msgpack.encode(run_id))

    def wait(self, seconds: float) -> Event | None:
        """The next thing that workers tell; None after a while, or when woken."""
        try:
            told = self._told.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if told is None:
            return None
        worker, message = told
        run_id = worker.run_id
        worker.run_id, worker.idle_since = None, time.monotonic()
        if message is not None:
            return Event(run_id) if run_id is not None else None
        self._workers.remove(worker)
        code = worker.process.wait()
        return None if run_id is None else Event(run_id, _tell_end(code))

    def wake(self) -> None:
        """End a wait at once; a signal's handler may call it."""
        self._told.put(None)

    def let_go_idle(self, *, after_seconds: float = IDLE_SECONDS) -> None:
        """Send workers home that have had nothing to do for a while."""
        before = time.monotonic() - after_seconds
        for worker in self._workers:
            if worker.run_id is None and worker.idle_since <= before:
                _close(worker)

    def close(self) -> None:
        """Send all home and see that they went; a run that is being done ends as `unknown`."""
        deadline = time.monotonic() + STOP_SECONDS
        for worker in self._workers:
            _close(worker)
        for worker in self._workers:
            try:
                worker.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()

    def _find_idle(self) -> Worker | None:
        idle = (one for one in self._workers if one.run_id is None and not _is_closed(one))
        return next(idle, None)

    def _start(self) -> Worker:
        # with paths as they are here, even when Relight is not installed but only on sys.path
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            # what a person types at the terminal is for the scheduler to hear
            start_new_session=True,
            # the holder is there until its last worker is
            pass_fds=[self._holder.fileno()] if os.name == "posix" else (),
        )
        worker = Worker(process, idle_since=time.monotonic())
        self._workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: Worker) -> None:
        stream = worker.process.stdout
        assert stream is not None
        with stream:
            message: bytes | None = b""
            while message is not None:
                try:
                    message = read_message(stream)
                except (OSError, ValueError):  # closed under our hands: the scheduler leaves
                    message = None
                self._told.put((worker, message))


def _is_closed(worker: Worker) -> bool:
    return worker.process.stdin is None or worker.process.stdin.closed


def _close(worker: Worker) -> None:
    assert worker.process.stdin is not None
    with suppress(OSError):
        worker.process.stdin.close()


def _tell_end(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with code {code}"
