"""The ends of the runs of jobs: the last ones of each job, and the number of all."""

from msgspec import Struct

from relight.store import Store
from relight.store.queries.runs import LOST, NEWEST, NEWEST_OF_JOBS, RECORDED

# columns are chosen in each part: the others, of all runs, would be computed too
_ENDING = "job, status, outcome, started_at, scheduled_for, run_id"
ENDINGS = f"""
    select job, status, coalesce(outcome, 'unknown') as outcome from (
        select {_ENDING} from ({RECORDED}
            where run.id in ({NEWEST_OF_JOBS.format(unlike="'claimed', 'skipped'")})
        ) as recorded
        union all
        select {_ENDING} from ({LOST}) as lost
    ) as ended {NEWEST}
"""
_COUNTS = """count(*) as runs, count(case when outcome = 'success' then 1 end) as successes,
    count(case when outcome = 'failure' then 1 end) as failures, max(started_at) as last_at"""
ENDED = f"""
    select job, cast(sum(runs) as bigint) as runs, cast(sum(successes) as bigint) as successes,
        cast(sum(failures) as bigint) as failures, max(last_at) as last_at
    from (
        select job.full_name as job, runs, successes, failures, last_at
        from (
            select job_id, {_COUNTS} from (
                select job_id, coalesce(label.outcome, run.outcome) as outcome, started_at
                from run left join label on label.session_id = run.session_id
                where status not in ('claimed', 'skipped')
            ) as one group by job_id
        ) as own join job on job.id = own.job_id
        union all
        select job, {_COUNTS} from ({LOST}) as lost group by job
    ) as ended group by job
"""


class RunEnding(Struct, frozen=True):
    """The end of one run of a job."""

    job: str | None
    status: str
    outcome: str


class RunSums(Struct, frozen=True):
    """The runs of a job: how many there are, how they ended, and when the last one began."""

    job: str
    runs: int
    successes: int
    failures: int
    last_at: int | None


def read_endings(store: Store, *, each: int) -> dict[str | None, list[RunEnding]]:
    """Return how the last runs of every job ended, newest first, by the job's full name.

    Runs that are waiting or were skipped have no end.
    """
    endings: dict[str | None, list[RunEnding]] = {}
    for one in store.read(RunEnding, ENDINGS, {"each": each}):
        own = endings.setdefault(one.job, [])
        if len(own) < each:
            own.append(one)
    return endings


def sum_runs(store: Store) -> dict[str, RunSums]:
    """Return how many runs of every job ended, and how, by the job's full name."""
    return {one.job: one for one in store.read(RunSums, ENDED)}
