"""The roll-up that reports add from, kept in the same transaction as what it sums."""

import sqlite3
from collections.abc import Iterable

from relight.store.derive import calls

TOKENS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
)
# what is summed and shared out, in this order everywhere
AMOUNTS = (
    "turns",
    "partial_turns",
    "unpriced_turns",
    *TOKENS,
    "cost_nanos",
    "included_nanos",
    "tool_calls",
    "tool_failures",
)
# A call is put on its turn's day and model, so that a day has no row that no turn explains; a
# call whose turn is not known goes with the first turn of its session that can have made it: an
# adviser of a mixture calls no tools. Wall time belongs to the first turn's row, and to root
# sessions only: a sub-agent's time passes inside its parent's.
REFRESH = """
    with first_turn as (
        select session_id, id, role, model, provider from (
            select session_id, id, role, model, provider,
                row_number() over (partition by session_id order by at is null, at, id) as place
            from turn where session_id in (select id from touched) and calls > 0
        ) where place = 1
    ),
    first_acting as (
        select session_id, model, provider from (
            select session_id, model, provider,
                row_number() over (partition by session_id order by at is null, at, id) as place
            from turn where calls > 0 and coalesce(role, '') <> 'reference'
                and session_id in (select session_id from first_turn where role = 'reference')
        ) where place = 1
        union all
        select session_id, model, provider from first_turn where coalesce(role, '') <> 'reference'
    ),
    told as (
        select session_id, day, model, provider, calls as turns,
            iif(usage_status = 'partial', calls, 0) as partial_turns,
            iif(cost_nanos is null, calls, 0) as unpriced_turns,
            input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
            output_tokens, reasoning_tokens,
            iif(cost_status = 'included', 0, coalesce(cost_nanos, 0)) as cost_nanos,
            iif(cost_status = 'included', coalesce(cost_nanos, 0), 0) as included_nanos,
            0 as tool_calls, 0 as tool_failures, id as turn_id
        from turn
        where session_id in (select id from touched) and (calls > 0 or usage_status = 'reconciled')
        union all
        select tool_call.session_id, coalesce(turn.day, tool_call.day),
            coalesce(turn.model, first_acting.model, session.model),
            iif(turn.id is null, first_acting.provider, turn.provider),
            0, 0, 0, null, null, null, null, null, null, 0, 0, 1, tool_call.label = 'error', null
        from tool_call
        join session on session.id = tool_call.session_id
        left join turn on turn.id = tool_call.turn_id
        left join first_acting on first_acting.session_id = tool_call.session_id
        where tool_call.session_id in (select id from touched)
    )
    insert into session_day (session_id, root_id, day, source, project, model, provider, turns,
        partial_turns, unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens,
        cache_write_1h_tokens, output_tokens, reasoning_tokens, cost_nanos, included_nanos,
        tool_calls, tool_failures, wall_ms)
    select told.session_id, session.root_id, coalesce(day, 'unknown'), session.source,
        session.project, told.model, told.provider,
        sum(turns), sum(partial_turns), sum(unpriced_turns), sum(input_tokens),
        sum(cache_read_tokens), sum(cache_write_tokens), sum(cache_write_1h_tokens),
        sum(output_tokens), sum(reasoning_tokens), sum(cost_nanos), sum(included_nanos),
        sum(tool_calls), sum(tool_failures),
        sum(iif(turn_id = first_turn.id and session.id = session.root_id,
            coalesce(session.ended_at - session.started_at, 0), 0))
    from told join session on session.id = told.session_id
    left join first_turn on first_turn.session_id = told.session_id
    group by told.session_id, day, told.model, told.provider
"""

# A session in which no model ever answered is a session all the same.
REFRESH_SILENT = """
    insert into session_day (session_id, root_id, day, source, project, model, provider, turns,
        partial_turns, unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens,
        cache_write_1h_tokens, output_tokens, reasoning_tokens, cost_nanos, included_nanos,
        tool_calls, tool_failures, wall_ms)
    select id, root_id, coalesce(?2, 'unknown'), source, project, model, null,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        iif(id = root_id, coalesce(ended_at - started_at, 0), 0)
    from session where id = ?1
"""


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> None:
    """Sum these sessions anew."""
    rows = [(session_id,) for session_id in touched]
    database.execute("create temp table if not exists touched (id integer primary key)")
    database.execute("delete from touched")
    database.executemany("insert or ignore into touched values (?)", rows)
    database.executemany("delete from session_day where session_id = ?", rows)
    database.execute(REFRESH)
    calls.refresh(database)
    _refresh_silent(database)
    # what was a session of its own and turned out to be a part of another
    database.execute("delete from listing where parts = 0")


def _refresh_silent(database: sqlite3.Connection) -> None:
    from relight.times import day_reader

    (timezone,) = database.execute("select value from meta where key = 'timezone'").fetchone()
    silent = database.execute(
        "select id, started_at from session where id in (select id from touched)"
        " and started_at is not null"
        " and not exists (select 1 from session_day where session_id = session.id)"
    ).fetchall()
    read_day = day_reader(timezone)
    database.executemany(REFRESH_SILENT, [(found, read_day(at)) for found, at in silent])
