"""Jobs and their runs, ours and those of other schedulers, with the usage of their sessions."""

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from relight.errors import MissingError
from relight.store import Store
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.sql import column_list, read_list, read_seconds, read_usd
from relight.times import write_time

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


class RunDelivery(Struct, frozen=True):
    """The target of a run's answer, and whether it arrived."""

    to: str
    status: str
    attempts: int = 1
    error: str | None = None


class RunReport(Struct, frozen=True):
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
    # what a plan paid for, at list price
    included_usd: float | None
    unpriced_turns: int | None
    duration_seconds: float | None
    answer_file: str | None
    delivery: RunDelivery | None
    # a kind of `data/failures.toml`, and the earliest time that the other side allows
    failure_kind: str | None
    retry_at: str | None
    # the machine of a team that ran it
    machine: str | None


class LabelledRun(RunReport, frozen=True):
    """A run with a person's label of its session, which overrides its outcome."""

    label: str | None
    why: str | None


class JobFacts(Struct, frozen=True):
    """A job as it is stored; only our own jobs have a definition."""

    full_name: str
    name: str
    schedule: str | None
    skills: str | None
    model: str | None
    provider: str | None
    script: str | None
    state: str | None
    created_at: int | None
    next_run_at: int | None
    definition: str | None


# known only of our own runs
NUMBERS = ("id", "attempts", "cost_nanos", *TOKENS, "retry_at")
OWN = (*NUMBERS, "note", "answer_file", "delivery", "warnings", "failure_kind")
# a person's label overrides the outcome of one of our runs
RECORDED = f"""
    select run.key as run_id, run.source, job.full_name as job, job.name, run.scheduled_for,
        run.started_at, run.finished_at, run.status,
        coalesce(label.outcome, run.outcome) as outcome, run.outcome_evidence as evidence,
        run.session_id, run.id as run_row, label.outcome as label, label.why,
        -- the job may have another model by now
        coalesce(run.model, (select model from session where id = run.session_id), job.model)
            as model,
        coalesce(run.provider, job.provider) as provider,
        {", ".join(f"run.{name}" for name in OWN)}
    from run
    left join job on job.id = run.job_id
    left join label on label.session_id = run.session_id
"""
# a scheduled session is a run even if its scheduler's ledger lost the run
LOST = f"""
    select session.key as run_id, session.source, job.full_name as job, job.name,
        cast(null as bigint) as scheduled_for, session.started_at, session.ended_at as finished_at,
        'unknown' as status, session.outcome, session.outcome_evidence as evidence,
        session.id as session_id, cast(null as bigint) as run_row, cast(null as text) as label,
        cast(null as text) as why,
        coalesce(session.model, job.model) as model, job.provider,
        {
    ", ".join(f"cast(null as {'integer' if name in NUMBERS else 'text'}) as {name}" for name in OWN)
}
    from session join job on {IS_NAMED_AFTER}
    where not exists (select 1 from run where run.session_id = session.id)
"""
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
    "run_row",
    "label",
    "why",
    "model",
    "provider",
    *OWN,
)
RUNS = f"({RECORDED} union all {LOST}) as every_run"
NEWEST = "order by coalesce(started_at, scheduled_for) desc nulls last, run_id"
# Only the runs that are shown need the usage of their sessions, one for each attempt. A run that
# the ledger lost has no row, and one session.
CALLED_BY = "coalesce('run ' || shown.run_row, 'session ' || shown.session_id)"
SUMMED = ("cost_nanos", "unpriced_turns", "included_nanos", *TOKENS)
USED = f"""
    with shown as ({{runs}}),
    attempt as (
        select {CALLED_BY} as called, shown.session_id from shown where shown.session_id is not null
        union
        select 'run ' || run_id, session_id from run_attempt
        where run_id in (select run_row from shown)
    ),
    spent as (
        select called, {", ".join(f"sum({name}) as {name}" for name in SUMMED)}
        from attempt join session_day on session_day.root_id = attempt.session_id group by called
    )
    select case when shown.source = 'relight' then '' else shown.source || ':' end || run_id
            as run_id,
        job, coalesce(nullif(name, ''), job, '(a deleted job)') as name, scheduled_for,
        shown.started_at, finished_at, status, coalesce(shown.outcome, 'unknown') as outcome,
        evidence, note, warnings,
        coalesce(attempts, case when status in ('claimed', 'skipped') then 0 else 1 end)
            as attempts,
        session.source || ':' || session.key as session_id, shown.model, provider,
        {", ".join(f"coalesce(shown.{name}, spent.{name}) as {name}" for name in TOKENS)},
        case when shown.source = 'relight' and status = 'skipped' then 0
            when shown.cost_nanos is not null then shown.cost_nanos
            when spent.unpriced_turns = 0 or spent.cost_nanos <> 0 then spent.cost_nanos
            end as cost_usd,
        spent.included_nanos as included_usd, spent.unpriced_turns,
        finished_at - shown.started_at as duration_seconds, answer_file, delivery,
        failure_kind, retry_at,
        (
            select machine.name from run join machine
                on machine.id = run.machine_id or run.holder like '@' || machine.key || '/%'
            where run.id = shown.run_row limit 1
        ) as machine,
        case when shown.source = 'relight' then label end as label, why
    from shown left join spent on spent.called = {CALLED_BY}
    left join session on session.id = shown.session_id
"""
NEWEST_USED = "order by coalesce(shown.started_at, scheduled_for) desc nulls last, shown.run_id"
# The newest of each job, and one more: those since a moment, which an index finds for each job. The
# limit makes a database look for that moment once for each job, and not for each run.
NEWEST_OF_JOBS = """
    select run.id from (
        select job.id as job_id, coalesce((
            select coalesce(started_at, scheduled_for) from run
            where run.job_id = job.id and status not in ({unlike})
            order by coalesce(started_at, scheduled_for) desc nulls last, key limit 1 offset :each
        ), -1) as since
        from job limit 9223372036854775807
    ) as owner
    join run on run.job_id = owner.job_id
    where status not in ({unlike}) and coalesce(started_at, scheduled_for, -1) >= owner.since
"""
RECENT = f"""
    with lost as ({LOST})
    {RECORDED} where run.id in ({NEWEST_OF_JOBS.format(unlike="'skipped'")})
    union all
    select {", ".join(COLUMNS)} from (
        select lost.*, row_number() over (
            partition by job order by started_at desc nulls last, run_id
        ) as rank
        from lost
    ) as ranked where rank <= :each
"""
CALLED = "case when source = 'relight' then '' else source || ':' end || run_id"


