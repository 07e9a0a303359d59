"""Runs counted by model and by the work they did, so that models are compared on the same work."""

from msgspec import Struct

from relight.store import Store
from relight.store.derive.pricing import NAMED
from relight.store.jobs import IS_NAMED_AFTER


class RunCell(Struct, frozen=True):
    """The runs of one model in one job or, outside of jobs, in one project.

    `known` have a known outcome, `priced` a wholly known cost. `recent` began since the moment
    asked for, the first of them at `recent_at`. `name` is the one that people gave the job.
    """

    skill: str | None
    job: str | None
    name: str | None
    project: str | None
    model: str | None
    runs: int
    known: int
    successes: int
    priced: int
    nanos: int
    recent: int
    recent_at: int | None


_COUNTS = """
    count(*) as runs, count(success) as known, coalesce(sum(success), 0) as successes,
    count(nanos) as priced, coalesce(sum(nanos), 0) as nanos, count(recent_at) as recent,
    min(recent_at) as recent_at
"""
_USES = """
    select skill_name as skill, job_id as job, project, model, success, nanos,
        case when last_at >= :since then last_at end as recent_at
    from skill_run {test}
"""
# The model is the one that ran, not the one the job has now. A run that never began says nothing.
RUNS: str = f"""
    select run.id as run_id, job.full_name as job,
        {NAMED.format("coalesce(run.model, session.model)")} as model,
        coalesce(label.outcome, run.outcome) as outcome, run.session_id, run.cost_nanos,
        coalesce(run.input_tokens, 0) + coalesce(run.cache_read_tokens, 0)
            + coalesce(run.output_tokens, 0) + coalesce(listing.tokens, 0) as tokens,
        case when listing.unpriced_turns = 0 then listing.cost_nanos end as session_nanos,
        coalesce(run.started_at, run.scheduled_for) as at
    from run join job on job.id = run.job_id
    left join session on session.id = run.session_id
    left join listing on listing.root_id = run.session_id
    left join label on label.session_id = run.session_id
    where run.status not in ('claimed', 'running', 'skipped', 'refused') {{test}}
    union all
    select cast(null as bigint) as run_id, job.full_name as job,
        {NAMED.format("session.model")}, session.outcome,
        session.id as session_id, cast(null as bigint) as cost_nanos, coalesce(listing.tokens, 0),
        case when listing.unpriced_turns = 0 then listing.cost_nanos end,
        session.started_at as at
    from session join job on {IS_NAMED_AFTER}
    left join listing on listing.root_id = session.id
    where not exists (select 1 from run where run.session_id = session.id) {{test}}
"""
# The outcome and the wholly known cost of a run of `RUNS`, named `ended`. One that died before a
# model answered says nothing about the cost of the work.
RESULT: str = """
    case outcome when 'success' then 1 when 'failure' then 0 end as success,
    case when cost_nanos <> 0 then cost_nanos
        when tokens = 0 then null
        when cost_nanos = 0 then 0
        else session_nanos
    end as nanos
"""
_ENDED = f"""
    select cast(null as text) as skill, job, model, cast(null as text) as project, {RESULT},
        case when at >= :since then at end as recent_at
    from ({RUNS}) as ended
"""
_CELLS = f"""
    select skill, job, named.name, project, model, runs, known, successes, priced, nanos, recent,
        recent_at
    from (
        select skill, job, project, model, {_COUNTS}
        from ({{ones}}) as one group by skill, job, project, model
    ) as cell
    left join (select full_name, min(name) as name from job group by full_name) as named
        on named.full_name = cell.job
    order by skill nulls first, job nulls last, project nulls last, model nulls first
"""


def read_skill_cells(store: Store, skill: str | None, *, since: int) -> list[RunCell]:
    """Return the runs of a skill, or of every skill, by job or project and by model."""
    ones = _USES.format(test="" if skill is None else "where skill_name = :skill")
    return store.read(RunCell, _CELLS.format(ones=ones), {"skill": skill, "since": since})


def read_job_cells(store: Store, job: str | None, *, since: int) -> list[RunCell]:
    """Return the runs of a job, or of every job, by model; `job` is a full name."""
    test = "" if job is None else "and job.full_name = :job"
    ones = _ENDED.format(test=test)
    return store.read(RunCell, _CELLS.format(ones=ones), {"job": job, "since": since})
