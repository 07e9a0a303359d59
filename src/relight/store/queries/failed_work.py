"""Failed runs of jobs and failed sessions, with their evidence and what they cost.

A session of a failed run is counted with the run. A failed session counts by itself if no failed
run has it: also the failed first attempt of a run that succeeded in the end.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.store import Store
from relight.store.derive.pricing import NAMED
from relight.store.derive.rollup import NO_TEXT
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.queries.costs import KNOWN_COST
from relight.store.queries.filters import Filter, find_day_start, where
from relight.store.sql import column_list, flag, read_list, read_usd
from relight.times import write_time

# a person's label overrides a run's outcome; both ways to a failed run have an index
FAILED_RUNS = """
    select run.id, run.source, run.key, run.job_id, run.session_id, run.outcome_evidence,
        run.started_at, run.scheduled_for, run.finished_at, run.model, run.cost_nanos,
        run.failure_kind, run.retry_at, label.outcome as label, label.why
    from (
        select id from run where outcome = 'failure'
        union
        select run.id from label join run on run.session_id = label.session_id
        where label.outcome = 'failure'
    ) as found
    join run on run.id = found.id
    left join label on label.session_id = run.session_id
    where coalesce(label.outcome, run.outcome) = 'failure'
"""
SESSION_COST = KNOWN_COST.format("listing.turns", "listing.unpriced_turns", "listing.cost_nanos")
RUN_AT = "coalesce(run.finished_at, run.started_at, run.scheduled_for)"
SESSION_AT = "coalesce(session.ended_at, session.started_at)"
# as in the roll-ups, what has no time is after every first day and on no last one
LATEST = 9_223_372_036_854_775_807
PLACES = [
    f"{RUN_AT[:-1]}, {LATEST})",
    # as the index of failed sessions has it
    "case when session.ended_at is not null then session.ended_at"
    f" when session.started_at is not null then session.started_at else {LATEST} end",
]
IS_LAST = flag("""not exists (
    select 1 from run as later where later.job_id = run.job_id
        and later.started_at > run.started_at and later.status <> 'running'
)""")
# a failed session that belongs to no failed run
IS_ALONE = "session.outcome = 'failure' and session.id not in (select session_id from covered)"
# the scheduler's ledger may have lost the run of a session that is named after its job
FAILED = f"""
    with failed_run as ({FAILED_RUNS}),
    earlier as (
        select run_attempt.run_id, sum({SESSION_COST}) as cost_nanos,
            sum(listing.unpriced_turns) as unpriced_turns
        from run_attempt join listing on listing.root_id = run_attempt.session_id
        group by run_attempt.run_id
    ),
    covered as (
        select session_id from failed_run where session_id is not null
        union
        select run_attempt.session_id from run_attempt
        join failed_run on failed_run.id = run_attempt.run_id
    )
    select 'run' as what, case when run.source = 'relight' then '' else run.source || ':' end
            || run.key as run_id,
        job.full_name as job, coalesce(nullif(job.name, ''), job.full_name, '(a deleted job)')
            as job_name,
        run.source, {NAMED.format("coalesce(run.model, job.model, session.model)")} as model,
        session.project,
        {RUN_AT} as at,
        session.source || ':' || session.key as session, session.title,
        run.outcome_evidence as evidence, run.label, run.why,
        case when run.cost_nanos is not null then run.cost_nanos
            when {SESSION_COST} is not null or earlier.cost_nanos is not null
                then coalesce({SESSION_COST}, 0) + coalesce(earlier.cost_nanos, 0)
            end as cost_usd,
        case when run.cost_nanos is not null then 0
            else coalesce(listing.unpriced_turns, 0) + coalesce(earlier.unpriced_turns, 0)
            end as unpriced_turns,
        run.failure_kind, run.retry_at, job.next_run_at, {IS_LAST} as is_last,
        session.id as root_id
    from failed_run as run
    left join job on job.id = run.job_id
    left join session on session.id = run.session_id
    left join listing on listing.root_id = run.session_id
    left join earlier on earlier.run_id = run.id
    where {{run_test}}
    union all
    select case when lost.id is not null then 'run' else 'session' end,
        case when lost.id is not null then session.source || ':' || session.key end,
        coalesce(lost.full_name, tried.full_name),
        coalesce(nullif(lost.name, ''), lost.full_name, nullif(tried.name, ''), tried.full_name),
        session.source, {NAMED.format("session.model")}, session.project,
        {SESSION_AT}, session.source || ':' || session.key, session.title, session.outcome_evidence,
        cast(null as text), cast(null as text), {SESSION_COST}, listing.unpriced_turns,
        cast(null as text), cast(null as bigint), lost.next_run_at, 0, session.id
    from session
    join listing on listing.root_id = session.id
    left join run_attempt on run_attempt.session_id = session.id
    left join run as tried_run on tried_run.id = run_attempt.run_id
    left join job as tried on tried.id = tried_run.job_id
    left join job as lost on session.key >= 'cron_' and session.key < 'cron`'
        and {IS_NAMED_AFTER.replace("job.", "lost.")}
        and not exists (select 1 from run where run.session_id = session.id)
    where {IS_ALONE} and {{session_test}}
