"""One run for one slot: claimed under the store's write lock before any work starts.

A run is `claimed` by a holder, then `running`, then ended. What a dead holder had only claimed
never began, so another takes it over; what it was running becomes `unknown`, and is not repeated.
"""

import secrets
import sqlite3
import time
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.ids import row_id
from relight.store import Store
from relight.work.jobs.job import Job, Run
from relight.work.jobs.leases import LEASE_MS
from relight.work.jobs.registry import decode_job, job_id, schedule_of
from relight.work.jobs.schedules import (
    Schedule,
    count_missed,
    find_grace_ms,
    find_last,
    find_next,
    tell_moment,
    tell_span,
)

MOST_COUNTED = 1000
BY_HAND = "asked for by a person"
OPEN = "source = 'relight' and status in ('claimed', 'running')"
DUE = f"""
    select id, key, definition, next_run_at from job
    where source = 'relight' and state = 'scheduled' and next_run_at <= ?
        and not exists (select 1 from run where run.job_id = job.id and {OPEN})
    order by next_run_at limit ?
"""
WAITING = """
    select id, definition, next_run_at from job
    where source = 'relight' and state = 'scheduled' and next_run_at > ?
"""
NEXT_DUE = """
    select min(next_run_at) from job where source = 'relight' and state = 'scheduled'
"""
WRITE = """
    insert into run (id, source, key, job_id, status, scheduled_for, started_at, note, holder,
        lease_until, outcome, outcome_evidence)
    values (?, 'relight', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict do nothing
"""


UNREADABLE = (msgspec.MsgspecError, RelightError, LookupError, OSError)


class Slot(Struct, frozen=True, kw_only=True):
    """What is to be done about a job that is due: run its last slot, or let it go with a note."""

    at: int
    is_run: bool
    note: str | None
    next_at: int | None


def judge_slot(schedule: Schedule, *, due: int, now: int, timezone: str) -> Slot:
    """The one slot that stands for all that are due.

    Slots that were missed collapse into the last of them. Within the grace it is run, late as it
    is; beyond, a run would come at a time nobody meant.
    """
    last = find_last(schedule, due=due, now=now)
    missed = count_missed(schedule, due=due, last=last, limit=MOST_COUNTED)
    grace = find_grace_ms(schedule, last)
    is_run = now - last <= grace
    notes = []
    if not is_run:
        late = _tell_rough(now - last)
        notes.append(f"skipped: found {late} late, more than the grace of {_tell_rough(grace)}")
    if missed:
        several = f"{missed}{'+' if missed == MOST_COUNTED else ''} earlier slots missed"
        told = "1 earlier slot missed" if missed == 1 else several
        notes.append(f"stands for {told} since {tell_moment(due, timezone)}")
    note = "; ".join(notes) or None
    return Slot(at=last, is_run=is_run, note=note, next_at=find_next(schedule, last))


def _tell_rough(milliseconds: int) -> str:
    """A span in its largest unit, which is enough to judge by."""
    seconds = milliseconds // 1000
    for unit in (86400, 3600, 60):
        if seconds >= 2 * unit:
            seconds = seconds // unit * unit
            break
    return tell_span(max(seconds, 1))


def find_next_due(store: Store) -> int | None:
    """When something is due next, or was."""
    due: int | None = store.query(NEXT_DUE)[0][0]
    return due


def claim_due(store: Store, holder: str, *, now: int, limit: int) -> list[int]:
    """Claim up to `limit` runs for what is due; gives their ids.

    The write lock of the store is the lock of the tick: whoever has it sees all that the others
    claimed before.
    """
    claimed: list[int] = []
    while limit > len(claimed) and store.query(DUE, (now, 1)):
        with store.transaction() as database:
            for row in database.execute(DUE, (now, limit - len(claimed))).fetchall():
                run_id = _claim(database, row, holder, now=now, timezone=store.timezone)
                claimed += [run_id] if run_id is not None else []
    return claimed


def find_claimed(store: Store, holder: str) -> list[int]:
    """The runs that a holder has claimed, and that have not begun."""
    rows = store.query(
        f"select id from run where holder = ? and {OPEN} and status = 'claimed'"
        " order by scheduled_for",
        (holder,),
    )
    return [run_id for (run_id,) in rows]


