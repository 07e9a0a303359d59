"""Jobs and their runs, ours and those of other schedulers, with the usage of their sessions."""

from collections.abc import Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.jobs import IS_NAMED_AFTER

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


class StoredRun(Struct, frozen=True):
    """A run as it is stored; the facts from `attempts` on are known only of our own runs."""

    run_id: str
    source: str
    job: str | None
    name: str | None
    scheduled_for: int | None
    started_at: int | None
    finished_at: int | None
    status: str
    outcome: str | None
    evidence: str | None
    session_id: int | None
    label: str | None
    why: str | None
    model: str | None
    provider: str | None
    attempts: int | None
    note: str | None
    cost_nanos: int | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    answer_file: str | None
    delivery: str | None
    warnings: str | None


class RunUsage(StoredRun, frozen=True):
    """A run with its session's name and usage."""

    session: str | None
    session_nanos: int | None
    unpriced_turns: int | None
    session_input_tokens: int | None
    session_cache_read_tokens: int | None
    session_cache_write_tokens: int | None
    session_output_tokens: int | None


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


class RunEnding(Struct, frozen=True):
    """How one run of a job ended."""

    job: str | None
    status: str
    outcome: str
    started_at: int | None


COLUMNS = StoredRun.__struct_fields__
OWN = COLUMNS[COLUMNS.index("attempts") :]
# a person's label overrides the outcome of one of our runs
RECORDED = f"""
    select run.key as run_id, run.source, job.full_name as job, job.name, run.scheduled_for,
        run.started_at, run.finished_at, run.status,
        coalesce(label.outcome, run.outcome) as outcome, run.outcome_evidence as evidence,
        run.session_id, label.outcome as label, label.why,
        coalesce(run.model, job.model) as model, coalesce(run.provider, job.provider) as provider,
        {", ".join(f"run.{name}" for name in OWN)}
    from run
    left join job on job.id = run.job_id
    left join label on label.session_id = run.session_id
"""
NUMBERS = ("attempts", "cost_nanos", *TOKENS)
# a scheduled session is a run even if its scheduler's ledger lost the run
LOST = f"""
    select session.key as run_id, session.source, job.full_name as job, job.name,
        cast(null as integer) as scheduled_for, session.started_at, session.ended_at as finished_at,
        'unknown' as status, session.outcome, session.outcome_evidence as evidence,
        session.id as session_id, cast(null as text) as label, cast(null as text) as why,
        coalesce(session.model, job.model) as model, job.provider,
        {
    ", ".join(f"cast(null as {'integer' if name in NUMBERS else 'text'}) as {name}" for name in OWN)
}
    from session join job on {IS_NAMED_AFTER}
    where not exists (select 1 from run where run.session_id = session.id)
"""
RUNS = f"({RECORDED} union all {LOST}) as every_run"
NEWEST = "order by coalesce(started_at, scheduled_for) desc nulls last, run_id"
# only the runs that are shown need the usage of their sessions
SUM = "(select sum({0}) from session_day where root_id = shown.session_id) as {1}"
SUMS = ", ".join(
    SUM.format(name, alias)
    for name, alias in (
        ("cost_nanos", "session_nanos"),
        ("unpriced_turns", "unpriced_turns"),
        *((name, f"session_{name}") for name in TOKENS),
    )
)
USED = f"""
    select {", ".join(f"shown.{name}" for name in COLUMNS)},
        session.source || ':' || session.key as session,
        {SUMS}
    from ({{runs}}) as shown left join session on session.id = shown.session_id
"""
NEWEST_SHOWN = (
    "order by coalesce(shown.started_at, shown.scheduled_for) desc nulls last, shown.run_id"
)
# the newest of each job, ranked by a few columns first: a run's other columns are long
RECENT = f"""
    with lost as ({LOST})
    {RECORDED} where run.id in (
        select id from (
            select id, row_number() over (
                partition by job_id
                order by coalesce(started_at, scheduled_for) desc nulls last, key
            ) as rank from run where status <> 'skipped'
        ) as ranked where rank <= :each
    )
    union all
    select {", ".join(COLUMNS)} from (
        select lost.*, row_number() over (
            partition by job order by started_at desc nulls last, run_id
        ) as rank
        from lost
    ) as ranked where rank <= :each
"""
CALLED = "case when source = 'relight' then '' else source || ':' end || run_id"


def read_jobs(store: Store) -> list[JobFacts]:
    """Return all jobs that are not removed, by name."""
    columns = ", ".join(JobFacts.__struct_fields__)
    return store.read(
        JobFacts,
        f"select {columns} from job where state is null or state <> 'removed' order by name, key",
    )


def find_jobs(store: Store, name: str) -> list[str]:
    """Return the job with exactly this full name, else other schedulers' jobs by name or id."""
    rows = store.query("select full_name from job where full_name = ?", (name,))
    rows = rows or store.query(
        "select full_name from job where source <> 'relight' and ? in (name, key)", (name,)
    )
    return [full_name for (full_name,) in rows]


def read_endings(store: Store) -> list[RunEnding]:
    """Return how all runs ended, newest first, without those that are waiting or were skipped."""
    return store.read(
        RunEnding,
        "select job, status, coalesce(outcome, 'unknown') as outcome, started_at"
        f" from {RUNS} where status not in ('claimed', 'skipped') {NEWEST}",
    )


def read_runs(
    store: Store, jobs: Sequence[str] | None = None, *, limit: int | None = None
) -> list[RunUsage]:
    """Return the newest runs of these jobs, or of all."""
    test = "" if jobs is None else f"where job in ({', '.join('?' * len(jobs))})"
    most = "" if limit is None else f"limit {limit}"
    chosen = f"select * from {RUNS} {test} {NEWEST} {most}"
    return store.read(RunUsage, USED.format(runs=chosen) + NEWEST_SHOWN, list(jobs or ()))


def find_run(store: Store, jobs: Sequence[str], name: str) -> RunUsage | None:
    """Return the run of these jobs with this name: its id, after the source if it is not ours."""
    test = f"where job in ({', '.join('?' * len(jobs))}) and {CALLED} = ?"
    statement = USED.format(runs=f"select * from {RUNS} {test}")
    return next(iter(store.read(RunUsage, statement, (*jobs, name))), None)


def read_recent(store: Store, *, each: int) -> list[RunUsage]:
    """Return the newest runs of each job, at most so many of each and source, none skipped."""
    return store.read(RunUsage, USED.format(runs=RECENT) + NEWEST_SHOWN, {"each": each})


def read_run(store: Store, run_id: int) -> RunUsage:
    """Return one of our runs by its row."""
    statement = USED.format(runs=f"{RECORDED} where run.id = ?")
    return store.read(RunUsage, statement, (run_id,))[0]
