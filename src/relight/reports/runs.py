"""Scheduled jobs and their runs, also those of other agents' schedulers."""

import time
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from relight.reports.retries import is_overdue
from relight.store import Store
from relight.store.queries import take_fields
from relight.store.queries.run_ends import RunEnding, RunSums, read_endings, sum_runs
from relight.store.queries.runs import JobFacts, RunReport, read_job_facts
from relight.store.sql import read_list
from relight.times import write_time

RECENT_RUNS = 30  # how many runs a job is judged by
NO_RUNS = RunSums("", 0, 0, 0, None)


class JobResults(Struct, frozen=True, kw_only=True):
    """A job with the results of its runs, its last one, and why it needs attention, if it does."""

    job: str
    name: str
    schedule: str | None
    # only where `registry.list_jobs` reads them: parsing schedules is not a report's work
    schedule_words: str | None = None
    timezone: str | None
    runner: str | None
    # the machines of a team that run it; None if this one does
    place: str | None = None
    skills: list[str]
    model: str | None
    provider: str | None
    script: str | None
    state: str | None
    created_at: str | None
    next_run_at: str | None
    # its scheduler has not begun the next run, whose time has passed
    is_overdue: bool
    successes: int
    failures: int
    unknown: int
    last_run_at: str | None
    last_outcome: str | None
    trouble: str | None


class JobReport(JobResults, frozen=True, kw_only=True):
    """A job with the number of its runs."""

    runs: int


class JobHistory(JobResults, frozen=True, kw_only=True):
    """A job with its runs, newest first."""

    runs: list[RunReport]


class JobList(Struct, frozen=True):
    """All jobs with the results of their runs."""

    jobs: list[JobReport]


class AnsweredRun(RunReport, frozen=True):
    """A run that has just ended, with its answer."""

    answer: str | None


class RunList(Struct, frozen=True):
    """Runs of jobs, newest first."""

    runs: list[RunReport]


class _Definition(Struct, frozen=True):
    """The parts of our own job's definition that a report shows."""

    timezone: str | UnsetType | None = UNSET
    runner: str = "chat"
    place: str | None = None


def read_jobs(store: Store, *, now: int | None = None) -> list[JobReport]:
    """Return every job with its last run and the outcomes of its runs."""
    now = round(time.time() * 1000) if now is None else now
    endings, sums = read_endings(store, each=RECENT_RUNS + 1), sum_runs(store)
    return [
        _show_job(
            store,
            job,
            endings.get(job.full_name, []),
            sums.get(job.full_name, NO_RUNS),
            now=now,
        )
        for job in read_job_facts(store)
    ]


def _show_job(
    store: Store, job: JobFacts, last: Sequence[RunEnding], sums: RunSums, *, now: int
) -> JobReport:
    own = None
    if job.definition:
        own = msgspec.json.decode(job.definition, type=_Definition)
    judged = [(run.status, run.outcome) for run in last if run.status != "running"]
    timezone = own.timezone if own else None
    return JobReport(
        **take_fields(job, JobReport, but=("skills", "created_at", "next_run_at")),
        **take_fields(sums, JobReport, but=["job"]),
        job=job.full_name,
        timezone=store.timezone if timezone is UNSET else timezone,
        runner=own.runner if own else None,
        place=own.place if own else None,
        skills=read_list(job.skills),
        created_at=write_time(job.created_at),
        next_run_at=write_time(job.next_run_at),
        is_overdue=is_overdue(job.next_run_at, now=now),
        unknown=sums.runs - sums.successes - sums.failures,
        last_run_at=write_time(sums.last_at),
        last_outcome=last[0].outcome if last else None,
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
