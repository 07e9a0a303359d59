"""The tables `canary`, `canary_deal` and `job_switch`: models on trial in jobs, and switches."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.store import Store
from relight.store.queries.comparison import RESULT, RUNS
from relight.store.sql import Connection, find_first, find_next_id, insert, insert_values

_OPEN = "state in ('running', 'promoted')"


class CanaryRow(Struct, frozen=True):
    """A row of `canary`; `change`, `before` and `replay` are JSON."""

    id: int
    job: str
    model: str
    against: str | None
    change: str
    before: str
    margin: float
    first_share: float
    share: float
    budget_nanos: int | None
    is_auto: int
    seed: str
    started_at: int
    state: str = "running"
    verdict: str | None = None
    verdict_at: int | None = None
    promoted_at: int | None = None
    ended_at: int | None = None
    reason: str | None = None
    seen: int = 0
    replay: str | None = None


class DealRow(Struct, frozen=True):
    """A row of `canary_deal`."""

    canary_id: int
    dealt_at: int
    is_candidate: int
    run_id: int | None


class SwitchRow(Struct, frozen=True):
    """A row of `job_switch`."""

    job: str
    at: int
    from_model: str | None
    to_model: str | None
    made_by: str
    reason: str
    canary_id: int | None = None


class SpanCount(Struct, frozen=True):
    """The runs of a job on one model in a span of time, and their known costs."""

    runs: int = 0
    known: int = 0
    successes: int = 0
    priced: int = 0
    nanos: int = 0


class CanaryArm(SpanCount, frozen=True):
    """The runs of one side of a canary: `candidate` or `control`."""

    arm: str = ""


_COUNTS = """
    count(*) as runs, count(success) as known, coalesce(sum(success), 0) as successes,
    count(nanos) as priced, coalesce(sum(nanos), 0) as nanos
"""
# A's earlier runs count; since the canary began only those that were dealt do. Another scheduler's
# runs are not dealt any more after a switch, and are known by their model.
_ARMS = f"""
    select {_COUNTS}, arm from (
        select case when deal.is_candidate = 1 or at >= :promoted then 'candidate'
            else 'control' end as arm, {RESULT}
        from ({RUNS.format(test="and job.full_name = :job")}) as ended
        left join canary_deal as deal
            on deal.run_id = ended.run_id and deal.canary_id = :canary
        where deal.canary_id is not null
            or (at < :began and model is not distinct from :against)
            or (at >= :promoted and model = :model)
    ) as one group by arm
"""
_SPAN = f"""
    select {_COUNTS} from (
        select {RESULT} from ({RUNS.format(test="and job.full_name = :job")}) as ended
        where at >= :since and at < :until
            and (:is_any = 1 or model is not distinct from :model)
    ) as one
