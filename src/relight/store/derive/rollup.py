"""The roll-ups that reports add up, written in the same transaction as the rows they sum.

`session_day` has usage by day and model, `call_day` has calls by tool and kind of failure,
`session_hour` has turns by hour, `position_day` has calls by their place in the session. `tool_day`
has the calls of all sessions by day and tool, `failure_day` those that failed.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from relight.model import AMOUNTS, TOKENS, WHOLE_TOKENS
from relight.store.derive.pricing import NAMED
from relight.store.sql import (
    Connection,
    add_up,
    count_if,
    count_rows,
    flag,
    make_id_table,
    write_touched,
)
from relight.times import day_reader

if TYPE_CHECKING:
    from relight.store import Store

# The amounts of one turn. A failed call is no turn, but what it cost counts, or that its cost is
# unknown; one that was refused adds nothing. A charge of skills counts the cost of included turns
# as well.
IS_COUNTED = f"""(calls > 0 or usage_status = 'reconciled' or cost_nanos is null or cost_nanos > 0
    or {add_up(WHOLE_TOKENS)} > 0)"""
PARTIAL_TURNS = "case when usage_status = 'partial' then calls else 0 end"
UNPRICED_TURNS = """case when cost_nanos is not null then 0
    when calls = 0 and usage_status <> 'reconciled' then 1 else calls end"""
COST_NANOS = "case when cost_status = 'included' then 0 else coalesce(cost_nanos, 0) end"
INCLUDED_NANOS = "case when cost_status = 'included' then coalesce(cost_nanos, 0) else 0 end"
TOUCHED = "session_id in (select id from touched)"
NO_NUMBER: str = "cast(null as bigint)"
NO_TEXT = "cast(null as text)"
NO_TOKENS = ", ".join([NO_NUMBER] * len(TOKENS))
SUMS = ", ".join(f"sum({name})" for name in AMOUNTS)
SUMMED = ", ".join(f"sum({name}) as {name}" for name in AMOUNTS)
DAY_COLUMNS = f"""
    session_id, root_id, day, source, project, model, provider, branch, machine_id, outcome,
    {", ".join(AMOUNTS)}, wall_ms
"""
# of the session with its sub-agents; a trigger changes it with that of the session
OUTCOME = "(select outcome from session as top where top.id = {0}.root_id)"
# A call is put on its turn's day and model, so that a day has no row that no turn explains. A call
# whose turn is not known goes with the first turn of its session that can have made it: one of the
# conversation, else one of its sub-tasks, but none of an adviser of a mixture, which calls no
# tools. Wall time belongs to the row of the first turn, and to root sessions only: a sub-agent's
# time passes inside its parent's. A failed call is the first turn only of a session without any
# answer. Of turns at one moment the names decide before the ids, which have the machine's key on a
# server. `summed` has few rows to look names up for.
EARLIER = "model nulls last, provider nulls last, id"
REFRESH = f"""
    with first_turn as (
        select session_id, id, role, model, provider from (
            select session_id, id, role, model, provider, row_number() over (
                partition by session_id
                order by case when calls > 0 then 0 else 1 end, at nulls last,
                    role nulls first, {EARLIER}
            ) as number
            from turn where session_id in (select id from touched) and {IS_COUNTED}
        ) as numbered where number = 1
    ),
    first_acting as (
        select session_id, model, provider from (
            select session_id, model, provider, row_number() over (
                partition by session_id
                order by case when role is null then 0 else 1 end, at nulls last, {EARLIER}
            ) as number
            from turn where calls > 0 and coalesce(role, '') <> 'reference'
                and session_id in (select session_id from first_turn where role is not null)
        ) as numbered where number = 1
        union all
        select session_id, model, provider from first_turn where role is null
    ),
    counted as (
        select session_id, day, model, provider, branch, calls as turns,
            {PARTIAL_TURNS} as partial_turns, {UNPRICED_TURNS} as unpriced_turns,
            {", ".join(TOKENS)}, {COST_NANOS} as cost_nanos,
            {INCLUDED_NANOS} as included_nanos, 0 as tool_calls, 0 as tool_failures, id as turn_id
        from turn
        where session_id in (select id from touched) and {IS_COUNTED}
        union all
        select tool_call.session_id, coalesce(turn.day, tool_call.day),
            coalesce(turn.model, first_acting.model, session.model),
            case when turn.id is null then first_acting.provider else turn.provider end,
            turn.branch, 0, 0, 0, {NO_TOKENS}, 0, 0, 1, {flag("tool_call.label = 'error'")},
            {NO_NUMBER}
        from tool_call
        join session on session.id = tool_call.session_id
        left join turn on turn.id = tool_call.turn_id
        left join first_acting on first_acting.session_id = tool_call.session_id
        where tool_call.session_id in (select id from touched)
    ),
    summed as (
        select session_id, day, model, provider, branch, {SUMMED},
            max(case when turn_id in (select id from first_turn) then 1 else 0 end) as has_first
        from counted group by session_id, day, model, provider, branch
    )
    insert into session_day ({DAY_COLUMNS})
    select summed.session_id, session.root_id, coalesce(day, 'unknown'), session.source,
        session.project, {NAMED.format("summed.model")}, summed.provider,
        coalesce(summed.branch, session.branch), session.machine_id, {OUTCOME.format("session")},
        {SUMS},
        sum(case when has_first = 1 and session.id = session.root_id
            then coalesce(session.ended_at - session.started_at, 0) else 0 end)
    from summed join session on session.id = summed.session_id
    group by summed.session_id, day, {NAMED.format("summed.model")}, summed.provider,
        coalesce(summed.branch, session.branch), session.root_id,
        session.source, session.project, session.machine_id
