"""Cost and tokens of sessions, spending of jobs today, and what is left of their budgets."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from relight.config import Config
from relight.errors import RefusedError
from relight.model import Usage, row_id
from relight.store import Store
from relight.store import runs as run_table
from relight.work.jobs.job import JobDefinition
from relight.work.jobs.registry import decode_job


class Figures(Struct, frozen=True, kw_only=True):
    """Cost and tokens with sub-agents; `cost_nanos` is None unless all of it is known."""

    cost_nanos: int | None = None
    known_nanos: int = 0
    usage: Usage | None = None


class DaySpending(Struct, frozen=True, kw_only=True):
    """Dollars spent since midnight by one job and by all jobs.

    `set_aside` is what earlier runs that still go on have spent or may spend. `unpriced` counts
    the runs without a known cost.
    """

    by_job: float = 0.0
    by_all: float = 0.0
    set_aside: float = 0.0
    unpriced: int = 0


def sum_known(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def add_figures(store: Store, sessions: Sequence[str]) -> Figures:
    """Cost and tokens of these sessions together."""
    return total_figures(_read_figures(store, name) for name in sessions)


def total_figures(parts: Iterable[Figures]) -> Figures:
    """The sum of several figures; all unknown if there are none."""
    listed = list(parts)
    costs = [one.cost_nanos for one in listed if one.cost_nanos is not None]
    usages = [one.usage for one in listed if one.usage is not None]
    return Figures(
        cost_nanos=sum(costs) if listed and len(costs) == len(listed) else None,
        known_nanos=sum(one.known_nanos for one in listed),
        usage=Usage(
            input=sum_known(one.input for one in usages),
            cache_read=sum_known(one.cache_read for one in usages),
            cache_write=sum_known(one.cache_write for one in usages),
            output=sum_known(one.output for one in usages),
        )
        if usages
        else None,
    )


def _read_figures(store: Store, session: str) -> Figures:
    found = run_table.read_session_cost(store, row_id("session", *session.split(":", 1)))
    usage = Usage(
        input=found.input_tokens,
        cache_read=found.cache_read_tokens,
        cache_write=found.cache_write_tokens,
        output=found.output_tokens,
    )
    return Figures(
        cost_nanos=None if found.unpriced_turns else found.cost_nanos,
        known_nanos=found.cost_nanos or 0,
        usage=usage if usage != Usage() else None,
    )


def read_spending(
    store: Store, job: JobDefinition | None = None, *, run_id: int = 0, now: float
) -> DaySpending:
    """Spending of a job and of all jobs today, in the store's time zone, without this run."""
    moment = datetime.fromtimestamp(now, ZoneInfo(store.timezone))
    since = round(moment.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
    own = (
        run_table.read_run_costs(store, since=since, except_run=run_id, job=job.name) if job else []
    )
    every, set_aside = run_table.read_run_costs(store, since=since, except_run=run_id), 0.0
    for key, definition in run_table.find_earlier_runs(store, run_id).items():
        sessions = run_table.find_sessions_named_after(store, key)
        spent = add_figures(store, sessions).known_nanos / 1e9
        # a run that goes on may still spend its job's budget
        set_aside += max(spent, decode_job(definition).budget_usd or 0.0)
    return DaySpending(
        by_job=sum(cost.cost_nanos or 0 for cost in own) / 1e9,
        by_all=sum(cost.cost_nanos or 0 for cost in every) / 1e9,
        set_aside=set_aside,
        unpriced=sum(cost.is_unpriced for cost in every),
    )


def count_left(
    job: JobDefinition, *, config: Config, spent: DaySpending
) -> tuple[float | None, list[str]]:
    """The dollars that a run may cost, None for no limit, and warnings.

    A used-up budget refuses the run. A nearly used-up one gives a warning.
    """
    every, aside = spent.by_all + spent.set_aside, ""
    if spent.set_aside:
        aside = f", ${spent.set_aside:.4f} of it set aside for runs that go on"
    limits = [
        (job.budget_usd, 0.0, "a run", ""),
        (job.budget_usd_per_day, spent.by_job, f"{job.name} a day", ""),
        (config.jobs.budget_usd_per_day, every, "all jobs a day", aside),
    ]
    left: list[float] = []
    warnings = []
    for limit, used, owner, note in limits:
        if limit is None:
            continue
        if used >= limit:
            raise RefusedError(
                f"the budget of ${limit:g} for {owner} is used up: ${used:.4f} spent today{note}",
                "raise it, or wait for tomorrow",
            )
        if used >= limit * config.jobs.warn_at:
            warnings.append(f"${used:.4f} of the budget of ${limit:g} for {owner} is spent{note}")
        left.append(limit - used)
    if spent.unpriced and len(left) > (job.budget_usd is not None):
        warnings.append(f"{spent.unpriced} runs today have no known price: no budget counts them")
    return min(left, default=None), warnings
