"""Runs that failed and are run again because a person asked for it."""

import shlex
import time

from msgspec import Struct

from relight.errors import MissingError, RelightError, as_typed
from relight.reports.retries import judge_run_retry
from relight.store import Store
from relight.store.queries.runs import RunReport, find_any_run, read_runs
from relight.times import format_moment, read_time
from relight.work.jobs.lost_runs import settle_lost
from relight.work.jobs.registry import find_job

ANYWAY = "--anyway runs it again"


class RepeatedRun(Struct, frozen=True):
    """A run to be repeated: its job, and advice if another run is unlikely to help."""

    run_id: str
    job: str
    advice: str | None


def find_failed_run(
    store: Store, run_id: str, *, anyway: bool = False, now: int | None = None
) -> RepeatedRun:
    """Return the run to be repeated; raise if it is not ours, or if there is no reason to.

    With `anyway` its outcome, later successes and a request to wait do not matter.
    """
    settle_lost(store)
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
