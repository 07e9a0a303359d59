"""A worker process: does runs for a scheduler, one after another.

A worker that dies takes only its own run along. If the scheduler is gone, its worker stops the
current run, so that no run spends money unwatched.
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
from relight.intake.workers import read_frame, write_message
from relight.store import Store, open_store
from relight.work.jobs.claimed_run import complete_run
from relight.work.jobs.job import Execute, JobDefinition, JobResult, JobRun
from relight.work.jobs.lost_runs import collect_interrupted
from relight.work.jobs.slots import begin
from relight.work.kernel import hide_memory
from relight.work.notices import notify_news
from relight.work.processes import own_children, run_variables

# time for a stopped run to clean up
STOP_SECONDS = 10.0
# loaded before the first run, so that it begins on time; a run alone loads them when needed
PRELOADED = ("relight.work.agent.session", "relight.work.jobs.left_sessions")


class Stoppable:
    """An `Execute` that can be stopped: it ends the current run and begins no other."""

    def __init__(self, execute: Execute) -> None:
        self.why = "it was stopped with its scheduler"
        self.is_stopped = False
        self._execute = execute
        self._is_running = False
        self._main = threading.get_ident()
        signal.signal(signal.SIGTERM, self._stop)

    def __call__(
        self,
        store: Store,
        job: JobDefinition,
        run: JobRun,
        *,
        config: Config,
        clock: Callable[[], float],
    ) -> JobResult:
        self._is_running = True
        try:
            if self.is_stopped:
                raise SystemExit(128 + signal.SIGTERM)
            return self._execute(store, job, run, config=config, clock=clock)
        finally:
            self._is_running = False

    def stop(self, why: str) -> None:
        """Stop from another thread: a signal also reaches a main thread that waits for a model."""
        self.why = why
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(self._main, signal.SIGTERM)
        else:
            self.is_stopped = True

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # a second signal must not interrupt the cleaning up
        is_first, self.is_stopped = not self.is_stopped, True
        if self._is_running and is_first:
            raise SystemExit(128 + number)


def serve_runs(home: Path, holder: str, execute: Execute) -> None:
    """Do the runs whose ids arrive on standard input, and answer each on standard output."""
    source, target = _take_pipes()
    received: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    work = Stoppable(execute)

    def listen() -> None:
        while (message := read_frame(source)) is not None:
            received.put(msgspec.msgpack.decode(message, type=int))
        received.put(None)
        work.stop("its scheduler ended, and it was stopped")
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    with open_store(home) as store:
        # a run that has not begun is handed out again
        while (run_id := received.get()) is not None and not work.is_stopped:
            begun = begin(store, run_id, holder, now=round(time.time() * 1000))
            if begun:
                # processes that its tools start are found by these variables
                os.environ.update(run_variables(home, begun[1].key))
                complete_run(
                    store, *begun, holder=holder, execute=work, find_reason=lambda: work.why
                )
            else:
                collect_interrupted(store, run_id=run_id)
            notify_news(store)
            try:
                write_message(target, msgspec.msgpack.encode(run_id))
            except BrokenPipeError:  # the result is written, and the scheduler is gone
                os._exit(0)


def _take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the scheduler, moved away from standard input and output of the runs."""
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
    for name in PRELOADED:
        import_module(name)
    hide_memory()
    own_children()
    serve_runs(Path(home), holder, execute)


if __name__ == "__main__":
    main(sys.argv[1:])
