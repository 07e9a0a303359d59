"""The table `budget`, and what was spent on the days that budgets are about."""

from collections.abc import Mapping

from msgspec import Struct

from relight.store import Store
from relight.store.queries.filters import Filter, where
from relight.store.sql import insert, replacing


class BudgetRow(Struct, frozen=True):
    """A row of `budget`."""

    scope: str
    period: str
    limit_nanos: int
    stops: int


class DayCost(Struct, frozen=True):
    """The cost of one day; `unpriced_turns` have no known cost."""

    day: str
    cost_nanos: int
    unpriced_turns: int


def read_rows(store: Store) -> list[BudgetRow]:
    """Return all budgets, those for everything first."""
    return store.read(
        BudgetRow,
        "select * from budget order by case when scope = 'all' then 0 else 1 end, scope, period",
    )


def set_budget(store: Store, row: BudgetRow) -> None:
    """Write a budget; it replaces the one of the same scope and period."""
    with store.transaction() as database:
        insert(database, "budget", [row], on_conflict=replacing(BudgetRow, "scope", "period"))


def remove_budget(store: Store, scope: str, period: str) -> bool:
    """Delete a budget; False if there is none of this scope and period."""
    return store.write("delete from budget where scope = ? and period = ?", (scope, period)) == 1


def read_day_costs(store: Store, chosen: Filter) -> list[DayCost]:
    """Return what was paid on each day that has records, without what a plan included."""
    test, values = where(chosen)
    return store.read(
        DayCost,
        "select day, sum(cost_nanos) as cost_nanos, sum(unpriced_turns) as unpriced_turns"
        f" from session_day {test} group by day order by day",
        values,
    )


def read_spent(store: Store, chosen: Filter) -> DayCost:
    """Return what was paid on all days of a filter together; `day` is the last of them."""
    test, values = where(chosen)
    return store.read(
        DayCost,
        "select coalesce(max(day), '') as day, coalesce(sum(cost_nanos), 0) as cost_nanos,"
        f" coalesce(sum(unpriced_turns), 0) as unpriced_turns from session_day {test}",
        values,
    )[0]


def read_later_costs(store: Store, chosen: Filter, moments: Mapping[str, int]) -> dict[str, int]:
    """Return the cost of each of these days, from the moment that is given for it."""
    if not moments:
        return {}
    test, values = where(chosen)
    cases = " ".join("when ? then ?" for _ in moments)
    rows = store.query(
        f"""
            select turn.day, sum(turn.cost_nanos) from turn
            join (select distinct session_id from session_day {test}) as used
                on used.session_id = turn.session_id
            where turn.at >= ? and turn.at >= case turn.day {cases} end
                and turn.cost_status <> 'included'
            group by turn.day
        """,
        [*values, min(moments.values()), *(one for pair in moments.items() for one in pair)],
    )
    return {day: nanos or 0 for day, nanos in rows}
