"""The table `job`: Relight's own jobs with their definitions, and those of other schedulers.

The functions here read and write rows. What a job is, and when it is due, is in `work/jobs/`.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.sql import Connection, insert, replacing

# The session of a scheduler's job is named after the job: this finds all sessions of a job. The
# character after `_` is the backtick. By the last test PostgreSQL finds the sessions of all jobs;
# the casts keep SQLite from searching these for each job.
IS_NAMED_AFTER = """
    session.source = job.source and job.source <> 'relight'
    and session.key >= 'cron_' || job.key || '_' and session.key < 'cron_' || job.key || '`'
    and cast(session.key as text) >= 'cron_' and cast(session.key as text) < 'cron`'
"""
# the sessions of all jobs
OF_JOBS = f"""
    select session_id from run where session_id is not null
    union
    select session_id from run_attempt
    union
    select session.id from job join session on {IS_NAMED_AFTER}
"""
_SCHEDULED = "source = 'relight' and state = 'scheduled'"
_DUE = """
    id, key, definition, next_run_at, (
        select retry_at from run where run.job_id = job.id and run.source = 'relight'
            and run.started_at is not null order by run.started_at desc limit 1
    ) as retry_at
"""


class JobRow(Struct, frozen=True, kw_only=True):
    """A row of `job`; `skills` and `definition` are JSON. Only our own jobs have a definition."""

    id: int
    source: str
    key: str
    name: str
    schedule: str | None = None
    prompt: str | None = None
    skills: str = "[]"
    model: str | None = None
    provider: str | None = None
    script: str | None = None
    state: str | None = None
    created_at: int | None = None
    next_run_at: int | None = None
    definition: str | None = None
    # where it may run: None is this store's own schedulers
    place: str | None = None


class OwnJob(Struct, frozen=True):
    """Definition and state of one of Relight's own jobs."""

    id: int
    key: str
    definition: str
    state: str
    created_at: int
    next_run_at: int | None


class DueJob(Struct, frozen=True):
    """A scheduled job, and its next slot."""

    id: int
    key: str
    definition: str
    next_run_at: int
    # the last run ended with the time before which no other may be tried
    retry_at: int | None


def replace_job(database: Connection, row: JobRow) -> None:
    """Write the row of a job, in the place of an earlier one with the same id."""
    insert(database, "job", [row], on_conflict=replacing(JobRow, "id"))


def find_own_job(store: Store, job_id: int) -> OwnJob | None:
    """The job with this id, unless it was removed."""
    return store.find(OwnJob, "select * from job where id = ? and state <> 'removed'", (job_id,))


def read_own_definitions(store: Store) -> list[OwnJob]:
    """Relight's own jobs by name, without the removed ones."""
    statement = "select * from job where source = 'relight' and state <> 'removed' order by key"
    return store.read(OwnJob, statement)


def read_set_models(store: Store) -> dict[str, str]:
    """The model that is set in each job, by full name."""
    rows = store.query(
        "select full_name, model from job where model is not null"
        " and coalesce(state, '') <> 'removed'"
    )
    return {str(name): str(model) for name, model in rows}


def find_foreign_name(store: Store, name: str) -> str | None:
    """The full name of another scheduler's job that is known by this name or key."""
    return store.find_first(
        "select full_name from job where source <> 'relight' and ? in (full_name, key, name)"
        " order by full_name",
        (name,),
    )


def find_prompt(store: Store, full_name: str) -> str | None:
    """The prompt of a job, without the secrets in it."""
    return store.find_first("select prompt from job where full_name = ?", (full_name,))


def set_job_state(database: Connection, job_id: int, state: str, next_run_at: int | None) -> None:
    """Change a job's state and its next slot."""
    statement = "update job set state = ?, next_run_at = ? where id = ?"
    database.execute(statement, (state, next_run_at, job_id))


def set_definition(
    database: Connection,
    job_id: int,
    definition: str,
    *,
    model: str | None,
    provider: str | None,
) -> None:
    """Change what a job runs on; its next slot stays."""
    statement = "update job set definition = ?, model = ?, provider = ? where id = ?"
    database.execute(statement, (definition, model, provider, job_id))


def find_due_jobs(
    store: Store, *, now: int, limit: int, places: Sequence[str] = (), is_own: bool = True
) -> list[DueJob]:
    """Up to `limit` jobs whose slot has come and that are not running, the earliest first.

    They may run at one of `places`; with `is_own` also those that ask for no place.
    """
    at = f"place in ({', '.join('?' for _ in places)})" if places else "1 = 0"
    allowed = f"(place is null or {at})" if is_own else at
    return store.read(
        DueJob,
        f"""
            select {_DUE} from job
            where {_SCHEDULED} and {allowed} and next_run_at <= ? and not exists (
                select 1 from run where run.job_id = job.id
                    and run.source = 'relight' and run.status in ('claimed', 'running')
            )
            order by next_run_at limit ?
        """,
        (*places, now, limit),
    )


def find_waiting_jobs(store: Store, *, now: int) -> list[DueJob]:
    """The scheduled jobs whose slot is still to come."""
    statement = f"select {_DUE} from job where {_SCHEDULED} and next_run_at > ?"
    return store.read(DueJob, statement, (now,))


def find_next_due(store: Store) -> int | None:
    """The earliest slot of all scheduled jobs, past or to come."""
    return store.find_first(f"select min(next_run_at) from job where {_SCHEDULED}")


def move_slots(store: Store, moves: Iterable[tuple[int, int, int]]) -> None:
    """Set the next slot of jobs: (new slot, job id, old slot), unless it has changed meanwhile."""
    with store.transaction() as database:
        statement = "update job set next_run_at = ? where id = ? and next_run_at = ?"
        database.executemany(statement, list(moves))


def restore_slot(database: Connection, job_id: int, slot: int) -> None:
    """Make a slot due again that was claimed and never begun, unless the job is paused or gone."""
    database.execute(
        "update job set state = 'scheduled',"
        " next_run_at = case when next_run_at < ? then next_run_at else ? end"
        " where id = ? and state in ('scheduled', 'done')",
        (slot, slot, job_id),
    )