"""


# The newest failed sessions, by the index of failed sessions; the others need not be put together.
# Those without a time are the last.
NEWEST = f"""
    select id from (
        select session.id from session where {{test}} and {PLACES[1]} < {LATEST}
        order by {PLACES[1]} desc, session.source || ':' || session.key limit {{limit}}
    ) as timed
    union all
    select id from (
        select session.id from session where {{test}} and {PLACES[1]} = {LATEST}
        order by session.source || ':' || session.key limit {{limit}}
    ) as untimed
"""
# Sessions of which no job is known: those of jobs are named after them, or an attempt of a run.
OF_JOB = """
    select session_id from run_attempt
    union
    select id from session where key >= 'cron_' and key < 'cron`'
"""
# Most failed sessions are no job's, and are added up without looking jobs up. Their lines of the
# list are found by their start: an index has the sums, in the order of time.
PLAIN = f"""
    select 'session' as what, {NO_TEXT} as job, {NO_TEXT} as job_name, {{evidence}} as evidence,
        {NO_TEXT} as label, {NO_TEXT} as why, {NO_TEXT} as failure_kind, count(*) as failures,
        sum({SESSION_COST}) as cost_usd, sum(listing.unpriced_turns) as unpriced_turns,
        0 as unrecorded, max({SESSION_AT}) as at
    from session
    join listing on listing.began_at = coalesce(session.started_at, 0)
        and +listing.root_id = session.id
    where {{test}}
    group by {{evidence}}
"""
IS_PLAIN = f"""session.outcome = 'failure'
    and session.id not in (select session_id from run_attempt)
    and not (session.key >= 'cron_' and session.key < 'cron`')
    and session.id not in (
        select session_id from ({FAILED_RUNS}) as failed_run where session_id is not null
    )"""
NEWEST_PLAIN = f"""(
    select min(session.source || ':' || session.key) from session
    where {IS_PLAIN} and {PLACES[1]} = coalesce(plain.at, {LATEST})
        and session.outcome_evidence is not distinct from plain.evidence
)"""
ONE = """1 as failures, cost_usd, unpriced_turns,
    case when session is null and cost_usd is null then 1 else 0 end as unrecorded, at"""
SUMS = """sum(failures) as failures, sum(cost_usd) as cost_usd,
    sum(unpriced_turns) as unpriced_turns, sum(unrecorded) as unrecorded, max(at) as last_at"""
# alike failures together, with the session of the newest; other columns would be sorted too
GROUPS = f"""
    select what, job, job_name, {SUMS}, evidence, label, why, max(failure_kind) as failure_kind,
        max(case when place = 1 then session end) as session
    from (
        select found.*, row_number() over (
            partition by what, job, evidence, label, why order by at desc nulls last, session
        ) as place
        from (
            select what, job, job_name, evidence, label, why, failure_kind, {ONE}, session
            from {{failed}} {{plain}}
        ) as found
    ) as placed
    group by what, job, job_name, evidence, label, why
    order by last_at desc nulls last, job nulls last, evidence
"""
# the same without evidence, which takes half of the time
TALLIES = f"""
    select what, job, job_name, {SUMS} from (
        select what, job, job_name, {ONE} from {{failed}} {{plain}}
    ) as found
    group by what, job, job_name order by last_at desc nulls last, job nulls last