"""
_LATEST = 1 << 60


def add_canary(database: Connection, row: CanaryRow) -> CanaryRow:
    """Write a new canary with the next id."""
    added = replace(row, id=find_next_id(database, "canary"))
    insert(database, "canary", [added])
    return added


def read_canaries(
    store: Store, job: str | None = None, *, is_open: bool = False
) -> list[CanaryRow]:
    """Return all canaries, or those of a job, newest first; with `is_open` those that go on."""
    tests = [*(["job = :job"] if job else []), *([_OPEN] if is_open else [])]
    where = f"where {' and '.join(tests)}" if tests else ""
    statement = f"select * from canary {where} order by id desc"
    return store.read(CanaryRow, statement, {"job": job} if job else {})


def update_canary(database: Connection, before: CanaryRow, **changes: object) -> bool:
    """Change a canary; False if another process changed its state or verdict meanwhile."""
    names = ", ".join(f"{name} = ?" for name in changes)
    written = database.execute(
        f"update canary set {names} where id = ? and state = ? and verdict is not distinct from ?",
        (*changes.values(), before.id, before.state, before.verdict),
    )
    return written.rowcount == 1


def find_open_canary(store: Store, job: str) -> CanaryRow | None:
    """Return the canary of a job that goes on, if there is one."""
    return next(iter(read_canaries(store, job, is_open=True)), None)


def add_deal(database: Connection, row: DealRow) -> None:
    """Write what a slot is dealt; a slot that was dealt before keeps that."""
    # no deal has the run None
    if find_first(database, "select 1 from canary_deal where run_id = ?", (row.run_id,)):
        return
    number = find_next_id(database, "canary_deal")
    insert_values(database, "canary_deal", {"id": number, **asdict(row)})


def find_open_deal(store: Store, canary_id: int) -> DealRow | None:
    """Return the deal of a canary whose run is not known yet."""
    return store.find(
        DealRow,
        "select * from canary_deal where canary_id = ? and run_id is null order by id desc limit 1",
        (canary_id,),
    )


def join_deal(store: Store, canary: CanaryRow, deal: DealRow, *, model: str) -> bool:
    """Join a deal to the first run that began after it, if that has ended; True if it did.

    A run on another model than the one that was dealt counts for neither: its deal is dropped.
    """
    with store.transaction() as database:
        found = database.execute(
            f"""
                select ended.run_id, ended.model
                from ({RUNS.format(test="and job.full_name = :job")}) as ended
                where at >= :dealt and ended.run_id is not null and not exists (
                    select 1 from canary_deal where canary_deal.run_id = ended.run_id
                ) order by at limit 1
            """,
            {"job": canary.job, "dealt": deal.dealt_at},
        ).fetchone()
        if found is None:
            return False
        run_id, ran_on = found
        # a run that failed before its session began has no model: it had the one that was dealt
        if ran_on in (None, model):
            statement = "update canary_deal set run_id = ? where canary_id = ? and run_id is null"
            database.execute(statement, (run_id, canary.id))
        else:
            drop_open_deals(database, canary.id)
    return True


def drop_open_deals(database: Connection, canary_id: int) -> None:
    """Remove the deals of runs that never began."""
    database.execute(
        "delete from canary_deal where canary_id = ? and (run_id is null"
        " or run_id in (select id from run where status = 'claimed'))",
        (canary_id,),
    )


def count_arms(store: Store, canary: CanaryRow) -> tuple[CanaryArm, CanaryArm]:
    """Return the runs of the model in use, and those of the model on trial."""
    values: Mapping[str, object] = {
        "job": canary.job,
        "canary": canary.id,
        "began": canary.started_at,
        "promoted": _LATEST if canary.promoted_at is None else canary.promoted_at,
        "model": canary.model,
        "against": canary.against,
    }
    arms = {one.arm: one for one in store.read(CanaryArm, _ARMS, values)}
    return arms.get("control", CanaryArm()), arms.get("candidate", CanaryArm())


def count_trial_runs(store: Store) -> dict[tuple[str | None, str | None, str | None], int]:
    """Return how many ended runs were dealt to a model on trial, by job, model and model in use."""
    rows = store.query(
        "select canary.job, canary.model, canary.against, count(*) from canary_deal"
        " join canary on canary.id = canary_deal.canary_id join run on run.id = canary_deal.run_id"
        " where is_candidate = 1 and run.finished_at is not null"
        " group by canary.job, canary.model, canary.against"
    )
    return {(job, model, against): number for job, model, against, number in rows}


def count_span(
    store: Store,
    job: str,
    model: str | None,
    *,
    since: int = 0,
    until: int | None = None,
    is_any: bool = False,
) -> SpanCount:
    """Return the runs of a job on a model, or with `is_any` on all, between two moments."""
    end = _LATEST if until is None else until
    values = {"job": job, "model": model, "since": since, "until": end, "is_any": int(is_any)}
    return store.read(SpanCount, _SPAN, values)[0]


def find_job_title(store: Store, job: str) -> str:
    """Return the name that people gave a job."""
    return store.find_first("select name from job where full_name = ?", (job,)) or job


def count_ended(store: Store, job: str) -> int:
    """Return how many runs of a job have ended."""
    ((ended,),) = store.query(
        "select count(finished_at) from run join job on job.id = run.job_id"
        " where job.full_name = ?",
        (job,),
    )
    return int(ended)


def add_switch(database: Connection, row: SwitchRow) -> None:
    """Write a change of a job's model."""
    number = find_next_id(database, "job_switch")
    insert_values(database, "job_switch", {"id": number, **asdict(row)})


def read_switches(store: Store, job: str) -> list[SwitchRow]:
    """Return the changes of a job's model, oldest first."""
    statement = "select * from job_switch where job = ? order by at, id"
    return store.read(SwitchRow, statement, (job,))
