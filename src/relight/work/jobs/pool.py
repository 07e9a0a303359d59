"""The worker processes of one scheduler: started for work, closed when idle."""

import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.intake.workers import describe_exit, read_frame, write_message
from relight.work.jobs.leases import Holder

EXECUTE = "relight.work.jobs.run:execute_run"
IDLE_SECONDS = 60.0
STOP_SECONDS = 12.0


class Worker(Struct, eq=False):
    """A worker process, its current run, and since when it is idle."""

    process: subprocess.Popen[bytes]
    run_id: int | None = None
    idle_since: float = 0.0


class WorkerEvent(Struct, frozen=True):
    """A worker has finished a run, or died in the middle of it (`ended_by`)."""

    run_id: int
    ended_by: str | None = None


class WorkerPool:
    """Up to `size` workers. Only one thread may wait for their events."""

    def __init__(self, home: Path, holder: Holder, *, size: int, execute: str = EXECUTE) -> None:
        self.size = size
        self._holder = holder
        words = [str(home), holder.name, execute]
        self._command = [sys.executable, "-m", "relight.work.jobs.worker", *words]
        self._workers: list[Worker] = []
        self._messages: queue.SimpleQueue[tuple[Worker, bytes | None] | None] = queue.SimpleQueue()

    @property
    def runs(self) -> set[int]:
        """The ids of the runs in progress."""
        return {worker.run_id for worker in self._workers if worker.run_id is not None}

    @property
    def free(self) -> int:
        """The number of further runs that can begin."""
        return self.size - len(self.runs)

    def warm_up(self) -> None:
        """Start a worker ahead of time, since that takes a moment."""
        if self.free and self._find_idle() is None:
            self._start()

    def hand_out(self, run_id: int) -> None:
        """Give a run to an idle worker."""
        worker = self._find_idle() or self._start()
        worker.run_id = run_id
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):  # the end of its output reports the death
            write_message(worker.process.stdin, msgspec.msgpack.encode(run_id))

    def wait(self, seconds: float) -> WorkerEvent | None:
        """The next event of a worker; None after the time limit, or when woken."""
        try:
            received = self._messages.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if received is None:
            return None
        worker, message = received
        run_id = worker.run_id
        worker.run_id, worker.idle_since = None, time.monotonic()
        if message is not None:
            return WorkerEvent(run_id) if run_id is not None else None
        self._workers.remove(worker)
        code = worker.process.wait()
        return None if run_id is None else WorkerEvent(run_id, describe_exit(code))

    def wake(self) -> None:
        """End a wait at once; safe in a signal handler."""
        self._messages.put(None)

    def close_idle(self) -> None:
        """Close workers that have been idle for a while."""
        before = time.monotonic() - IDLE_SECONDS
        for worker in self._workers:
            if worker.run_id is None and worker.idle_since <= before:
                _close(worker)

    def close(self) -> None:
        """Close all workers and wait for them; a run in progress ends as `unknown`."""
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
        idle = (one for one in self._workers if one.run_id is None)
        return next((one for one in idle if (pipe := one.process.stdin) and not pipe.closed), None)

    def _start(self) -> Worker:
        # the paths of this process, in case Relight is not installed but only on sys.path
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            # Ctrl-C at the terminal is for the scheduler alone
            start_new_session=True,
            # the holder's lock lives as long as its last worker
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
                    message = read_frame(stream)
                except (OSError, ValueError):  # closed meanwhile: the scheduler ends
                    message = None
                self._messages.put((worker, message))


def _close(worker: Worker) -> None:
    assert worker.process.stdin is not None
    with suppress(OSError):
        worker.process.stdin.close()
