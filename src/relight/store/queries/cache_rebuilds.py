"""Turns that rebuilt the prompt cache, and what was written to it."""

from msgspec import Struct

from relight.store import Store
from relight.store.queries.filters import Filter, where
from relight.store.sql import count_if, same

# a pause that a cache of one hour outlives
HOUR_MS = 60 * 60_000
IS_SHORT = f"cause = 'pause' and pause_ms <= {HOUR_MS}"
AVOIDABLE = f"case when {IS_SHORT} then write_nanos - read_nanos end"


class RebuildSums(Struct, frozen=True):
    """Rebuilds of one day, cause and length of pause: longer than `minutes`, at most one more."""

    day: str
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
    """The cost of a day at list price, and the part that a plan paid for."""

    day: str
    spent_nanos: int
    included_nanos: int
    unpriced_turns: int


class ShortWrites(Struct, frozen=True):
    """Tokens that one model cached for five minutes; its full name finds its price.

    `again_tokens` are those that a cache of one hour would have kept.
    """

    model: str | None
    provider: str | None
    tokens: int
    again_tokens: int


def sum_rebuilds(store: Store, chosen: Filter) -> list[RebuildSums]:
    """Return sums of the chosen rebuilds by day, cause and length, in the order of days."""
    test, values = where(chosen)
    return store.read(
        RebuildSums,
        "select day, cause, (pause_ms - 1) / 60000 as minutes, count(*) as turns,"
        f" {count_if('write_nanos is null')} as unpriced_turns, sum(tokens) as tokens,"
        f" sum(write_nanos) as write_nanos, sum({AVOIDABLE}) as avoidable_nanos,"
        " min(pause_ms) as shortest_ms, max(pause_ms) as longest_ms"
        f" from cache_rebuild {test} group by day, cause, minutes order by day, cause, minutes",
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
    """Return the cost of each chosen day."""
    test, values = where(chosen)
    return store.read(
        DaySpend,
        "select day, sum(cost_nanos) + sum(included_nanos) as spent_nanos,"
        " sum(included_nanos) as included_nanos, sum(unpriced_turns) as unpriced_turns"
        f" from session_day {test} group by day order by day",
        values,
    )


def sum_short_writes(store: Store, chosen: Filter) -> list[ShortWrites]:
    """Return what was cached for five minutes, by model."""
    test, values = where(chosen)
    full = "(select min(model_alias.model) from model_alias where name = used.model)"
    return store.read(
        ShortWrites,
        f"select coalesce({full}, used.model) as model, provider, used.tokens,"
        " coalesce(again.tokens, 0) as again_tokens from ("
        "   select model, max(provider) as provider,"
        "   sum(cache_write_tokens - coalesce(cache_write_1h_tokens, 0)) as tokens"
        f"  from session_day {test} group by model"
        " ) as used left join ("
        "   select model, sum(tokens) as tokens from cache_rebuild"
        f"  {f'{test} and' if test else 'where'} {IS_SHORT} group by model"
        f" ) as again on {same('again.model', 'used.model')}"
        " where used.tokens > 0 order by model, provider",
        [*values, *values],
    )
