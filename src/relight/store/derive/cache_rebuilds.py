"""Turns that rebuilt the prompt cache, each with its cause and its price.

A turn is compared with the turn before in the same session, also if a fork copied that one: every
agent has its own prefix. Calls beside the conversation, such as those of advisers, are compared
with calls of the same role and model. A call that writes no cache entry rebuilds nothing: caches
that a provider keeps by itself have no price for writing.
"""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from relight.prices import MTOK, find_rates
from relight.store.derive.pricing import NAMED, Pricing
from relight.store.sql import Connection, differs, insert, read, replacing, write_touched

FIVE_MINUTES_MS, HOUR_MS = 5 * 60_000, 60 * 60_000
COLUMNS = """
    turn.id, turn.session_id, at, day, model, provider, role, input_tokens, cache_read_tokens,
    cache_write_tokens, cache_write_1h_tokens
"""
# calls that were answered, with their own time and tokens
IS_COMPARED = """
    calls = 1 and total_id is null and usage_status in ('final', 'partial')
    and at is not null and cache_read_tokens is not null and cache_write_tokens is not null
"""
# the turns of a session's records, in sessions that were touched
HELD = f"""
    select {COLUMNS}, session_id as holder from turn
    where session_id in (select id from touched) and {IS_COMPARED}
    union all
    select {COLUMNS}, shared_turn.session_id from shared_turn
    join turn on turn.id = shared_turn.turn_id
    where shared_turn.session_id in (select id from touched) and {IS_COMPARED}
"""
# the last turns of a live session, whose next turn is looked at alone
LAST_HELD = f"""
    select * from (
        select {COLUMNS}, session_id as holder from turn
        where session_id in (select id from touched) and {IS_COMPARED}
        order by at desc, place desc limit 20
    ) as newest
"""
# `last_write` is twice the time of the last write, and one more if all of it was for an hour
REBUILT = f"""
    with held as ({{held}}),
    chained as (
        select held.*,
            lag(at) over chain as before_at,
            lag(model) over chain as before_model,
            lag(cache_read_tokens + cache_write_tokens) over chain as before_tokens,
            max(case when cache_write_tokens = 0 then null
                when coalesce(cache_write_1h_tokens, 0) < cache_write_tokens then at * 2
                else at * 2 + 1 end)
                over (chain rows between unbounded preceding and 1 preceding) as last_write
        from held
        window chain as (
            partition by holder, role, case when role is null then null else model end
            order by at, id
        )
    )
    select chained.id as turn_id, session_id, session.root_id,
        coalesce(day, 'unknown') as day, session.source, session.project,
        {NAMED.format("chained.model")} as model, at,
        case when exists (
                select 1 from compaction where compaction.session_id = holder
                    and compaction.at > before_at and compaction.at <= chained.at
            ) then 'compaction'
            when {differs("chained.model", "before_model")} then 'model_switch'
            when at - before_at >
                case when last_write % 2 = 1 then {HOUR_MS} else {FIVE_MINUTES_MS} end
            then 'pause' else 'prefix_changed' end as cause,
        at - before_at as pause_ms,
        case when cache_write_tokens < before_tokens - cache_read_tokens
            then cache_write_tokens else before_tokens - cache_read_tokens end as tokens,
        chained.model as full_model, provider,
        coalesce(input_tokens, 0) + cache_read_tokens + cache_write_tokens as prompt,
        cache_write_tokens as written, coalesce(cache_write_1h_tokens, 0) as written_1h
    from chained join session on session.id = chained.session_id
    where chained.session_id = holder and cache_read_tokens < before_tokens
        and cache_write_tokens > 0
"""


class RebuildColumns(Struct, frozen=True):
    """A turn that rebuilt the cache."""

    turn_id: int
    session_id: int
    root_id: int
    day: str
    source: str
    project: str | None
    model: str | None
    at: int
    cause: str
    pause_ms: int
    tokens: int


class RebuiltTurn(RebuildColumns, frozen=True):
    """The same with all that its price depends on."""

    full_model: str | None
    provider: str | None
    prompt: int
    written: int
    written_1h: int


class CacheRebuildRow(RebuildColumns, frozen=True):
    """A row of `cache_rebuild`."""

    write_nanos: int | None
    read_nanos: int | None


def refresh(database: Connection, touched: Iterable[int], pricing: Pricing) -> None:
    """Find the rebuilds of these sessions again."""
    write_touched(database, touched)
    database.execute("delete from cache_rebuild where session_id in (select id from touched)")
    found = read(database, RebuiltTurn, REBUILT.format(held=HELD))
    _write(database, found, pricing)


def append_turns(
    database: Connection, session_id: int, turns: Collection[int], pricing: Pricing
) -> None:
    """Look at new turns at the end of a live session, at a cost that does not grow with it."""
    write_touched(database, [session_id])
    found = read(database, RebuiltTurn, REBUILT.format(held=LAST_HELD))
    _write(database, [one for one in found if one.turn_id in turns], pricing)


def _write(database: Connection, found: Sequence[RebuiltTurn], pricing: Pricing) -> None:
    rows = [_price(one, pricing) for one in found]
    insert(
        database, "cache_rebuild", rows, on_conflict=replacing(CacheRebuildRow, "day", "turn_id")
    )


def _price(turn: RebuiltTurn, pricing: Pricing) -> CacheRebuildRow:
    prices = pricing.find_list(turn.full_model, turn.provider)
    rates = find_rates(prices, at=turn.at, prompt=turn.prompt) if prices else None
    write_nanos = read_nanos = None
    if rates is not None and rates.input is not None:
        hour = min(turn.written_1h, turn.written)
        both = (turn.written - hour) * rates.cache_write + hour * rates.cache_write_1h
        write_nanos = round(turn.tokens * both / turn.written / MTOK)
        read_nanos = round(turn.tokens * rates.cache_read / MTOK)
    known = {name: getattr(turn, name) for name in RebuildColumns.__struct_fields__}
    return CacheRebuildRow(**known, write_nanos=write_nanos, read_nanos=read_nanos)
