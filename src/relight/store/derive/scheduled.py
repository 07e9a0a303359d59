"""Jobs and runs that another scheduler's own ledger tells of."""

import sqlite3
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict

from relight.ids import row_id

if TYPE_CHECKING:
    from relight.store.write.seal import Sealed

WRITE_JOB = """
    insert or replace into job (id, source, key, name, schedule, prompt, skills, model, provider,
        script, state, created_at, next_run_at)
    values (:id, :source, :key, :name, :schedule, :prompt, :skills, :model, :provider,
        :script, :state, :created_at, :next_run_at)
"""
# a job that was deleted, or whose file is read later: its runs tell its id, and no more
WRITE_STUB = """
    insert or ignore into job (id, source, key, name, skills)
    values (?1, ?2, ?3, ?2 || ':' || ?3, '[]')
"""
# The session that a scheduler's job left is named after it: this finds a job's sessions, all that
# begin so. The character after `_` is the backtick.
IS_NAMED_AFTER = """
    session.source = job.source and job.source <> 'relight'
    and session.key >= 'cron_' || job.key || '_' and session.key < 'cron_' || job.key || '`'
"""
WRITE_RUN = """
    insert into run (id, source, key, job_id, session_id, status, error, scheduled_for, started_at,
        finished_at)
    values (:id, :source, :key, :job_id, :session_id, :status, :error, :scheduled_for, :started_at,
        :finished_at)
    on conflict (id) do update set
        status = excluded.status, error = excluded.error, started_at = excluded.started_at,
        finished_at = excluded.finished_at, session_id = coalesce(session_id, excluded.session_id),
        outcome = null
"""


def write_scheduled(database: sqlite3.Connection, piece: "Sealed") -> None:
    """Write jobs as they are now, and runs as far as they have come."""
    source = piece.source
    for job in piece.jobs:
        told = {"skills": msgspec.json.encode(job.skills).decode(), "source": source}
        database.execute(WRITE_JOB, asdict(job) | told | {"id": row_id("job", source, job.key)})
    for run in piece.runs:
        job_id = row_id("job", source, run.job)
        database.execute(WRITE_STUB, (job_id, source, run.job))
        ids = {
            "id": row_id("run", source, run.key),
            "job_id": job_id,
            "session_id": run.session and row_id("session", source, run.session),
        }
        database.execute(WRITE_RUN, asdict(run) | ids | {"source": source})
