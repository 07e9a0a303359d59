"""The life of a run: claimed for its slot, begun, kept under a lease, finished.

Each slot has one run, claimed under the store's write lock before any work starts. A run is
`claimed` by a holder, then `running`, then ended. A run that a dead holder had only claimed never
began, so another holder takes it over. One that it was running becomes `unknown` and is not
repeated.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.model import Usage, row_id
from relight.store import Store
from relight.store import jobs as job_table
from relight.store import runs as run_table
from relight.store.jobs import DueJob
from relight.store.runs import BegunRun, ClaimRow
from relight.times import format_moment
from relight.work.jobs import schedules
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.leases import LEASE_MS
from relight.work.jobs.registry import UNREADABLE, JobState, decode_job, job_id, schedule_of

MOST_COUNTED = 1000
# the place of jobs that any machine may run
ANYWHERE = "any"
BY_HAND = "asked for by a person"


class Slot(Struct, frozen=True, kw_only=True):
    """The decision about a job that is due: run its last slot, or skip it with a note."""

    at: int
    is_run: bool
    note: str | None
    next_at: int | None


def judge_slot(schedule: schedules.Schedule, *, due: int, now: int, timezone: str) -> Slot:
    """The one slot that stands for all slots that are due.

    Missed slots collapse into the last of them. It is run within its grace period and skipped after
    that, since a run at the wrong time may do harm.
    """
    last = schedules.find_last(schedule, due=due, now=now)
    missed = schedules.count_missed_slots(schedule, due=due, last=last, limit=MOST_COUNTED)
    grace = schedules.find_grace_ms(schedule, last)
    is_run = now - last <= grace
    notes = []
    if not is_run:
        late = _format_rough(now - last)
        notes.append(f"skipped: found {late} late, more than the grace of {_format_rough(grace)}")
    if missed:
        several = f"{missed}{'+' if missed == MOST_COUNTED else ''} earlier slots missed"
        count = "1 earlier slot missed" if missed == 1 else several
        notes.append(f"stands for {count} since {format_moment(due, timezone)}")
    note = "; ".join(notes) or None
    return Slot(at=last, is_run=is_run, note=note, next_at=schedules.find_next(schedule, last))


def _format_rough(milliseconds: int) -> str:
    """A span in its largest unit, which is precise enough for a note."""
    seconds = milliseconds // 1000
    for unit in (86400, 3600, 60):
        if seconds >= 2 * unit:
            seconds = seconds // unit * unit
            break
    return schedules.format_span(max(seconds, 1))


def claim_due(
    store: Store,
    holder: str,
    *,
    now: int,
    limit: int,
    places: Sequence[str] = (ANYWHERE,),
    is_own: bool = True,
) -> list[int]:
    """Claim up to `limit` runs of jobs that are due; return their ids.

    The store's write lock is the lock of the tick: its owner sees all claims made before. `places`
    are those that the holder can run jobs of, and `is_own` is True for this store's schedulers.
    """
    claimed: list[int] = []
    deal_slot = _find_dealer(store)
    find = partial(job_table.find_due_jobs, store, now=now, places=places, is_own=is_own)
    while limit > len(claimed) and find(limit=1):
        with store.transaction() as database:
            for job in find(limit=limit - len(claimed)):
                slot, state = _judge_job(job, now=now, timezone=store.timezone)
                job_table.set_job_state(database, job.id, state, slot.next_at)
                row = _make_row(job, slot, holder, now=now)
                if run_table.insert_run(database, row) and slot.is_run:
                    deal_slot(store, database, job, row, now=now)
                    claimed.append(row.id)
    return claimed


def _find_dealer(store: Store) -> Callable[..., None]:
    """Return the function that deals a slot to a model on trial, if there may be one."""
    if not store.has_rows("canary"):
        return lambda *_, **__: None
    from relight.work.jobs.canaries import deal_slot

    return deal_slot


def find_claimed(store: Store, holder: str) -> list[int]:
    """The runs that a holder has claimed and that have not begun."""
    return [run.id for run in run_table.find_held_runs(store, holder, "claimed")]


def _judge_job(job: DueJob, *, now: int, timezone: str) -> tuple[Slot, JobState]:
    """The slot of a job that is due, and the job's state after it."""
    try:
        definition = decode_job(job.definition)
        slot = judge_slot(
            schedule_of(definition, timezone),
            due=job.next_run_at,
            now=now,
            timezone=definition.timezone or timezone,
        )
    except UNREADABLE as error:
        # one unreadable job, such as one without its time zone, must not stop the others
        note = f"skipped, and the job paused: it cannot be read ({error})"
        return Slot(at=job.next_run_at, is_run=False, note=note, next_at=None), "paused"
    if slot.is_run and job.retry_at is not None and now < job.retry_at:
        until = format_moment(job.retry_at, timezone)
        note = f"skipped: the last run ended with the request to try again at {until}"
        slot = replace(slot, is_run=False, note=f"{note}; {slot.note}" if slot.note else note)
    return slot, "scheduled" if slot.next_at is not None else "done"