def read_job_facts(store: Store) -> list[JobFacts]:
    """Return all jobs that are not removed, by name."""
    return store.read(
        JobFacts,
        f"select {column_list(JobFacts)} from job"
        " where state is null or state <> 'removed' order by name, key",
    )


def find_job_names(store: Store, name: str) -> list[str]:
    """Return the job with exactly this full name, else other schedulers' jobs by name or id."""
    rows = store.query("select full_name from job where full_name = ?", (name,))
    rows = rows or store.query(
        "select full_name from job where source <> 'relight' and ? in (name, key)", (name,)
    )
    return [full_name for (full_name,) in rows]


def read_runs(
    store: Store,
    name: str | None = None,
    *,
    limit: int | None = None,
    has_failed: bool = False,
    since: int | None = None,
) -> list[RunReport]:
    """Return the newest runs of all jobs, or of the one with this name or id.

    With `has_failed` only those that failed; `since` is the moment when the first of them began.
    """
    where, values = _where(store, name, has_failed=has_failed, since=since)
    most = "" if limit is None else f"limit {limit}"
    return _read(store, f"select * from {RUNS} {where} {NEWEST} {most}", values)


def read_runs_since(store: Store, since: int) -> list[RunReport]:
    """Return the runs of all schedulers that began at this moment or later, newest first."""
    return _read(store, f"select * from {RUNS} where started_at >= ?", [since])


