"""A begun run: its work is done by an `Execute` function, and its result is written."""

import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from relight.errors import StoreError
from relight.store import Store
from relight.work.jobs import lost_runs
from relight.work.jobs.job import Execute, JobDefinition, JobResult, JobRun
from relight.work.jobs.leases import HEARTBEAT_MS, repeat_meanwhile
from relight.work.jobs.notes import remove_notes
from relight.work.jobs.registry import find_job
from relight.work.jobs.slots import BY_HAND, finish, keep_lease, start_now

WAITS_SECONDS = (1, 2, 4, 8, 16)


def run_now(
    store: Store,
    name: str,
    *,
    holder: str,
    execute: Execute,
    clock: Callable[[], float] = time.time,
    note: str | None = None,
) -> tuple[JobRun, JobResult]:
    """Run a job at once, because a person asked for it; `note` says why in its history."""
    job, now = find_job(store, name), round(clock() * 1000)
    lost_runs.settle_dead(store, lost_runs.find_dead(store, now=now))
    lost_runs.collect_interrupted(store)
    run = start_now(store, job, holder, now=now, note=note or BY_HAND)

    def keep(_: object) -> None:
        with suppress(StoreError):  # a lease lasts for several heartbeats
            keep_lease(store, holder, now=round(clock() * 1000))

    with repeat_meanwhile(keep, seconds=HEARTBEAT_MS / 1000):
        result = complete_run(store, job, run, holder=holder, execute=execute, clock=clock)
    if store.config.notify.to:  # what reads the record next looks at the runs otherwise
        from relight.work.notices import notify_news

        notify_news(store)
    return run, result


def complete_run(
    store: Store,
    job: JobDefinition,
    run: JobRun,
    *,
    holder: str,
    execute: Execute,
    clock: Callable[[], float] = time.time,
    find_reason: Callable[[], str] = lambda: "it was interrupted",
) -> JobResult:
    """Do the work of a run that has begun, and write its result.

    An interrupted run ends as `unknown`, since its effects until then are unknown.
    """
    try:
        result = execute(store, job, run, config=store.config, clock=clock)
    except (SystemExit, KeyboardInterrupt):
        evidence = f"{find_reason()}; what it had done by then is not known"
        result = lost_runs.make_interrupted_result(store, run.key, [evidence])
        _write(store, run, result, holder=holder, clock=clock)
        lost_runs.collect_interrupted(store, run_id=run.id)
        raise
    except Exception as error:  # noqa: BLE001 - every run must get an end
        evidence = f"Relight itself failed: {type(error).__name__}: {error}"
        result = JobResult(status="failed", outcome="failure", evidence=[evidence])
    _write(store, run, result, holder=holder, clock=clock)
    remove_notes(store.config.home, run.key)
    return result


def _write(
    store: Store, run: JobRun, result: JobResult, *, holder: str, clock: Callable[[], float]
) -> None:
    """Write a run's result, with retries: a disk may be full for a while."""
    ended = replace(result, finished_at=result.finished_at or round(clock() * 1000))
    for wait_seconds in WAITS_SECONDS:
        with suppress(StoreError):
            finish(store, run.id, ended, holder=holder)
            return
        time.sleep(wait_seconds)
    finish(store, run.id, ended, holder=holder)