def _claim(
    database: sqlite3.Connection,
    row: tuple[int, str, str, int],
    holder: str,
    *,
    now: int,
    timezone: str,
) -> int | None:
    """Claim the slot of a job that is due, or note why it is not run; then the next is due."""
    found_id, name, definition, due = row
    try:
        job = decode_job(definition)
        schedule = schedule_of(job, timezone)
        slot = judge_slot(schedule, due=due, now=now, timezone=job.timezone or timezone)
        state = "scheduled" if slot.next_at is not None else "done"
    except UNREADABLE as error:
        # one job that cannot be read, such as for want of its time zone, must not stop the others
        note = f"skipped, and the job paused: it cannot be read ({error})"
        slot, state = Slot(at=due, is_run=False, note=note, next_at=None), "paused"
    database.execute(
        "update job set next_run_at = ?, state = ? where id = ?", (slot.next_at, state, found_id)
    )
    key = f"{name}@{_stamp(slot.at)}"
    run_id = row_id("run", "relight", key)
    values: tuple[Any, ...] = (run_id, key, found_id)
    if slot.is_run:
        values += ("claimed", slot.at, None, slot.note, holder, now + LEASE_MS, None, None)
    else:
        evidence = msgspec.json.encode([slot.note]).decode()
        values += ("skipped", slot.at, None, slot.note, None, None, "unknown", evidence)
    written = database.execute(WRITE, values)
    return run_id if slot.is_run and written.rowcount == 1 else None


def bring_forward(store: Store, *, now: int) -> None:
    """Have no job wait for a later slot than its next one, as it would once a clock was set back.

    A machine that woke in the wrong year would else be silent until then.
    """
    earlier = []
    for found_id, definition, due in store.query(WAITING, (now,)):
        with suppress(*UNREADABLE):
            slot = find_next(schedule_of(decode_job(definition), store.timezone), now)
            if slot is not None and slot < due:
                earlier.append((slot, found_id, due))
    if earlier:
        with store.transaction() as database:
            database.executemany(
                "update job set next_run_at = ? where id = ? and next_run_at = ?", earlier
            )


def start_now(store: Store, job: Job, holder: str, *, now: int) -> Run:
    """A run because a person asks for it; not beside another of the same job."""
    # sessions of a run are named after it with a dash: none of this is one of the slot's own
    key = f"{job.name}@{_stamp(now)}.{secrets.token_hex(2)}"
    run = Run(
        id=row_id("run", "relight", key),
        key=key,
        job=job.name,
        scheduled_for=None,
        started_at=now,
    )
    with store.transaction() as database:
        running = database.execute(
            f"select key from run where job_id = ? and {OPEN}", (job_id(job.name),)
        ).fetchone()
        if running:
            raise RelightError(
                f"the job {job.name} is running already ({running[0]})",
                "wait for it: `relight job history` shows when it has ended",
            )
        values = (run.id, key, job_id(job.name), "running", None, now, BY_HAND, holder)
        database.execute(WRITE, (*values, now + LEASE_MS, None, None))
    return run


def begin(store: Store, run_id: int, holder: str, *, now: int) -> tuple[Job, Run] | None:
    """Begin a claimed run; None if it is not this holder's any more."""
    with store.transaction() as database:
        begun = database.execute(
            "update run set status = 'running', started_at = ?"
            " where id = ? and holder = ? and status = 'claimed'",
            (now, run_id, holder),
        )
        if not begun.rowcount:
            return None
        definition, key, name, slot = database.execute(
            "select definition, run.key, job.key, scheduled_for"
            " from run join job on job.id = run.job_id where run.id = ?",
            (run_id,),
        ).fetchone()
    run = Run(id=run_id, key=key, job=name, scheduled_for=slot, started_at=now)
    return decode_job(definition), run


def keep_lease(store: Store, holder: str, *, now: int) -> None:
    """Say that this holder is still at work."""
    with store.transaction() as database:
        database.execute(
            f"update run set lease_until = ? where holder = ? and {OPEN}",
            (now + LEASE_MS, holder),
        )


def _stamp(at: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at / 1000))