"""

# a session without any model response is a session all the same
REFRESH_SILENT = f"""
    insert into session_day ({DAY_COLUMNS})
    select id, root_id, coalesce(:day, 'unknown'), source, project,
        {NAMED.format("session.model")}, {NO_TEXT}, branch, machine_id, {OUTCOME.format("session")},
        {", ".join("0" for _ in AMOUNTS)},
        case when id = root_id then coalesce(ended_at - started_at, 0) else 0 end
    from session where id = :id
"""


class CallDayRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `call_day`."""

    session_id: int
    root_id: int
    day: str
    source: str
    project: str | None
    model: str | None
    provider: str | None
    tool: str | None
    kind: str | None
    machine_id: int | None
    outcome: str | None
    tool_calls: int
    tool_failures: int
    failed_turns: int
    last_at: int | None


# a call whose turn is not known goes by its session's model; failed model calls have no tool
CALLS: str = f"""
    select tool_call.session_id, session.root_id, coalesce(tool_call.day, 'unknown') as day,
        session.source, session.project,
        {NAMED.format("coalesce(turn.model, session.model)")} as model,
        turn.provider, tool_call.tool, tool_call.kind, session.machine_id, 1 as tool_calls,
        case when tool_call.label = 'error' then 1 else 0 end as tool_failures, 0 as failed_turns,
        tool_call.at, tool_call.place
    from tool_call join session on session.id = tool_call.session_id
    left join turn on turn.id = tool_call.turn_id
    where tool_call.{{test}}
    union all
    select turn.session_id, session.root_id, coalesce(turn.day, 'unknown'), session.source,
        session.project, {NAMED.format("turn.model")}, turn.provider, cast(null as text),
        turn.failure,
        session.machine_id, 0, 0, 1, turn.at, cast(null as bigint)
    from turn join session on session.id = turn.session_id
    where turn.failure is not null and turn.{{test}}
"""
CALL_KEYS = "session_id, root_id, day, source, project, model, provider, tool, kind, machine_id"
CALL_COLUMNS = f"{CALL_KEYS}, outcome, tool_calls, tool_failures, failed_turns, last_at"
CALL_SUMS = f"""
    select {CALL_KEYS}, {OUTCOME.format("counted")} as outcome, sum(tool_calls) as tool_calls,
        sum(tool_failures) as tool_failures, sum(failed_turns) as failed_turns,
        max(at) as last_at
    from ({CALLS}) as counted group by {CALL_KEYS}
"""
# an hour ends with its last moment, as blocks of five hours do
ADD_HOURS = f"""
    insert into session_hour
        (session_id, hour, source, first_at, turns, unpriced_turns, tokens, nanos)
    select used.session_id, hour, session.source, min(used.at), count(*),
        count(*) - count(used.cost_nanos), sum(used.tokens), sum(used.cost_nanos)
    from (
        select id, session_id, (at - 1) / 3600000 as hour, at, cost_nanos,
            {add_up(WHOLE_TOKENS)} as tokens
        from turn where at is not null
    ) as used join session on session.id = used.session_id
    where used.tokens > 0 and used.{{test}} group by used.session_id, hour, session.source
"""

