"""Costs of parts of the record, and the models without a price."""

from typing import cast

from msgspec import Struct
from msgspec.structs import asdict

from relight.store import Store
from relight.store.jobs import OF_JOBS
from relight.store.queries.filters import Filter, where
from relight.store.queries.sums import GroupSums
from relight.store.queries.totals import DAYS, USAGE, sum_groups
from relight.store.sql import count_if, read_usd

# a cost from turns, unpriced turns and nano-dollars; null if no call has a price
KNOWN_COST = "case when {1} < {0} or {1} = 0 or {2} <> 0 then {2} end"

# sums of sessions that began at a moment or later
SINCE = f"""
    select {{sign}}count(*) as sessions, {{sign}}{count_if("outcome = 'success'")} as successes,
        {{sign}}{count_if("outcome = 'failure'")} as failures,
        {{sign}}{count_if("coalesce(outcome, 'unknown') = 'unknown'")} as unknown,
        {{sign}}coalesce(sum(turns), 0) as turns,
        {{sign}}coalesce(sum(unpriced_turns), 0) as unpriced_turns,
        {{sign}}coalesce(sum(cost_nanos), 0) as nanos
    from listing where began_at >= ?
"""


class CostSums(Struct, frozen=True):
    """Sessions and cost of a part of the record."""

    sessions: int
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int

    @property
    def worth_usd(self) -> float:
        """The cost at list price, with what a plan paid for."""
        return (self.cost_usd or 0.0) + self.included_usd


class CostRow(CostSums, frozen=True):
    """Sessions and cost of one model, project or source."""

    name: str | None


class UnpricedModel(Struct, frozen=True):
    """A model without a price, its provider and its turns; None for what is not recorded.

    Of several providers it is the last by name.
    """

    model: str | None
    provider: str | None
    turns: int


def sum_costs(store: Store, by: str, chosen: Filter) -> list[CostRow]:
    """Return sessions and cost by one key of usage, ordered by the key."""
    return [
        CostRow(**asdict(_sum_cost(one)), name=cast("str | None", one.keys[by]))
        for one in sum_groups(store, (by,), chosen)
    ]


def sum_cost(store: Store, chosen: Filter) -> CostSums:
    """Return sessions and cost of a part of the record."""
    return _sum_cost(sum_groups(store, (), chosen)[0])


def _sum_cost(one: GroupSums) -> CostSums:
    turns, unpriced, nanos = one.sums.turns or 0, one.sums.unpriced_turns or 0, one.sums.cost_nanos
    is_known = unpriced < turns or not unpriced or nanos
    return CostSums(
        sessions=one.sums.sessions,
        cost_usd=read_usd(nanos) if is_known else None,
        included_usd=read_usd(one.sums.included_nanos) or 0.0,
        unpriced_turns=unpriced,
    )


def read_unpriced_models(store: Store, chosen: Filter) -> list[UnpricedModel]:
    """Return the models without a price in a part of the record, most turns first.

    A call can have no known cost for another reason: it was cut off, or its usage is unknown.
    """
    test, values = where(chosen)
    return store.read(
        UnpricedModel,
        "select model, max(provider) as provider, sum(turns) as turns"
        f" from {DAYS if chosen.is_of_days else USAGE} {test} group by model"
        " having sum(turns) > 0 and sum(unpriced_turns) >= sum(turns)"
        " and sum(cost_nanos) = 0 and sum(included_nanos) = 0"
        " order by sum(unpriced_turns) desc, model",
        values,
    )


def sum_included(store: Store) -> float:
    """Return the dollars that plans paid for, at list price."""
    ((nanos,),) = store.query("select coalesce(sum(included_nanos), 0) from usage_day")
    return read_usd(nanos) or 0.0


class OtherSessions(Struct, frozen=True):
    """Sessions by outcome, with their known cost; what a plan included is not in it."""

    sessions: int
    successes: int
    failures: int
    unknown: int
    cost_usd: float | None
    unpriced_turns: int


def sum_sessions_since(store: Store, since: int) -> OtherSessions:
    """Return the sums of sessions that began at a moment or later and belong to no run.

    These are the sums of all, which an index has, less those of the runs.
    """
    names = ("sessions", "successes", "failures", "unknown", "turns", "unpriced_turns", "nanos")
    sums = ", ".join(f"sum({name}) as {name}" for name in names)
    known = KNOWN_COST.format("turns", "unpriced_turns", "nanos")
    return store.read(
        OtherSessions,
        f"""
            select sessions, successes, failures, unknown, {known} as cost_usd, unpriced_turns
            from (
                select {sums} from (
                    {SINCE.format(sign="")}
                    union all {SINCE.format(sign="-")} and root_id in ({OF_JOBS})
                ) as parts
            ) as sums
        """,
        (since, since),
        {"cost_usd": read_usd},
    )[0]
