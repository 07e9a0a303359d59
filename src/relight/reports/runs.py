"""Scheduled jobs and their runs, also those of other agents' schedulers."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from relight.errors import MissingError
from relight.store import Store
from relight.store.queries import runs as queries
from relight.store.queries.runs import JobFacts, RunEnding, RunUsage
from relight.times import write_time

DELETED = "(a deleted job)"
RECENT_RUNS = 30  # how many runs a job is judged by


class RunDelivery(Struct, frozen=True):
    """Where the answer of a run was sent, and whether it arrived."""

    to: str
    status: str
    attempts: int = 1
    error: str | None = None


class RunReport(Struct, frozen=True, kw_only=True):
    """One run of a job: its outcome with evidence, its usage and its answer."""

    run_id: str
    job: str | None
    name: str
    scheduled_for: str | None
    started_at: str | None
    finished_at: str | None
    status: str
    outcome: str
    evidence: list[str]
    note: str | None
    warnings: list[str]
    attempts: int
    session_id: str | None
    model: str | None
    provider: str | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced_turns: int | None
    duration_seconds: float | None
    answer_file: str | None
    delivery: RunDelivery | None


class JobReport(Struct, frozen=True, kw_only=True):
    """A job with the number of its runs, its last one, and why it needs attention, if it does."""

    job: str
    name: str
    schedule: str | None
    timezone: str | None
    runner: str | None
    skills: list[str]
    model: str | None
    provider: str | None
    script: str | None
    state: str | None
    created_at: str | None
    next_run_at: str | None
    runs: int
    successes: int
    failures: int
    last_run_at: str | None
    last_outcome: str | None
    trouble: str | None


class JobHistory(JobReport, frozen=True, kw_only=True):
    """A job with its runs, newest first."""

    history: list[RunReport]


class JobList(Struct, frozen=True):
    """All jobs with the results of their runs."""

    jobs: list[JobReport]


class RunList(Struct, frozen=True):
    """Runs of jobs, newest first."""

    runs: list[RunReport]


class _Definition(Struct, frozen=True):
    """The parts of our own job's definition that a report shows."""

    timezone: str | UnsetType | None = UNSET
    runner: str = "chat"


def read_jobs(store: Store) -> list[JobReport]:
    """Return every job with its last run and the outcomes of its runs."""
    endings: dict[str | None, list[RunEnding]] = {}
    for run in queries.read_endings(store):
        endings.setdefault(run.job, []).append(run)
    return [
        _show_job(store, job, endings.get(job.full_name, [])) for job in queries.read_jobs(store)
    ]


def _show_job(store: Store, job: JobFacts, runs: Sequence[RunEnding]) -> JobReport:
    own = None
    if job.definition:
        own = msgspec.json.decode(job.definition, type=_Definition)
    outcomes = [run.outcome for run in runs]
    last_at = next((run.started_at for run in runs if run.started_at is not None), None)
    judged = [
        (run.status, run.outcome) for run in runs[: RECENT_RUNS + 1] if run.status != "running"
    ]
    return JobReport(
        job=job.full_name,
        name=job.name,
        schedule=job.schedule,
        timezone=None if own is None else store.timezone if own.timezone is UNSET else own.timezone,
        runner=own.runner if own else None,
        skills=_decode_list(job.skills),
        model=job.model,
        provider=job.provider,
        script=job.script,
        state=job.state,
        created_at=write_time(job.created_at),
        next_run_at=write_time(job.next_run_at),
        runs=len(runs),
        successes=outcomes.count("success"),
        failures=outcomes.count("failure"),
        last_run_at=write_time(last_at),
        last_outcome=outcomes[0] if outcomes else None,
        trouble=find_trouble(judged, is_own=own is not None),
    )


def find_trouble(runs: Sequence[tuple[str, str]], *, is_own: bool) -> str | None:
    """Return why a job needs attention, from status and outcome of its runs, newest first.

    None if all is well. Other schedulers do not report how a run ended: an unknown end of theirs
    is no trouble.

    >>> find_trouble([("failed", "failure"), ("done", "success")], is_own=True)
    'the last run failed'
    """
    row = next((at for at, (_, outcome) in enumerate(runs) if outcome != "failure"), len(runs))
    if row > RECENT_RUNS:
        return f"the last {RECENT_RUNS} runs or more failed"
    if row:
        return "the last run failed" if row == 1 else f"the last {row} runs failed"
    if is_own and runs and runs[0] == ("unknown", "unknown"):
        return "the outcome of the last run is unknown"
    known = runs[:RECENT_RUNS]
    failed = sum(outcome == "failure" for _, outcome in known)
    is_frequent = failed and failed * 4 >= len(known)
    return f"{failed} of the last {len(known)} runs failed" if is_frequent else None


