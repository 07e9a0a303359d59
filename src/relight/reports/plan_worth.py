"""The worth of plans this month, against their price."""

import time
from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from relight.sources import is_source, list_sources
from relight.store import Store
from relight.store.queries.costs import sum_costs
from relight.store.queries.filters import Filter
from relight.text import dollars, join_words


class PlanValue(Struct, frozen=True, kw_only=True):
    """A plan in this month: its price, and what it paid for at list price.

    `paid_usd` is what the same source cost beside the plan, None if no price is known.
    """

    source: str
    name: str | None
    month: str
    monthly_usd: float | None
    value_usd: float
    paid_usd: float | None
    unpriced_turns: int


def read_plans(store: Store, *, now: int | None = None) -> list[PlanValue]:
    """Return the plans in config.toml, and those that agents name themselves, for this month.

    A plan in config.toml that names no source is left out: `find_unknown_plans` reports it.
    """
    moment = time.time() if now is None else now / 1000
    today = datetime.fromtimestamp(moment, UTC).astimezone(store.zone).date()
    month = today.isoformat()[:7]
    last = monthrange(today.year, today.month)[1]
    rows = sum_costs(store, "source", Filter(since=f"{month}-01", until=f"{month}-{last:02}"))
    by_source = {row.name: row for row in rows}
    named = [
        source
        for source, plan in store.config.plans.items()
        if plan.is_valid_in(month) and is_source(source)
    ]
    found = []
    for source in dict.fromkeys([*named, *(row.name for row in rows if row.included_usd)]):
        row, plan = by_source.get(source), store.config.plans.get(source or "")
        found.append(
            PlanValue(
                source=source or "",
                name=plan.name if plan else None,
                month=month,
                monthly_usd=plan.monthly_usd if plan else None,
                value_usd=row.included_usd if row else 0.0,
                paid_usd=row.cost_usd if row else 0.0,
                unpriced_turns=row.unpriced_turns if row else 0,
            )
        )
    return found


def describe_plan(plan: PlanValue) -> str:
    """Return a sentence on what a plan was worth.

    >>> figures = {"month": "2026-11", "paid_usd": 0.0, "unpriced_turns": 0}
    >>> describe_plan(PlanValue(source="a", name="max", monthly_usd=100, value_usd=250, **figures))
    'plan max of a: $250.00 at list price this month, for $100.00 (2.5 times its price)'
    """
    name = f"plan {plan.name} of {plan.source}" if plan.name else f"plan of {plan.source}"
    worth = dollars(plan.value_usd, unpriced=plan.unpriced_turns, digits=2)
    text = f"{name}: {worth} at list price this month"
    if plan.monthly_usd:
        times = plan.value_usd / plan.monthly_usd
        text += f", for {dollars(plan.monthly_usd, digits=2)} ({times:.1f} times its price)"
    if plan.paid_usd:
        text += f"; {dollars(plan.paid_usd, digits=2)} paid beside it"
    return text


def find_unknown_plans(plans: Iterable[str], limits: Iterable[str] = ()) -> list[str]:
    """Return a note for each `[plans.SOURCE]` and `[limits.SOURCE]` that names no source."""
    tables = [*(("plans", one) for one in plans), *(("limits", one) for one in limits)]
    return [
        f"[{table}.{one}] names no source: {_suggest_source(one)}"
        for table, one in tables
        if not is_source(one)
    ]


def _suggest_source(typed: str) -> str:
    from difflib import get_close_matches

    known = sorted(list_sources())
    near = get_close_matches(typed, known, n=1)
    return f"did you mean {near[0]}?" if near else f"it can be {join_words(known, 'or')}"
