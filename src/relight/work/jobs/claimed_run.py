"""Runs that have begun: the work is done by an `Execute` function, and its result is written.

A person may start one, also to repeat one that failed.
"""

import shlex
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError, RelightError, StoreError, as_typed
from relight.reports.retries import judge_run_retry
from relight.store import Store
from relight.store.queries.runs import RunReport, find_any_run, read_runs
from relight.times import format_moment, read_time
from relight.work.jobs import lost_runs
from relight.work.jobs.job import Execute, JobDefinition, JobResult, JobRun
from relight.work.jobs.leases import HEARTBEAT_MS, repeat_meanwhile
from relight.work.jobs.notes import remove_notes
from relight.work.jobs.registry import find_job
from relight.work.jobs.slots import BY_HAND, finish, keep_lease, start_now

WAITS_SECONDS = (1, 2, 4, 8, 16)
ANYWAY = "--anyway runs it again"


class RepeatedRun(Struct, frozen=True):
    """A run to be repeated: its job, and advice if another run is unlikely to help."""

    run_id: str
    job: str
    advice: str | None


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


def find_failed_run(
    store: Store, run_id: str, *, anyway: bool = False, now: int | None = None
) -> RepeatedRun:
    """Return the run to be repeated; raise if it is not ours, or if there is no reason to.

    With `anyway` its outcome, later successes and a request to wait do not matter.
    """
    lost_runs.settle_lost(store)
    run = find_any_run(store, run_id)
    if run is None:
        raise MissingError(
            f"there is no run {run_id!r}", "`relight job history --failed` lists them"
        )
    if run.job is None or ":" in run.job:
        raise RelightError(
            f"the run {run_id} belongs to another scheduler", "run its job again there"
        )
    find_job(store, run.job)  # it may have been removed
    at = round(time.time() * 1000) if now is None else now
    if not anyway:
        _check(store, run, now=at)
    advice = judge_run_retry(run, next_run_at=None, timezone=store.timezone, now=at)
    is_permanent = advice is not None and advice.can_retry is False
    return RepeatedRun(run.run_id, run.job, advice.words if advice and is_permanent else None)


def _check(store: Store, run: RunReport, *, now: int) -> None:
    """Raise if nothing has to be repeated, or not yet."""
    history = as_typed(f"relight job history {shlex.quote(run.job or '')}")
    if run.status in ("claimed", "running"):
        raise RelightError(f"the run {run.run_id} has not ended", f"wait for it: `{history}`")
    if run.outcome == "success":
        raise RelightError(f"the run {run.run_id} succeeded", ANYWAY)
    began = run.started_at or run.scheduled_for or ""
    for later in read_runs(store, run.job, since=read_time(began)):
        if later.run_id != run.run_id and later.outcome == "success":
            raise RelightError(f"the job {run.job} has succeeded since, as {later.run_id}", ANYWAY)
    allowed_at = read_time(run.retry_at)
    if allowed_at is not None and allowed_at > now:
        until = format_moment(allowed_at, store.timezone)
        raise RelightError(f"the other side asked to wait until {until}", ANYWAY)
