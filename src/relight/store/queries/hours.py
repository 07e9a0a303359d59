"""Sums of turns by the hour, for a few days: the roll-ups know days only.

The roll-up still finds the sessions of those days, so that a day costs as much in a store of a
million turns as in a small one.
"""

from relight.model import TOKENS
from relight.store import Store
from relight.store.derive.pricing import NAMED
from relight.store.derive.rollup import (
    COST_NANOS,
    INCLUDED_NANOS,
    IS_COUNTED,
    PARTIAL_TURNS,
    UNPRICED_TURNS,
)
from relight.store.queries.filters import Filter
from relight.store.queries.sums import GroupSums
from relight.store.queries.totals import CALL_SUMS, USAGE_KEYS, USAGE_SUMS, sum_table
from relight.store.sql import same

HOUR_MS = 3_600_000
# tool calls and wall time belong to a session, not to an hour of it
KNOWN = [name for name in USAGE_SUMS if name not in (*CALL_SUMS, "wall_ms")]
TURNS = f"""(
    select used.root_id, used.outcome, used.day, used.source, used.project, used.model, turn.at,
        turn.calls as turns, {PARTIAL_TURNS} as partial_turns,
        {UNPRICED_TURNS} as unpriced_turns, {", ".join(f"turn.{name}" for name in TOKENS)},
        {COST_NANOS} as cost_nanos, {INCLUDED_NANOS} as included_nanos
    from (
        select session_id, root_id, outcome, day, source, project, model, provider
        from session_day
    ) as used
    join turn on turn.session_id = used.session_id and turn.day = used.day
        and {same(NAMED.format("turn.model"), "used.model")}
        and {same("turn.provider", "used.provider")}
    where {IS_COUNTED}
) as hourly"""


def sum_hours(
    store: Store, by: str, chosen: Filter, *, start: int, has_outcomes: bool
) -> list[GroupSums]:
    """Return the sums of turns by hours since a moment (key `hour`) and one other key.

    A session counts in each hour in which a model answered.
    """
    keys = {"hour": f"(at - {int(start)}) / {HOUR_MS}", by: USAGE_KEYS[by]}
    return sum_table(store, keys, chosen, TURNS, known=KNOWN, has_outcomes=has_outcomes)