def read_unnoticed_runs(store: Store, *, since: int, quiet_at: int) -> list[RunReport]:
    """Return the runs that ended badly since a moment and of which no notification was made.

    These are failed runs, and our own that were cut off. A session that its scheduler's ledger does
    not have may still go on: it counts if nothing was written to it after `quiet_at`.
    """
    return _read(
        store,
        f"""
            select * from {RUNS} where coalesce(finished_at, started_at) >= ? and label is null
            and status not in ('claimed', 'running') and (
                (outcome = 'failure' and (run_row is not null or finished_at <= ?))
                or (source = 'relight' and status = 'unknown')
            )
            and not exists (
                select 1 from notice where kind = 'run_failed' and notice.key in ({CALLED}, (
                    select session.source || ':' || session.key from session
                    where session.id = every_run.session_id
                ))
            )
        """,
        [since, quiet_at],
    )


def find_run(store: Store, name: str, run_id: str) -> RunReport | None:
    """Return the run of a job by its id, after the source if it is not ours, however old it is."""
    where, jobs = _where(store, name)
    runs = f"select * from {RUNS} {where} and {CALLED} = ?"
    return next(iter(_read(store, runs, [*jobs, run_id])), None)


def find_any_run(store: Store, run_id: str) -> RunReport | None:
    """Return a run of any job by its id, after the source if it is not ours."""
    runs = f"select * from {RUNS} where {CALLED} = ?"
    return next(iter(_read(store, runs, [run_id])), None)


def read_recent_runs(store: Store, *, each: int) -> dict[str | None, list[RunReport]]:
    """Return the newest runs of every job by its name, newest first, none skipped."""
    runs: dict[str | None, list[RunReport]] = {}
    for run in _read(store, RECENT, {"each": each}):
        own = runs.setdefault(run.job, [])
        if len(own) < each:
            own.append(run)
    return runs


def read_own_run(store: Store, run_id: int) -> RunReport:
    """Return one of our runs by its row."""
    return _read(store, f"{RECORDED} where run.id = ?", [run_id])[0]


def _where(
    store: Store, name: str | None, *, has_failed: bool = False, since: int | None = None
) -> tuple[str, list[str | int]]:
    tests: list[str] = []
    values: list[str | int] = []
    if name is not None:
        jobs = find_job_names(store, name)
        if not jobs:
            raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")
        tests.append(f"job in ({', '.join('?' * len(jobs))})")
        values += jobs
    if has_failed:
        tests.append("outcome = 'failure'")
    if since is not None:
        tests.append("coalesce(started_at, scheduled_for) >= ?")
        values.append(since)
    return f"where {' and '.join(tests)}" if tests else "", values


def _read(store: Store, runs: str, values: object) -> list[RunReport]:
    """Return the runs of a query with the usage of their sessions, newest first."""

    def find_file(name: str | None) -> str | None:
        return str(store.config.home / name) if name else None

    found = store.read(
        LabelledRun,
        f"{USED.format(runs=runs)} {NEWEST_USED}",
        values,
        {
            "scheduled_for": write_time,
            "started_at": write_time,
            "finished_at": write_time,
            "retry_at": write_time,
            "evidence": read_list,
            "warnings": read_list,
            "cost_usd": read_usd,
            "included_usd": read_usd,
            "duration_seconds": read_seconds,
            "answer_file": find_file,
            "delivery": _read_delivery,
        },
    )
    return [_show(run) for run in found]


def _read_delivery(text: str | None) -> RunDelivery | None:
    return msgspec.json.decode(text, type=RunDelivery) if text else None


def _show(run: LabelledRun) -> RunReport:
    """Return a run with a person's label as the first piece of evidence."""
    shown = RunReport(*astuple(run)[:-2])
    if not run.label:
        return shown
    why = f": {run.why}" if run.why else ""
    return replace(shown, evidence=[f"a person said {run.label}{why}", *run.evidence])
