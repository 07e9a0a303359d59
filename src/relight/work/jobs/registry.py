"""The jobs that are kept in the store: added, found, paused, resumed, removed."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec

from relight.errors import MissingError, RelightError
from relight.ids import row_id
from relight.store import Store
from relight.work.jobs.job import Job, check_job
from relight.work.jobs.schedules import Schedule, find_next, read_schedule

SOURCE = "relight"
JobState = Literal["scheduled", "paused", "done", "removed"]
# What was there of a removed job makes way; its runs stay.
WRITE = """
    insert or replace into job (id, source, key, name, schedule, prompt, skills, model, provider,
        script, state, created_at, next_run_at, definition)
    values (?, 'relight', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def job_id(name: str) -> int:
    return row_id("job", SOURCE, name)


def schedule_of(job: Job, timezone: str) -> Schedule:
    """When a job is due; `timezone` is the store's, for a job that has none of its own."""
    zone = job.timezone or timezone
    return read_schedule(job.schedule, timezone=zone, made_at=job.created_at or 0)


def add_job(store: Store, job: Job, *, now: int, replace: bool = False) -> None:
    """Keep a job. One that is there already is only replaced when told so."""
    add_jobs(store, [job], now=now, replace=replace)


def add_jobs(
    store: Store,
    jobs: Sequence[Job],
    *,
    now: int,
    replace: bool = False,
    paused: Collection[str] = (),
) -> None:
    """Keep all of these jobs or, if one of them cannot be, none; those named `paused` as such.

    A replaced job keeps its history, its state and the moment it was made.
    """
    with store.transaction() as database:
        for job in jobs:
            row = database.execute(
                "select state, created_at from job where id = ? and state <> 'removed'",
                (job_id(job.name),),
            ).fetchone()
            if row is not None and not replace:
                hint = "`relight job edit` changes it"
                raise RelightError(f"there is a job {job.name} already", hint)
            made_at = row[1] if row else now
            kept = check_job(msgspec.structs.replace(job, created_at=made_at))
            due = find_next(schedule_of(kept, store.timezone), now)
            if due is None:
                raise RelightError(
                    f"the schedule {job.schedule!r} of {job.name} lies in the past",
                    "name a time that is to come",
                )
            is_paused = job.name in paused or (row is not None and row[0] == "paused")
            state: JobState = "paused" if is_paused else "scheduled"
            database.execute(WRITE, _row(kept, state=state, due=None if is_paused else due))


def _row(job: Job, *, state: JobState, due: int | None) -> tuple[Any, ...]:
    return (
        job_id(job.name),
        job.name,
        job.name,
        job.schedule,
        job.prompt,
        msgspec.json.encode(job.skills).decode(),
        job.model,
        job.provider,
        job.script,
        state,
        job.created_at,
        due,
        msgspec.json.encode(job).decode(),
    )


def find_job(store: Store, name: str) -> Job:
    """The job of that name; one of another agent's scheduler is not ours to run or change."""
    return _read_one(store, name)[0]


def find_state(store: Store, name: str) -> tuple[JobState, int | None]:
    """The state of a job, and when it is due next."""
    _, state, due = _read_one(store, name)
    return state, due


def _read_one(store: Store, name: str) -> tuple[Job, JobState, int | None]:
    rows = store.query(
        "select definition, state, next_run_at from job where id = ? and state <> 'removed'",
        (job_id(name),),
    )
    if rows:
        definition, state, due = rows[0]
        return decode_job(definition), state, due
    foreign = store.query(
        "select full_name from job where source <> 'relight' and ? in (full_name, key, name)",
        (name,),
    )
    if foreign:
        raise RelightError(
            f"the job {foreign[0][0]} belongs to another scheduler",
            "Relight shows its runs (`relight job history`); change it where it was made",
        )
    raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")


def decode_job(definition: str) -> Job:
    return msgspec.json.decode(definition, type=Job)


def read_own_jobs(store: Store) -> list[Job]:
    """All jobs of our own, by name."""
    rows = store.query(
        "select definition from job where source = 'relight' and state <> 'removed' order by key"
    )
    return [decode_job(definition) for (definition,) in rows]


def find_paused(store: Store) -> set[str]:
    """The names of our own jobs that are paused."""
    rows = store.query("select key from job where source = 'relight' and state = 'paused'")
    return {name for (name,) in rows}


def is_past(store: Store, job: Job, *, now: int) -> bool:
    """Whether a job has no more times to come."""
    return find_next(schedule_of(job, store.timezone), now) is None


def pause_job(store: Store, name: str) -> None:
    """No run begins any more until it is resumed; one that runs goes on."""
    _read_one(store, name)
    _set_state(store, name, "paused", None)


def resume_job(store: Store, name: str, *, now: int) -> int:
    """Go on with the next slot; what was due meanwhile was not wanted. Gives when that is."""
    job = find_job(store, name)
    due = find_next(schedule_of(job, store.timezone), now)
    if due is None:
        raise RelightError(
            f"the job {name} has no more times to come", "give it others with `relight job edit`"
        )
    _set_state(store, name, "scheduled", due)
    return due


def remove_job(store: Store, name: str) -> None:
    """The job is gone; its runs stay in the history."""
    _read_one(store, name)
    _set_state(store, name, "removed", None)


def _set_state(store: Store, name: str, state: JobState, due: int | None) -> None:
    with store.transaction() as database:
        database.execute(
            "update job set state = ?, next_run_at = ? where id = ?", (state, due, job_id(name))
        )