"""


class FailedRow(Struct, frozen=True):
    """A failed run of a job, or a failed session outside of failed runs.

    The cost of a run is that of all its attempts. It is None if no turn has a price, and if the
    run left no session.
    """

    what: Literal["run", "session"]
    run_id: str | None
    job: str | None
    job_name: str | None
    source: str
    model: str | None
    project: str | None
    at: str | None
    session: str | None
    title: str | None
    evidence: list[str]
    label: str | None
    why: str | None
    cost_usd: float | None
    unpriced_turns: int
    # known of our own runs
    failure_kind: str | None
    retry_at: str | None
    # of its job
    next_run_at: str | None
    # no run of its job has ended since
    is_last: bool


class FailedTally(Struct, frozen=True):
    """A number of failed runs of one job, or of failed sessions, and what they cost.

    `unrecorded` of them left no session and no cost.
    """

    what: Literal["run", "session"]
    job: str | None
    job_name: str | None
    failures: int
    cost_usd: float | None
    unpriced_turns: int
    unrecorded: int
    last_at: str | None


class FailedGroup(FailedTally, frozen=True):
    """Failed runs of one job, or failed sessions, with the same evidence.

    `session` is that of the newest.
    """

    evidence: list[str]
    label: str | None
    why: str | None
    failure_kind: str | None
    session: str | None


def read_newest_failed(store: Store, chosen: Filter, *, limit: int) -> list[FailedRow]:
    """Return the newest failed runs and sessions, the newest first."""
    failed, values = _select(store, chosen, limit=limit)
    return store.read(
        FailedRow,
        f"select {column_list(FailedRow)} from {failed}"
        f" order by at desc nulls last, session, run_id limit {limit}",
        values,
        {
            "at": write_time,
            "evidence": read_list,
            "cost_usd": read_usd,
            "retry_at": write_time,
            "next_run_at": write_time,
            "is_last": bool,
        },
    )


def group_failed(store: Store, chosen: Filter) -> list[FailedGroup]:
    """Return failed runs and sessions by job and evidence, the newest group first."""
    failed, values = _select(store, chosen, is_divided=_is_of_days(chosen))
    plain = ""
    if _is_of_days(chosen):
        test, more = _test_days(store, chosen, PLACES[1])
        sums = PLAIN.format(test=f"{IS_PLAIN} and {test}", evidence="session.outcome_evidence")
        plain = f"union all select plain.*, {NEWEST_PLAIN} as session from ({sums}) as plain"
        values = [*values, *more]
    return store.read(
        FailedGroup,
        GROUPS.format(failed=failed, plain=plain),
        values,
        {"last_at": write_time, "evidence": read_list, "cost_usd": read_usd},
    )


def tally_failed(store: Store, chosen: Filter) -> list[FailedTally]:
    """Return failed runs by job, and failed sessions, those that failed last first."""
    failed, values = _select(store, chosen, is_divided=_is_of_days(chosen))
    plain = ""
    if _is_of_days(chosen):
        test, more = _test_days(store, chosen, PLACES[1])
        sums = PLAIN.format(test=f"{IS_PLAIN} and {test}", evidence=NO_TEXT)
        columns = "what, job, job_name, failures, cost_usd, unpriced_turns, unrecorded, at"
        plain = f"union all select {columns} from ({sums}) as plain"
        values = [*values, *more]
    formats = {"last_at": write_time, "cost_usd": read_usd}
    return store.read(FailedTally, TALLIES.format(failed=failed, plain=plain), values, formats)


def _is_of_days(chosen: Filter) -> bool:
    return replace(chosen, since=None, until=None) == Filter()


def _test_days(store: Store, chosen: Filter, place: str) -> tuple[str, list[str | int]]:
    """Return the test that a moment is of the chosen days, and its values."""
    tests: list[str] = []
    values: list[str | int] = []
    if chosen.since is not None:
        tests.append(f"{place} >= ?")
        values.append(find_day_start(chosen.since, store.timezone))
    if chosen.until is not None:
        tests.append(f"{place} < ?")
        values.append(find_day_start(chosen.until, store.timezone, later_days=1))
    return " and ".join(tests) or "1 = 1", values


def _select(
    store: Store, chosen: Filter, *, limit: int | None = None, is_divided: bool = False
) -> tuple[str, list[str | int]]:
    """Return the failures that a filter chooses as a table with its test, and the values.

    With a limit, older sessions than so many may be missing; if divided, all that are no job's.
    """
    run_test, values = _test_days(store, chosen, PLACES[0])
    session_test, moments = _test_days(store, chosen, PLACES[1])
    values = [*values, *moments]
    if is_divided:
        session_test = f"session.id in ({OF_JOB}) and {session_test}"
    elif limit is not None and _is_of_days(chosen):
        among = NEWEST.format(test=f"{IS_ALONE} and {session_test}", limit=limit)
        session_test = f"session.id in ({among})"
        values += moments
    failed = FAILED.format(run_test=run_test, session_test=session_test)
    tests, named = where(replace(chosen, since=None, until=None, jobs=()))
    values += named
    if chosen.jobs:
        among = f"job in ({', '.join('?' for _ in chosen.jobs)})"
        tests = f"{tests} and {among}" if tests else f"where {among}"
        values += chosen.jobs
    return f"({failed}) as failed {tests}", values
