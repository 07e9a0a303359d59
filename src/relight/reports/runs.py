"""Scheduled jobs and what became of their runs, also those of other agents' schedulers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from relight.errors import MissingError
from relight.store import Store
from relight.store.jobs import IS_NAMED_AFTER
from relight.times import write_time

DELETED = "(a deleted job)"
USED = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
# what a run of ours tells of itself; those of others have none of it
TOLD = ("attempts", "note", "cost_nanos", *USED, "answer_file", "delivery", "warnings")
COLUMNS = (
    "run_id",
    "source",
    "job",
    "name",
    "scheduled_for",
    "started_at",
    "finished_at",
    "status",
    "outcome",
    "evidence",
    "session_id",
    "label",
    "why",
    "model",
    "provider",
    *TOLD,
)
# A person's word wins over what a run of ours was judged by.
KEPT = f"""
    select run.key as run_id, run.source, job.full_name as job, job.name, run.scheduled_for,
        run.started_at, run.finished_at, run.status,
        coalesce(label.outcome, run.outcome) as outcome, run.outcome_evidence as evidence,
        run.session_id, label.outcome as label, label.why,
        coalesce(run.model, job.model) as model, coalesce(run.provider, job.provider) as provider,
        {", ".join(f"run.{name}" for name in TOLD)}
    from run
    left join job on job.id = run.job_id
    left join label on label.session_id = run.session_id
"""
# A scheduled session whose run its scheduler's ledger forgot is a run all the same.
FORGOTTEN = f"""
    select session.key, session.source, job.full_name, job.name, null, session.started_at,
        session.ended_at, 'unknown', session.outcome, session.outcome_evidence, session.id, null,
        null, coalesce(session.model, job.model), job.provider, {", ".join(["null"] * len(TOLD))}
    from session join job on {IS_NAMED_AFTER}
    where not exists (select 1 from run where run.session_id = session.id)
"""
RUNS = f"({KEPT} union all {FORGOTTEN})"
NEWEST = "order by coalesce(told.started_at, told.scheduled_for) desc, told.run_id"
# what a run's session came to, asked for those runs alone that are shown
SUM = "(select sum({}) from session_day where root_id = told.session_id)"
PRICED = f"""
    select {", ".join(f"told.{name}" for name in COLUMNS)}, session.source || ':' || session.key,
        {", ".join(map(SUM.format, ("cost_nanos", "unpriced_turns", *USED)))}
    from ({{}}) as told left join session on session.id = told.session_id
"""
# what was skipped, or waits, has not been run
RAN = f"""
    select job, status, coalesce(outcome, 'unknown'), started_at from {RUNS} as told
    where status not in ('claimed', 'skipped') {NEWEST}
"""
LATELY = 30  # runs that a job is judged by
# The newest of each job. They are ranked by what that needs alone: what a run tells is long.
RECENT = f"""
    with forgotten ({", ".join(COLUMNS)}) as ({FORGOTTEN})
    {KEPT} where run.id in (
        select id from (
            select id, row_number() over (
                partition by job_id order by coalesce(started_at, scheduled_for) desc, key
            ) as place from run where status <> 'skipped'
        ) where place <= ?
    )
    union all
    select {", ".join(COLUMNS)} from (
        select *, row_number() over (partition by job order by started_at desc, run_id) as place
        from forgotten
    ) where place <= ?
"""


def read_jobs(store: Store) -> list[dict[str, Any]]:
    """Every job with its last run, how its runs went, and why a person should look at it."""
    rows = store.query(
        "select full_name, name, schedule, skills, model, provider, script, state, created_at,"
        " next_run_at, definition from job where state is null or state <> 'removed'"
        " order by name, key"
    )
    ran: dict[str, list[tuple[Any, ...]]] = {}
    for run in store.query(RAN):
        ran.setdefault(run[0], []).append(run)
    jobs = []
    for job, name, schedule, skills, model, provider, script, state, made, due, definition in rows:
        own = msgspec.json.decode(definition) if definition else {}
        runs = ran.get(job, ())
        outcomes = [outcome for _, _, outcome, _ in runs]
        last_at = next((began for _, _, _, began in runs if began is not None), None)
        judged = [
            (status, outcome) for _, status, outcome, _ in runs[: LATELY + 1] if status != "running"
        ]
        jobs.append(
            {
                "job": job,
                "name": name,
                "schedule": schedule,
                "timezone": own.get("timezone", store.timezone) if own else None,
                "runner": own.get("runner", "chat") if own else None,
                "skills": msgspec.json.decode(skills or "[]"),
                "model": model,
                "provider": provider,
                "script": script,
                "state": state,
                "created_at": write_time(made),
                "next_run_at": write_time(due),
                "runs": len(runs),
                "successes": outcomes.count("success"),
                "failures": outcomes.count("failure"),
                "last_run_at": write_time(last_at),
                "last_outcome": outcomes[0] if outcomes else None,
                "trouble": find_trouble(judged, is_own=bool(own)),
            }
        )
    return jobs


def find_trouble(runs: Sequence[tuple[str, str]], *, is_own: bool) -> str | None:
    """Why a person should look at a job: by the status and outcome of its runs, newest first.

    None where all is well. Of runs that are not ours an unknown end is nothing to look into: their
    scheduler did not tell it.

    >>> find_trouble([("failed", "failure"), ("done", "success")], is_own=True)
    'the last run failed'
    """
    row = next((at for at, (_, outcome) in enumerate(runs) if outcome != "failure"), len(runs))
    if row > LATELY:
        return f"the last {LATELY} runs or more failed"
    if row:
        return "the last run failed" if row == 1 else f"the last {row} runs failed"
    if is_own and runs and runs[0] == ("unknown", "unknown"):
        return "nobody knows how the last run went"
    known = runs[:LATELY]
    failed = sum(outcome == "failure" for _, outcome in known)
    is_frequent = failed and failed * 4 >= len(known)
    return f"{failed} of the last {len(known)} runs failed" if is_frequent else None


def find_foreign(store: Store, name: str) -> dict[str, Any] | None:
    """A job of another agent's scheduler, by its name or id, with how its runs went."""
    meant = find_meant(store, name)
    found = (job for job in read_jobs(store) if job["job"] in meant and job["runner"] is None)
    return next(found, None)