# the first places of the ranges that calls are summed by
RANGES = (1, 11, 31, 101, 301)
# the place of each call
NUMBERED = """sum(tool_calls) over (
        partition by session_id order by at nulls last, place nulls last rows unbounded preceding
    ) + failed_turns"""


def find_range(number: str) -> str:
    """Return the SQL of the first number of the range that a number is in."""
    tests = " ".join(f"when {number} >= {first} then {first}" for first in reversed(RANGES))
    return f"case {tests} else {RANGES[0]} end"


# A failed model call is at the place of the tool call that it did not make. Few rows are left for
# the session to be looked up for.
ADD_POSITIONS = f"""
    insert into position_day (session_id, day, position, root_id, source, project, machine_id,
        tool_calls, tool_failures, failed_turns, failed_at)
    select session_id, day, position, root_id, source, project, machine_id, tool_calls,
        tool_failures, failed_turns, failed_at
    from (
        select session_id, day, {find_range("number")} as position, sum(tool_calls) as tool_calls,
            sum(tool_failures) as tool_failures, sum(failed_turns) as failed_turns,
            max(case when tool_failures + failed_turns > 0 then at end) as failed_at
        from (
            select session_id, day, at, tool_calls, tool_failures, failed_turns,
                {NUMBERED} as number
            from (
                select session_id, coalesce(day, 'unknown') as day, at, place, 1 as tool_calls,
                    {flag("label = 'error'")} as tool_failures, 0 as failed_turns
                from tool_call where {{test}}
                union all
                select session_id, coalesce(day, 'unknown'), at, {NO_NUMBER}, 0, 0, 1
                from turn where failure is not null and {{test}}
            ) as calls
        ) as numbered group by session_id, day, {find_range("number")}
    ) as summed join session on session.id = summed.session_id
"""

# A day is stale in `tool_day` if one of its sessions went on elsewhere, in another part of it.
NOTE_PARTS = """
    insert into stale_day (day) select distinct day from call_day
    where session_id in (
        select id from session where root_id in ({roots}) and id not in ({known})
    )
    on conflict (day) do nothing
"""
NOTE_TOUCHED = NOTE_PARTS.format(
    roots="select root_id from session where id in (select id from touched)",
    known="select id from touched",
)
# the session itself too: it has gone on on another day, or with another model
NOTE_ROOT = NOTE_PARTS.format(roots="?", known="0")

# Calls of tools are added up by day behind the writing of calls. Triggers note the days whose calls
# change, and reports read the calls of these days one by one: so the sums may be written any time.
# Today still changes, and is left out. So many are added up in one transaction.
DAYS_AT_ONCE = 20
PLACE = "day, source, project, model, provider, machine_id"
TOOL_COLUMNS = f"""{PLACE}, tool, sessions, successes, failures, tool_calls, tool_failures,
    calls_squared, failed_squared, calls_times_failed"""
OF_DAYS = "day in (select day from chosen_day)"
# the sessions of these days with calls in several places
_DIFFER = " or ".join(
    f"min({value}) <> max({value})"
    for value in (
        "day",
        "source",
        *(f"coalesce({name}, '(none)')" for name in ("project", "model", "provider")),
        "coalesce(machine_id, 0)",
    )
)
SPREAD_ROOTS = f"""
    insert into spread_root (id) select root_id from call_day
    where tool is not null and session_id in (
        select id from session where root_id in (select root_id from call_day where {OF_DAYS})
    )
    group by root_id having {_DIFFER}
"""
MARK_SPREAD = """
    update call_day set is_spread = 1 where is_spread = 0 and tool is not null
        and session_id in (select id from session where root_id in (select id from spread_root))
"""
UNMARK_SPREAD = f"""
    update call_day set is_spread = 0 where is_spread = 1 and {OF_DAYS}
        and root_id not in (select id from spread_root)
"""
ADD_TOOLS = f"""
    insert into tool_day ({TOOL_COLUMNS})
    select {PLACE}, tool, count(*), {count_if("outcome = 'success'")},
        {count_if("outcome = 'failure'")}, sum(calls), sum(failed),
        sum(calls * calls), sum(failed * failed), sum(calls * failed)
    from (
        select {PLACE}, {{tool}} as tool, max(outcome) as outcome,
            cast(sum(tool_calls) as bigint) as calls, cast(sum(tool_failures) as bigint) as failed
        from call_day where {OF_DAYS} and tool is not null and is_spread = 0
        group by {PLACE}, root_id{{key}}
    ) as one group by {PLACE}, tool
"""


