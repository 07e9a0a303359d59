"""Scheduled jobs and what became of their runs, also those of other agents' schedulers."""

from typing import Any

import msgspec

from relight.errors import RelightError
from relight.store import Store
from relight.times import write_time

# A scheduled session whose run its ledger has forgotten is a run all the same.
RUNS = """(
    select run.key as run_id, run.source, job.key as job, job.name, run.scheduled_for,
        run.started_at, run.finished_at, run.status, run.outcome, run.outcome_evidence,
        run.session_id
    from run left join job on job.id = run.job_id
    union all
    select session.key, session.source, job.key, job.name, null, session.started_at,
        session.ended_at, 'unknown', session.outcome, session.outcome_evidence, session.id
    from session join job on job.source = session.source
        and substr(session.key, 1, length(job.key) + 6) = 'cron_' || job.key || '_'
    where not exists (select 1 from run where run.session_id = session.id)
)"""


def read_jobs(store: Store) -> list[dict[str, Any]]:
    """Every job with its last run and how its runs went."""
    rows = store.query(
        "select source, key, name, schedule, skills, model, provider, script, state, created_at,"
        " next_run_at from job order by name, key"
    )
    runs = read_runs(store)
    jobs = []
    for source, key, name, schedule, skills, model, provider, script, state, made, due in rows:
        own = [run for run in runs if run["job"] == f"{source}:{key}"]
        jobs.append(
            {
                "job": f"{source}:{key}",
                "name": name,
                "schedule": schedule,
                "skills": msgspec.json.decode(skills or "[]"),
                "model": model,
                "provider": provider,
                "script": script,
                "state": state,
                "created_at": write_time(made),
                "next_run_at": write_time(due),
                "runs": len(own),
                "successes": sum(run["outcome"] == "success" for run in own),
                "failures": sum(run["outcome"] == "failure" for run in own),
                "last_run_at": own[0]["started_at"] if own else None,
                "last_outcome": own[0]["outcome"] if own else None,
            }
        )
    return jobs


def read_runs(store: Store, name: str | None = None) -> list[dict[str, Any]]:
    """Runs, newest first, of all jobs or of the one named by its name or id."""
    rows = store.query(
        "select run_id, source, job, name, scheduled_for, started_at, finished_at, status,"
        " outcome, outcome_evidence, session_id,"
        " (select source || ':' || key from session where id = told.session_id),"
        " (select sum(cost_nanos) from session_day where root_id = told.session_id),"
        " (select sum(unpriced_turns) from session_day where root_id = told.session_id)"
        f" from {RUNS} as told order by started_at desc, run_id"
    )
    runs = [_tell(row) for row in rows]
    if name is None:
        return runs
    own = [run for run in runs if name in (run["job"], run["name"], run["job"].split(":")[-1])]
    if not own and not any(name in (job["job"], job["name"]) for job in _names(store)):
        raise RelightError(f"there is no job {name!r}", "`relight job list` shows them")
    return own


def _names(store: Store) -> list[dict[str, str]]:
    rows = store.query("select source || ':' || key, name from job")
    return [{"job": job, "name": name} for job, name in rows]


def _tell(row: tuple[Any, ...]) -> dict[str, Any]:
    run_id, source, job, name, due, started, finished, status, outcome, evidence, *rest = row
    _, session, nanos, unpriced = rest
    is_priced = nanos is not None and not (unpriced and not nanos)
    return {
        "run_id": f"{source}:{run_id}",
        "job": f"{source}:{job}",
        "name": name or job,
        "scheduled_for": write_time(due),
        "started_at": write_time(started),
        "finished_at": write_time(finished),
        "status": status,
        "outcome": outcome or "unknown",
        "evidence": msgspec.json.decode(evidence or "[]"),
        "attempts": 1,
        "session_id": session,
        "cost_usd": nanos / 1e9 if is_priced else None,
        "duration_seconds": (finished - started) / 1000 if finished and started else None,
        "answer_file": None,
        "delivery": None,
    }
