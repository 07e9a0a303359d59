"""Turns that rebuilt the prompt cache, and what was written to it."""

from msgspec import Struct

from relight.store import Store
from relight.store.queries.filters import Filter, where
from relight.store.sql import count_if

# a pause that a cache of one hour outlives
HOUR_MS = 60 * 60_000
# the lengths of pauses in minutes that a report lists apart
LENGTHS = (5, 15, 30, 60, 240)
IS_SHORT = f"cause = 'pause' and pause_ms <= {HOUR_MS}"
# other rebuilds cannot be avoided; without a price the avoidable cost is unknown
AVOIDABLE = f"""case when {IS_SHORT} then write_nanos - read_nanos
    when write_nanos is not null then 0 end"""


class RebuildSums(Struct, frozen=True):
    """Rebuilds of one day, model and cause after pauses longer than so many minutes."""

    day: str
    model: str | None
    cause: str
    minutes: int
    turns: int
    unpriced_turns: int
    tokens: int
    write_nanos: int | None
    avoidable_nanos: int | None
    shortest_ms: int
    longest_ms: int

    @property
    def is_short(self) -> bool:
        """True if a cache of one hour would have outlived the pauses."""
        return self.cause == "pause" and self.longest_ms <= HOUR_MS


class Rebuild(Struct, frozen=True):
    """One rebuild, as a list shows it."""

    session_id: int
    session: str
    title: str | None
    turn_id: int
    at: int
    cause: str
    pause_ms: int
    tokens: int
    write_nanos: int | None
    avoidable_nanos: int | None


class DaySpend(Struct, frozen=True):
    """The cost of a day and model at list price, and the part that a plan paid for.

    `short_tokens` were cached for five minutes; any full name of the model finds its price.
    """

    day: str
    model: str | None
    full_model: str | None
    provider: str | None
    spent_nanos: int
    included_nanos: int
    unpriced_turns: int
    short_tokens: int


def sum_rebuilds(store: Store, chosen: Filter) -> list[RebuildSums]:
    """Return sums of the chosen rebuilds by day, model, cause and length of pause."""
    test, values = where(chosen)
    longer = [f"when pause_ms > {one * 60_000} then {one}" for one in reversed(LENGTHS)]
    return store.read(
        RebuildSums,
        f"select day, model, cause, case {' '.join(longer)} else 0 end as minutes,"
        " count(*) as turns,"
        f" {count_if('write_nanos is null')} as unpriced_turns, sum(tokens) as tokens,"
        f" sum(write_nanos) as write_nanos, sum({AVOIDABLE}) as avoidable_nanos,"
        " min(pause_ms) as shortest_ms, max(pause_ms) as longest_ms"
        f" from cache_rebuild {test} group by day, model, cause, minutes",
        values,
    )


def list_rebuilds(store: Store, chosen: Filter, *, limit: int) -> list[Rebuild]:
    """Return the chosen rebuilds, the costliest first."""
    test, values = where(chosen)
    return store.read(
        Rebuild,
        _select(
            f"(select * from cache_rebuild {test}"
            " order by write_nanos desc nulls last, tokens desc, turn_id limit ?)"
        )
        + " order by write_nanos desc nulls last, tokens desc, turn_id",
        [*values, limit],
    )


def read_session_rebuilds(store: Store, session_id: int) -> list[Rebuild]:
    """Return the rebuilds of a session in their order, without those of its sub-agents."""
    statement = f"{_select('cache_rebuild')} where session_id = ? order by at, turn_id"
    return store.read(Rebuild, statement, (session_id,))


def _select(table: str) -> str:
    return (
        "select found.session_id, session.source || ':' || session.key as session,"
        " session.title, turn_id, at, cause, pause_ms, tokens, write_nanos,"
        f" {AVOIDABLE} as avoidable_nanos"
        f" from {table} as found join session on session.id = found.session_id"
    )


def sum_spend(store: Store, chosen: Filter) -> list[DaySpend]:
    """Return the cost of each chosen day and model, in the order of days."""
    test, values = where(chosen)
    full = "(select min(model_alias.model) from model_alias where name = used.model)"
    return store.read(
        DaySpend,
        f"select day, model, coalesce({full}, model) as full_model, provider, spent_nanos,"
        " included_nanos, unpriced_turns, short_tokens from ("
        "   select day, model, max(provider) as provider,"
        "   sum(cost_nanos) + sum(included_nanos) as spent_nanos,"
        "   sum(included_nanos) as included_nanos, sum(unpriced_turns) as unpriced_turns,"
        "   sum(coalesce(cache_write_tokens, 0) - coalesce(cache_write_1h_tokens, 0))"
        "   as short_tokens"
        f"  from session_day {test} group by day, model"
        " ) as used order by day, model nulls first",
        values,
    )