def _make_row(job: DueJob, slot: Slot, holder: str, *, now: int) -> ClaimRow:
    """The row of a claimed run, or of a skipped one with its note as evidence."""
    key = f"{job.key}@{_stamp(slot.at)}"
    return ClaimRow(
        id=row_id("run", "relight", key),
        key=key,
        job_id=job.id,
        status="claimed" if slot.is_run else "skipped",
        scheduled_for=slot.at,
        note=slot.note,
        holder=holder if slot.is_run else None,
        lease_until=now + LEASE_MS if slot.is_run else None,
        outcome=None if slot.is_run else "unknown",
        outcome_evidence=None if slot.is_run else msgspec.json.encode([slot.note]).decode(),
    )


def bring_forward(store: Store, *, now: int) -> None:
    """Move each job's due time to its next slot, after a clock was set back.

    A machine that started with a wrong year would otherwise run nothing until then.
    """
    earlier = []
    for job in job_table.find_waiting_jobs(store, now=now):
        with suppress(*UNREADABLE):
            slot = schedules.find_next(schedule_of(decode_job(job.definition), store.timezone), now)
            if slot is not None and slot < job.next_run_at:
                earlier.append((slot, job.id, job.next_run_at))
    if earlier:
        job_table.move_slots(store, earlier)


def start_now(
    store: Store, job: JobDefinition, holder: str, *, now: int, note: str = BY_HAND
) -> JobRun:
    """Start a run that a person asked for; raise if the job is running already."""
    # sessions of a run are named after it with a dash, so this key never matches a slot's sessions
    key = f"{job.name}@{_stamp(now)}.{secrets.token_hex(2)}"
    row = ClaimRow(
        id=row_id("run", "relight", key),
        key=key,
        job_id=job_id(job.name),
        status="running",
        started_at=now,
        note=note,
        holder=holder,
        lease_until=now + LEASE_MS,
    )
    with store.transaction() as database:
        if running := run_table.find_open_run(store, row.job_id):
            raise RelightError(
                f"the job {job.name} is running already ({running})",
                "wait for it: `relight job history` shows when it has ended",
            )
        run_table.insert_run(database, row)
    return JobRun(id=row.id, key=key, job=job.name, scheduled_for=None, started_at=now)


def begin(
    store: Store, run_id: int, holder: str, *, now: int
) -> tuple[JobDefinition, JobRun] | None:
    """Begin a claimed run; None if it is not this holder's any more."""
    begun = run_table.set_running(store, run_id, holder, now=now)
    return decode_begun(begun, run_id, now=now) if begun else None


def decode_begun(begun: BegunRun, run_id: int, *, now: int) -> tuple[JobDefinition, JobRun]:
    """Return the job of a run, with the settings that the run was dealt, and the run."""
    job, slot = decode_job(begun.definition), begun.scheduled_for
    run = JobRun(id=run_id, key=begun.key, job=begun.job, scheduled_for=slot, started_at=now)
    return replace(job, **msgspec.json.decode(begun.change)) if begun.change else job, run


def keep_lease(store: Store, holder: str, *, now: int) -> None:
    """Renew the holder's lease on all its runs."""
    run_table.renew_lease(store, holder, until=now + LEASE_MS)


def finish(store: Store, run_id: int, result: JobResult, *, holder: str) -> bool:
    """Write the result of a run and join it to its sessions; False if it is not this holder's."""
    usage = result.usage or Usage()
    evidence = result.evidence or ["no evidence of how it went"]
    end = run_table.RunEndRow(
        status=result.status,
        error=evidence[0] if result.status == "failed" else None,
        finished_at=result.finished_at,
        outcome=result.outcome,
        outcome_evidence=msgspec.json.encode(evidence).decode(),
        attempts=result.attempts,
        model=result.model,
        provider=result.provider,
        cost_nanos=result.cost_nanos,
        input_tokens=usage.input,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=usage.output,
        answer_file=result.answer_file,
        delivery=_encode(result.delivery),
        warnings=_encode(result.warnings),
        failure_kind=result.failure_kind,
        retry_at=result.retry_at,
    )
    return run_table.write_run_end(
        store,
        run_id,
        end,
        holder=holder,
        session_id=hash_session(result.session) if result.session else None,
        earlier=[hash_session(name) for name in result.earlier],
    )


def hash_session(name: str) -> int:
    """Return the row id of a session from its name, `source:key`."""
    return row_id("session", *name.split(":", 1))


def _encode(value: object) -> str | None:
    return msgspec.json.encode(value).decode() if value else None


def _stamp(at: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at / 1000))
