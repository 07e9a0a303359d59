"""A job as people see it: all that was written of it, in words, with the times to come."""

from itertools import islice
from typing import Any

from relight.store import Store
from relight.times import write_time
from relight.work.jobs.job import Job
from relight.work.jobs.registry import find_job, find_state, schedule_of
from relight.work.jobs.schedules import tell_moment

TIMES = 3


def describe_job(store: Store, name: str, *, now: int) -> dict[str, Any]:
    """All of a job's fields, its schedule in words, and the next three times that it is due."""
    job = find_job(store, name)
    state, due = find_state(store, name)
    fields: dict[str, Any] = {
        field: getattr(job, field) for field in Job.__struct_fields__ if field != "created_at"
    }
    zone = job.timezone or store.timezone
    slots = _find_slots(job, zone, due=due, now=now)
    return fields | {
        "job": job.name,
        "timezone": zone,
        "schedule_words": schedule_of(job, zone).words,
        "state": state,
        "created_at": write_time(job.created_at),
        "next_run_at": write_time(due),
        "next_times": [write_time(slot) for slot in slots],
        "next_times_told": [tell_moment(slot, zone) for slot in slots],
    }


def _find_slots(job: Job, zone: str, *, due: int | None, now: int) -> list[int]:
    if due is None:
        return []
    first = [due] if due > now else []
    return [*first, *islice(schedule_of(job, zone).slots(max(due, now)), TIMES - len(first))]
