"""Hermes' scheduler: `cron/jobs.json`, and `cron/executions.db`, the ledger of its runs.

Only the ledger records that a run failed: Hermes closes its session as `cron_complete` in any case.
The ledger holds a thousand runs and no session ids.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from relight.model import Job, Mark, Origin, Piece, Run
from relight.sources.files import pass_origin, read_document, reading_database
from relight.times import read_time

JOBS, LEDGER = "jobs.json", "executions.db"


def fetch_cron(source: str, origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """All jobs or all runs, whenever their file has changed: both are small."""
    rows = _read_jobs(origin) if origin.path.endswith(JOBS) else _read_ledger(origin)
    before = marks.get("") or Mark(path=origin.path)
    raw = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    yield Piece(source=source, raw=raw, before=before, after=pass_origin(before, origin))


def _read_jobs(origin: Origin) -> list[dict[str, Any]]:
    decoded = read_document(origin.path)
    jobs = decoded.get("jobs") if isinstance(decoded, dict) else decoded
    return [{"table": "jobs", **job} for job in jobs or () if isinstance(job, dict)]


def _read_ledger(origin: Origin) -> list[dict[str, Any]]:
    with reading_database(origin.path, "try again later") as database:
        rows = database.execute("select * from executions order by claimed_at").fetchall()
    return [{"table": "executions", **dict(row)} for row in rows]


def read_job(row: Mapping[str, Any]) -> Job:
    schedule = row.get("schedule") or {}
    skills = row.get("skills") or ([row["skill"]] if row.get("skill") else [])
    state = row.get("state") if row.get("enabled", True) else "paused"
    return Job(
        key=str(row["id"]),
        name=str(row.get("name") or row["id"]),
        schedule=row.get("schedule_display") or schedule.get("display") or schedule.get("expr"),
        prompt=row.get("prompt"),
        skills=[str(skill) for skill in skills],
        model=row.get("model") or row.get("model_snapshot"),
        provider=row.get("provider") or row.get("provider_snapshot"),
        script=row.get("script"),
        state=state,
        created_at=read_time(row.get("created_at")),
        next_run_at=read_time(row.get("next_run_at")),
    )


def read_run(row: Mapping[str, Any]) -> Run:
    return Run(
        key=str(row["id"]),
        job=str(row["job_id"]),
        status=str(row["status"]),
        error=row.get("error"),
        scheduled_for=read_time(row.get("claimed_at")),
        started_at=read_time(row.get("started_at") or row.get("claimed_at")),
        finished_at=read_time(row.get("finished_at")),
    )
