"""What jobs have spent today, and how much of their budgets is left."""

from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from relight.config import Config
from relight.errors import RefusedError
from relight.store import Store
from relight.work.jobs.figures import add_figures
from relight.work.jobs.job import Job
from relight.work.jobs.lost_runs import find_sessions
from relight.work.jobs.registry import decode_job

# a run knows what all its attempts cost; else its session's figures serve, with its sub-agents'
SPENT = """
    select coalesce(cost_nanos, priced), cost_nanos is null and (priced is null or unpriced > 0)
    from (
        select run.cost_nanos,
            (select sum(cost_nanos) from session_day where root_id = run.session_id) as priced,
            (select sum(unpriced_turns) from session_day where root_id = run.session_id)
                as unpriced
        from run join job on job.id = run.job_id
        where run.source = 'relight' and run.started_at >= ? and run.id <> ?
            and (? is null or job.key = ?) and (run.session_id is not null
                or run.cost_nanos is not null)
    )
"""


# that they are told apart by who began first keeps two from both giving way
GOING_ON = """
    select run.key, definition from run join job on job.id = run.job_id
    where run.source = 'relight' and run.status = 'running'
        and (run.started_at, run.id) < (select started_at, id from run where id = ?)
"""


class Spent(Struct, frozen=True, kw_only=True):
    """Dollars spent since midnight by one job and by all, and how many runs nobody can price.

    `set_aside` is what runs that began earlier and go on have spent, or may yet.
    """

    by_job: float = 0.0
    by_all: float = 0.0
    set_aside: float = 0.0
    unpriced: int = 0


def read_spent(store: Store, job: Job, *, run_id: int, now: float) -> Spent:
    """What a job and all of them have spent today, in the store's time zone, before this run."""
    moment = datetime.fromtimestamp(now, ZoneInfo(store.timezone))
    since = round(moment.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
    own = store.query(SPENT, (since, run_id, job.name, job.name))
    every = store.query(SPENT, (since, run_id, None, None))
    return Spent(
        by_job=sum(nanos or 0 for nanos, _ in own) / 1e9,
        by_all=sum(nanos or 0 for nanos, _ in every) / 1e9,
        set_aside=sum(_count_going_on(store, *row) for row in store.query(GOING_ON, (run_id,))),
        unpriced=sum(is_unknown for _, is_unknown in every),
    )


def _count_going_on(store: Store, key: str, definition: str) -> float:
    """What a run has spent so far or, where that is more, the limit that its job gives it."""
    spent = add_figures(store, find_sessions(store, key)).known_nanos / 1e9
    return max(spent, decode_job(definition).budget_usd or 0.0)


def count_left(job: Job, *, config: Config, spent: Spent) -> tuple[float | None, list[str]]:
    """The dollars that a run may cost, None for any number, and what to warn of.

    A budget that is used up refuses the run; one that is nearly so lets it run, and says so.
    """
    every = spent.by_all + spent.set_aside
    limits = [
        (job.budget_usd, 0.0, "a run", ""),
        (job.budget_usd_per_day, spent.by_job, f"{job.name} a day", ""),
        (config.jobs.budget_usd_per_day, every, "all jobs a day", _tell_set_aside(spent)),
    ]
    left: list[float] = []
    warnings = []
    for limit, used, whose, note in limits:
        if limit is None:
            continue
        if used >= limit:
            raise RefusedError(
                f"the budget of ${limit:g} for {whose} is used up: ${used:.4f} spent today{note}",
                "raise it, or wait for tomorrow",
            )
        if used >= limit * config.jobs.warn_at:
            warnings.append(f"${used:.4f} of the budget of ${limit:g} for {whose} is spent{note}")
        left.append(limit - used)
    if spent.unpriced and len(left) > (job.budget_usd is not None):
        warnings.append(f"{spent.unpriced} runs today have no known price: no budget counts them")
    return min(left, default=None), warnings


def _tell_set_aside(spent: Spent) -> str:
    if not spent.set_aside:
        return ""
    return f", ${spent.set_aside:.4f} of it set aside for runs that go on"