def days_of(database: Connection) -> Callable[[int | None], str | None]:
    """Return the function that gives the calendar day of a time in the store's time zone."""
    (timezone,) = database.execute("select value from meta where key = 'timezone'").fetchone()
    return day_reader(timezone)


def refresh(database: Connection, touched: Iterable[int]) -> None:
    """Sum these sessions again."""
    sessions = set(touched)
    write_touched(database, sessions)
    rows = [(session_id,) for session_id in sessions]
    database.executemany("delete from session_day where session_id = ?", rows)
    database.execute(REFRESH)
    _refresh_hours(database)
    _refresh_calls(database)
    _refresh_silent(database)
    database.execute(NOTE_TOUCHED)
    # a session that turned out to be a part of another
    database.execute("delete from listing where parts = 0")


def _refresh_hours(database: Connection) -> None:
    database.execute(f"delete from session_hour where {TOUCHED}")
    database.execute(ADD_HOURS.format(test=TOUCHED))


def _refresh_calls(database: Connection) -> None:
    database.execute(f"delete from call_day where {TOUCHED}")
    database.execute(f"insert into call_day ({CALL_COLUMNS}) {CALL_SUMS.format(test=TOUCHED)}")
    database.execute(f"delete from position_day where {TOUCHED}")
    database.execute(ADD_POSITIONS.format(test=TOUCHED))


def _refresh_silent(database: Connection) -> None:
    silent = database.execute(
        "select id, started_at from session where id in (select id from touched)"
        " and started_at is not null"
        " and not exists (select 1 from session_day where session_id = session.id)"
    ).fetchall()
    read_day = days_of(database)
    values = [{"id": found, "day": read_day(at)} for found, at in silent]
    database.executemany(REFRESH_SILENT, values)


def add_up_days(store: "Store", *, before: str | None = None) -> int:
    """Add up the calls of the days that have changed, and are over; return how many.

    `before` is the first day that is not, by default today.
    """
    if before is None:
        before = day_reader(store.timezone)(round(time.time() * 1000))
    done = 0
    while some := store.query(
        f"select day from stale_day where day < ? order by day limit {DAYS_AT_ONCE}", (before,)
    ):
        with store.transaction() as database:
            _add_up(database, [day for (day,) in some])
        done += len(some)
    return done


def drop_stale_sums(database: Connection) -> None:
    """Delete the sums of days that have changed: they tell of sessions that may be deleted."""
    for table in ("tool_day", "failure_day", "failure_session"):
        database.execute(f"delete from {table} where day in (select day from stale_day)")


def _add_up(database: Connection, days: Sequence[str]) -> None:
    from relight.store.derive.failure_days import add_up_failures  # it is made of the same parts

    database.execute("create temp table if not exists chosen_day (day text primary key)")
    database.execute("delete from chosen_day")
    database.executemany("insert into chosen_day (day) values (?)", [(day,) for day in days])
    count_rows(database, "chosen_day")
    make_id_table(database, "spread_root")
    database.execute("delete from spread_root")
    database.execute(SPREAD_ROOTS)
    count_rows(database, "spread_root")
    database.execute(MARK_SPREAD)
    database.execute(UNMARK_SPREAD)
    database.execute(f"delete from tool_day where {OF_DAYS}")
    database.execute(ADD_TOOLS.format(tool="tool", key=", tool"))
    database.execute(ADD_TOOLS.format(tool="cast(null as text)", key=""))
    add_up_failures(database)
    database.execute(f"delete from stale_day where {OF_DAYS}")
