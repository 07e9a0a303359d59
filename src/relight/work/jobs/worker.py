"""A process of its own that does runs, one after another, for a scheduler.

One that dies takes only its own run along. When the scheduler is gone, however it went, the run
that is being done is stopped, so that nothing goes on spending that nobody watches.
"""

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import IO

import msgspec

from relight.config import Config
from relight.intake.workers import read_message, write_message
from relight.store import Store, open_store
from relight.work.jobs.aftermath import follow_up
from relight.work.jobs.claimed_run import do_run
from relight.work.jobs.job import Execute, Job, Run, RunResult, name_run
from relight.work.jobs.slots import begin

# how long a stopped run may take to put its things away
STOP_SECONDS = 10.0


class Stoppable:
    """Does runs, and ends the one that is being done when told to; it begins none after that."""

    def __init__(self, execute: Execute) -> None:
        self.why = "it was stopped with its scheduler"
        self.is_stopped = False
        self._execute = execute
        self._is_running = False
        self._main = threading.get_ident()
        signal.signal(signal.SIGTERM, self._stop)

    def __call__(
        self, store: Store, job: Job, run: Run, *, config: Config, clock: Callable[[], float]
    ) -> RunResult:
        self._is_running = True
        try:
            if self.is_stopped:
                raise SystemExit(128 + signal.SIGTERM)
            return self._execute(store, job, run, config=config, clock=clock)
        finally:
            self._is_running = False

    def stop(self, why: str) -> None:
        """From another thread: the main one may be waiting for a model, and a signal reaches it."""
        self.why = why
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(self._main, signal.SIGTERM)
        else:
            self.is_stopped = True

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # told twice, it must not be kept from putting its things away
        is_first, self.is_stopped = not self.is_stopped, True
        if self._is_running and is_first:
            raise SystemExit(128 + number)


def serve(home: Path, holder: str, execute: Execute) -> None:
    """Do the runs that are named on standard input until it ends, answering each."""
    source, target = _take_pipes()
    told: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    work = Stoppable(execute)

    def listen() -> None:
        while (message := read_message(source)) is not None:
            told.put(msgspec.msgpack.decode(message, type=int))
        told.put(None)
        work.stop("its scheduler ended, and it was stopped")
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    with open_store(home) as store:
        # what is not begun is handed out again
        while (run_id := told.get()) is not None and not work.is_stopped:
            begun = begin(store, run_id, holder, now=round(time.time() * 1000))
            if begun:
                # what its tools start is known by this, like all else that a run starts
                os.environ.update(name_run(home, begun[1].key))
                do_run(store, *begun, holder=holder, execute=work, tell_stop=lambda: work.why)
            else:
                follow_up(store, run_id=run_id)
            try:
                write_message(target, msgspec.msgpack.encode(run_id))
            except BrokenPipeError:  # what came of the run is written: nobody is left to hear it
                os._exit(0)


def _take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the scheduler, out of reach of whatever a run reads or prints."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, target


def main(words: list[str]) -> None:
    """`python -m relight.work.jobs.worker HOME HOLDER MODULE:FUNCTION`"""
    home, holder, target = words
    module, function = target.split(":")
    execute: Execute = getattr(import_module(module), function)
    serve(Path(home), holder, execute)


if __name__ == "__main__":
    main(sys.argv[1:])
