"""Failed runs and sessions: what failed, why, and what it cost."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.judging.causes import Cause, find_cause
from relight.reports.retries import judge_retry
from relight.store import Store
from relight.store.queries import add_known, group_rows, take_fields
from relight.store.queries import failed_work as queries
from relight.store.queries.failed_work import FailedGroup, FailedRow, FailedTally
from relight.store.queries.filters import Filter
from relight.text import count, dollars, join_words
from relight.times import write_time

NEWEST = 100
SHOWN_JOBS = 3


class FailedSums(Struct, frozen=True, kw_only=True):
    """A number of failed runs and sessions, and what they cost.

    `unpriced_turns` are in no cost. `unrecorded_runs` left no session, so that the record knows no
    cost of theirs.
    """

    runs: int
    sessions: int
    cost_usd: float | None
    unpriced_turns: int
    unrecorded_runs: int


class FailedJob(Struct, frozen=True):
    """A job with failed runs."""

    job: str | None
    name: str
    runs: int
    last_at: str | None


class FailedTotals(FailedSums, frozen=True, kw_only=True):
    """All failed runs and sessions of a part of the record, with the jobs that failed most."""

    jobs: list[FailedJob]


class FailureCause(FailedSums, frozen=True, kw_only=True):
    """Failed runs and sessions of one kind and cause, with the newest one as example."""

    kind: str
    cause: str
    jobs: list[str]
    last_at: str | None
    session_id: str | None
    example: list[str]


class FailedWork(Struct, frozen=True, kw_only=True):
    """A failed run of a job, or a failed session that belongs to no failed run.

    `name` is that of the job. `burnt_usd` is the part of the cost that went into spirals, null if
    it is not known.
    """

    what: Literal["run", "session"]
    run_id: str | None
    job: str | None
    name: str | None
    session_id: str | None
    at: str | None
    kind: str
    cause: str
    evidence: list[str]
    title: str | None
    source: str
    model: str | None
    project: str | None
    cost_usd: float | None
    unpriced_turns: int
    burnt_usd: float | None = None
    # whether another run can help, and when; for a job's last run also in words
    can_retry: bool | None
    retry_at: str | None
    next_run_at: str | None
    retry: str | None


class FailedReport(Struct, frozen=True, kw_only=True):
    """Failed runs and sessions: their sums, their causes, and the newest of them."""

    failed: FailedTotals
    causes: list[FailureCause]
    runs: list[FailedWork]


def read_failed_work(
    store: Store, chosen: Filter, *, slots: Mapping[str, int | None] | None = None
) -> FailedReport:
    """Return failed runs and sessions; the causes of most failures come first.

    `slots` are the next times of jobs that must wait longer than until their stored next time.
    """
    groups = queries.group_failed(store, chosen)
    alike = group_rows(groups, _find_cause)
    causes = [_show_cause(cause, own) for cause, own in alike.items()]
    causes.sort(key=lambda one: -(one.runs + one.sessions))
    runs = list_failed_work(store, chosen, limit=NEWEST, slots=slots)
    return FailedReport(failed=_add_up(groups), causes=causes, runs=runs)


def list_failed_work(
    store: Store,
    chosen: Filter,
    *,
    limit: int,
    slots: Mapping[str, int | None] | None = None,
) -> list[FailedWork]:
    """Return the newest failed runs and sessions; `slots` as in `read_failed_work`."""
    rows = queries.read_newest_failed(store, chosen, limit=limit)
    late = {job: write_time(at) for job, at in (slots or {}).items()}
    placed = [
        replace(row, next_run_at=late[row.job]) if row.job and row.job in late else row
        for row in rows
    ]
    return [_show_work(row, store.timezone) for row in placed]


def read_failed_totals(store: Store, chosen: Filter) -> FailedTotals:
    """Return the number and cost of failed runs and sessions."""
    return _add_up(queries.tally_failed(store, chosen))


def describe_failed(total: FailedTotals) -> str | None:
    """Return which jobs and how many runs and sessions failed, and their cost; None if none did.

    >>> jobs = [FailedJob("hermes:4d", "backup", 23, None), FailedJob("triage", "triage", 1, None)]
    >>> describe_failed(FailedTotals(
    ...     runs=24, sessions=1, cost_usd=7.28, unpriced_turns=0, unrecorded_runs=0, jobs=jobs))
    '2 jobs failed: backup (23 runs) and triage; 24 runs and 1 session cost $7.28'
    """
    if not total.runs + total.sessions:
        return None
    parts = [_count("run", total.runs)] if total.runs else []
    parts += [_count("session", total.sessions)] if total.sessions else []
    is_one = total.runs + total.sessions == 1
    if total.cost_usd is None:
        cost = "has no known cost" if is_one else "have no known cost"
    elif not total.cost_usd and total.unpriced_turns:
        # what is known was free; a lower bound of nothing is no figure
        unpriced = _count("model call", total.unpriced_turns)
        cost = f"cost {dollars(0)}, not counting {unpriced} without a price"
    else:
        cost = f"cost {dollars(total.cost_usd, unpriced=total.unpriced_turns)}"
    if not total.jobs:
        return f"{join_words(parts)} failed and {cost}"
    names = [
        one.name if one.runs == 1 else f"{one.name} ({one.runs} runs)"
        for one in total.jobs[:SHOWN_JOBS]
    ]
    more = len(total.jobs) - SHOWN_JOBS
    names += [f"{more} more"] if more > 0 else []
    return (
        f"{_count('job', len(total.jobs))} failed: {join_words(names)}; {join_words(parts)} {cost}"
    )


def _count(noun: str, number: int) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _list_evidence(row: FailedRow | FailedGroup) -> list[str]:
    """Return the evidence, with a person's label of one of our runs first."""
    if not row.label:
        return row.evidence
    return [f"a person said {row.label}{f': {row.why}' if row.why else ''}", *row.evidence]