def find_foreign(store: Store, name: str) -> JobReport | None:
    """Return a job of another agent's scheduler by its name or id."""
    found = queries.find_jobs(store, name)
    return next((one for one in read_jobs(store) if one.job in found and one.runner is None), None)


def find_job_names(store: Store, name: str) -> list[str]:
    """Return the job with exactly this name, else other schedulers' jobs by name or id."""
    return queries.find_jobs(store, name)


def read_runs(
    store: Store, name: str | None = None, *, limit: int | None = None
) -> list[RunReport]:
    """Return the newest runs of all jobs, or of the one with this name or id."""
    jobs = None if name is None else _find_jobs(store, name)
    return [_show_run(store, run) for run in queries.read_runs(store, jobs, limit=limit)]


def find_run(store: Store, name: str, run_id: str) -> RunReport | None:
    """Return the run of a job by its id, however old it is."""
    found = queries.find_run(store, _find_jobs(store, name), run_id)
    return _show_run(store, found) if found else None


def _find_jobs(store: Store, name: str) -> list[str]:
    found = queries.find_jobs(store, name)
    if not found:
        raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")
    return found


def read_recent(store: Store, *, each: int) -> dict[str | None, list[RunReport]]:
    """Return the newest runs of every job by its name, newest first, none skipped."""
    runs: dict[str | None, list[RunReport]] = {}
    for run in queries.read_recent(store, each=each):
        own = runs.setdefault(run.job, [])
        if len(own) < each:
            own.append(_show_run(store, run))
    return runs


def read_run(store: Store, run_id: int) -> RunReport:
    """Return one of our runs by its row."""
    return _show_run(store, queries.read_run(store, run_id))


def _show_run(store: Store, run: RunUsage) -> RunReport:
    is_own = run.source == "relight"
    evidence = _decode_list(run.evidence)
    if is_own and run.label:
        why = f": {run.why}" if run.why else ""
        evidence = [f"a person said {run.label}{why}", *evidence]
    started, finished = run.started_at, run.finished_at
    return RunReport(
        run_id=run.run_id if is_own else f"{run.source}:{run.run_id}",
        job=run.job,
        name=run.name or run.job or DELETED,
        scheduled_for=write_time(run.scheduled_for),
        started_at=write_time(started),
        finished_at=write_time(finished),
        status=run.status,
        outcome=run.outcome or "unknown",
        evidence=evidence,
        note=run.note,
        warnings=_decode_list(run.warnings),
        attempts=_count_attempts(run),
        session_id=run.session,
        model=run.model,
        provider=run.provider,
        input_tokens=_first(run.input_tokens, run.session_input_tokens),
        cache_read_tokens=_first(run.cache_read_tokens, run.session_cache_read_tokens),
        cache_write_tokens=_first(run.cache_write_tokens, run.session_cache_write_tokens),
        output_tokens=_first(run.output_tokens, run.session_output_tokens),
        cost_usd=_find_cost(run, is_own=is_own),
        unpriced_turns=run.unpriced_turns,
        duration_seconds=(finished - started) / 1000 if finished and started else None,
        answer_file=str(store.config.home / run.answer_file) if run.answer_file else None,
        delivery=msgspec.json.decode(run.delivery, type=RunDelivery) if run.delivery else None,
    )


def _find_cost(run: RunUsage, *, is_own: bool) -> float | None:
    """Return the cost that the run recorded, else its session's; a skipped run costs nothing."""
    if is_own and run.status == "skipped":
        return 0.0
    if run.cost_nanos is not None:
        return run.cost_nanos / 1e9
    nanos = run.session_nanos
    return None if nanos is None or (run.unpriced_turns and not nanos) else nanos / 1e9


def _count_attempts(run: RunUsage) -> int:
    if run.attempts is not None:
        return run.attempts
    return 0 if run.status in ("claimed", "skipped") else 1


def _first(own: int | None, of_session: int | None) -> int | None:
    return of_session if own is None else own


def _decode_list(text: str | None) -> list[str]:
    return msgspec.json.decode(text, type=list[str]) if text else []