def find_meant(store: Store, name: str) -> list[str]:
    """The jobs that a person means: the one of just that name, else others' by name or id."""
    rows = store.query("select full_name from job where full_name = ?", (name,))
    rows = rows or store.query(
        "select full_name from job where source <> 'relight' and ? in (name, key)", (name,)
    )
    return [full_name for (full_name,) in rows]


def read_runs(
    store: Store, name: str | None = None, *, limit: int | None = None
) -> list[dict[str, Any]]:
    """Runs, newest first, of all jobs or of the one named by its name or id."""
    most = -1 if limit is None else limit
    test, values = ("", []) if name is None else _test_job(store, name)
    chosen = f"select * from {RUNS} as told {test} {NEWEST} limit ?"
    return [
        _tell(store, row) for row in store.query(PRICED.format(chosen) + NEWEST, (*values, most))
    ]


def find_run(store: Store, name: str, run_id: str) -> dict[str, Any] | None:
    """The run of a job that is called so, however old it is."""
    test, values = _test_job(store, name)
    called = "iif(source = 'relight', '', source || ':') || run_id"
    chosen = f"select * from {RUNS} as told {test} and {called} = ?"
    rows = store.query(PRICED.format(chosen), (*values, run_id))
    return _tell(store, rows[0]) if rows else None


def _test_job(store: Store, name: str) -> tuple[str, list[str]]:
    meant = find_meant(store, name)
    if not meant:
        raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")
    return f"where job in ({', '.join('?' * len(meant))})", meant


def read_recent(store: Store, *, each: int) -> dict[str, list[dict[str, Any]]]:
    """The last runs of every job by its name, so many of each, newest first, none skipped."""
    rows = store.query(PRICED.format(RECENT) + NEWEST, (each, each))
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        run = _tell(store, row)
        runs.setdefault(run["job"], []).append(run)
    return {job: found[:each] for job, found in runs.items()}


def read_run(store: Store, run_id: int) -> dict[str, Any]:
    """One run of ours."""
    return _tell(store, store.query(PRICED.format(f"{KEPT} where run.id = ?"), (run_id,))[0])


def _tell(store: Store, row: tuple[Any, ...]) -> dict[str, Any]:
    run = dict(zip(COLUMNS, row, strict=False))
    session, nanos, unpriced, *used = row[len(COLUMNS) :]
    is_priced = nanos is not None and not (unpriced and not nanos)
    is_own = run["source"] == "relight"
    if is_own and run["status"] == "skipped":
        run["cost_nanos"] = 0
    if run["cost_nanos"] is not None:
        nanos, is_priced = run["cost_nanos"], True
    for name, tokens in zip(USED, used, strict=True):
        run[name] = tokens if run[name] is None else run[name]
    started, finished = run["started_at"], run["finished_at"]
    return {
        "run_id": run["run_id"] if is_own else f"{run['source']}:{run['run_id']}",
        "job": run["job"],
        "name": run["name"] or run["job"] or DELETED,
        "scheduled_for": write_time(run["scheduled_for"]),
        "started_at": write_time(started),
        "finished_at": write_time(finished),
        "status": run["status"],
        "outcome": run["outcome"] or "unknown",
        "evidence": _tell_evidence(run) if is_own else _read(run["evidence"], []),
        "note": run["note"],
        "warnings": _read(run["warnings"], []),
        "attempts": _count_attempts(run),
        "session_id": session,
        "model": run["model"],
        "provider": run["provider"],
        **{name: run[name] for name in USED},
        "cost_usd": nanos / 1e9 if is_priced else None,
        "unpriced_turns": unpriced,
        "duration_seconds": (finished - started) / 1000 if finished and started else None,
        "answer_file": str(store.config.home / run["answer_file"]) if run["answer_file"] else None,
        "delivery": _read(run["delivery"], None),
    }


def _tell_evidence(run: Mapping[str, Any]) -> list[str]:
    """What our run was judged by; a person's word, which came later, stands before it."""
    evidence: list[str] = _read(run["evidence"], [])
    if not run["label"]:
        return evidence
    why = f": {run['why']}" if run["why"] else ""
    return [f"a person said {run['label']}{why}", *evidence]


def _count_attempts(run: Mapping[str, Any]) -> int:
    if run["attempts"] is not None:
        return int(run["attempts"])
    return 0 if run["status"] in ("claimed", "skipped") else 1


def _read(text: str | None, default: Any) -> Any:
    return msgspec.json.decode(text) if text else default