def _find_cause(row: FailedRow | FailedGroup) -> Cause:
    """Return the cause by the evidence; our own runs know the kind, unless a person labelled it."""
    found = find_cause(_list_evidence(row))
    is_known = row.failure_kind is not None and not row.label
    return replace(found, kind=row.failure_kind) if is_known else found


def _show_work(row: FailedRow, timezone: str) -> FailedWork:
    found = _find_cause(row)
    advice = None
    if row.what == "run":
        advice = judge_retry(
            found.kind, retry_at=row.retry_at, next_run_at=row.next_run_at, timezone=timezone
        )
    return FailedWork(
        **take_fields(row, FailedWork, but=["evidence"]),
        name=row.job_name,
        session_id=row.session,
        kind=found.kind,
        cause=found.cause,
        evidence=_list_evidence(row),
        can_retry=advice.can_retry if advice else None,
        retry=advice.words if advice and row.is_last else None,
    )


def _add_up(groups: Sequence[FailedTally]) -> FailedTotals:
    jobs = group_rows((one for one in groups if one.what == "run"), lambda one: one.job)
    # in the order of the groups: the newest failure comes first
    failed = [
        FailedJob(
            job, own[0].job_name or job or "", sum(one.failures for one in own), own[0].last_at
        )
        for job, own in jobs.items()
    ]
    return FailedTotals(**asdict(_sum(groups)), jobs=failed)


def _show_cause(found: Cause, own: Sequence[FailedGroup]) -> FailureCause:
    names = dict.fromkeys(one.job_name for one in own if one.job_name)
    return FailureCause(
        **asdict(_sum(own)),
        kind=found.kind,
        cause=found.cause,
        jobs=list(names),
        last_at=own[0].last_at,
        session_id=next((one.session for one in own if one.session), None),
        example=_list_evidence(own[0]),
    )


def _sum(groups: Sequence[FailedTally]) -> FailedSums:
    return FailedSums(
        runs=sum(one.failures for one in groups if one.what == "run"),
        sessions=sum(one.failures for one in groups if one.what == "session"),
        cost_usd=add_known(one.cost_usd for one in groups),
        unpriced_turns=sum(one.unpriced_turns for one in groups),
        unrecorded_runs=sum(one.unrecorded for one in groups),
    )
