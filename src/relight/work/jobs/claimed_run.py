"""One run from its beginning to what is written of it, whoever does its work."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from relight.errors import StoreError
from relight.store import Store
from relight.work.jobs.aftermath import follow_up
from relight.work.jobs.job import Execute, Job, Run, RunResult
from relight.work.jobs.leases import HEARTBEAT_MS
from relight.work.jobs.lost_runs import find_dead, settle_dead, tell_cut_short
from relight.work.jobs.notes import remove_note
from relight.work.jobs.registry import find_job
from relight.work.jobs.results import finish
from relight.work.jobs.slots import keep_lease, start_now

WAITS_SECONDS = (1, 2, 4, 8, 16)


def run_now(
    store: Store,
    name: str,
    *,
    holder: str,
    execute: Execute,
    clock: Callable[[], float] = time.time,
) -> tuple[Run, RunResult]:
    """Run a job at once, because a person asks for it."""
    job, now = find_job(store, name), round(clock() * 1000)
    settle_dead(store, find_dead(store, now=now))
    follow_up(store)
    run = start_now(store, job, holder, now=now)
    with _keeping_lease(store, holder, clock):
        return run, do_run(store, job, run, holder=holder, execute=execute, clock=clock)


@contextmanager
def _keeping_lease(store: Store, holder: str, clock: Callable[[], float]) -> Iterator[None]:
    """Say now and then that this process is still at work, as a scheduler does for its workers."""
    is_over = threading.Event()

    def keep() -> None:
        while not is_over.wait(HEARTBEAT_MS / 1000):
            with suppress(StoreError):  # the lease lasts for several of these
                keep_lease(store, holder, now=round(clock() * 1000))

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def do_run(
    store: Store,
    job: Job,
    run: Run,
    *,
    holder: str,
    execute: Execute,
    clock: Callable[[], float] = time.time,
    tell_stop: Callable[[], str] = lambda: "it was interrupted",
) -> RunResult:
    """Do the work of a run that has begun, and write down what came of it.

    A run that must end at once is `unknown`: what it had done by then, nobody knows.
    """
    try:
        result = execute(store, job, run, config=store.config, clock=clock)
    except (SystemExit, KeyboardInterrupt):
        evidence = f"{tell_stop()}; what it had done by then is not known"
        result = tell_cut_short(store, run.key, [evidence])
        _write(store, run, result, holder=holder, clock=clock)
        follow_up(store, run_id=run.id)
        raise
    except Exception as error:  # noqa: BLE001 - a run must never be left without an end
        evidence = f"Relight itself failed: {type(error).__name__}: {error}"
        result = RunResult(status="failed", outcome="failure", evidence=[evidence])
    _write(store, run, result, holder=holder, clock=clock)
    remove_note(store.config.home, run.key)
    return result


def _write(
    store: Store, run: Run, result: RunResult, *, holder: str, clock: Callable[[], float]
) -> None:
    """Write down what came of a run; a disk that is full for a while must not lose it."""
    ended = replace(result, finished_at=result.finished_at or round(clock() * 1000))
    for wait_seconds in WAITS_SECONDS:
        with suppress(StoreError):
            finish(store, run.id, ended, holder=holder)
            return
        time.sleep(wait_seconds)
    finish(store, run.id, ended, holder=holder)
