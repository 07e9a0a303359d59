"""Failed calls added up by day, where calls of tools are (see `rollup.add_up_days`).

A session whose calls are all of one day is in that day's sums, so that sessions can be counted over
any days. All others are read one by one.
"""

from relight.judging.spirals import SPIRAL_MINIMUM
from relight.store.derive.rollup import OF_DAYS, find_range
from relight.store.sql import Connection, count_if, count_rows, make_id_table

FAILED = "(tool_failures > 0 or failed_turns > 0)"
LENGTH: str = find_range("listing.tool_calls")
CATEGORY: str = "coalesce(listing.category, 'unknown')"
PLACES = ("first", "second", "third")
NEWEST: list[str] = [f"{place}_{name}" for place in PLACES for name in ("root", "at")]
# the keys of each kind of sum
KEYS = {
    "kind": ("kind", "tool"),
    "place": ("category", "length", "position"),
    "length": ("category", "length"),
}
SUMS = ("tool_calls", "tool_failures", "failed_turns")
_OF_ONE = "root_id not in (select id from several_root)"
_CALLS = {
    "kind": f"select *, last_at as at from call_day where {OF_DAYS} and {FAILED} and {_OF_ONE}",
    "place": f"""
        select used.*, {LENGTH} as length, {CATEGORY} as category from (
            select day, root_id, position, tool_calls, tool_failures, failed_turns, failed_at as at
            from position_day where {OF_DAYS} and {_OF_ONE}
        ) as used left join listing on listing.root_id = used.root_id
    """,
}
_CALLS["length"] = _CALLS["place"]
_SEVERAL = f"""
    insert into several_root (id) select root_id from call_day
    where session_id in (
        select id from session where root_id in (select root_id from call_day where {OF_DAYS})
    )
    group by root_id having min(day) <> max(day)
"""
_ADD_SEVERAL = f"""
    insert into failure_session (day, session_id, has_days)
    select distinct day, session_id, 1 from call_day where {OF_DAYS} and not {_OF_ONE}
"""
_ADD_OFTEN = f"""
    insert into failure_session (day, session_id, has_days)
    select distinct day, session_id, 0 from (
        select day, session_id from call_day
        where {OF_DAYS} and {FAILED} and tool is not null and {_OF_ONE}
        group by day, session_id, tool having sum(tool_failures) >= {SPIRAL_MINIMUM}
    ) as often
"""


def _add(what: str) -> str:
    """Return the statement that adds calls up by the keys of one kind."""
    keys = ", ".join(("day", *KEYS[what]))
    summed = ", ".join(f"sum({name}) as {name}" for name in SUMS)
    newest = ", ".join(
        f"max(case when failed = 1 and place = {place} then {name} end)"
        for place in range(1, len(PLACES) + 1)
        for name in ("root_id", "at")
    )
    return f"""
        insert into failure_day
            (what, {keys}, number, sessions, {", ".join(SUMS)}, {", ".join(NEWEST)})
        select '{what}', {keys}, row_number() over (partition by day order by {keys}),
            sum(failed), {summed}, {newest}
        from (
            select *, row_number() over (partition by {keys}, failed order by at desc, root_id)
                as place
            from (
                select {keys}, root_id, {summed}, max(coalesce(at, 0)) as at,
                    case when {count_if("tool_failures > 0 or failed_turns > 0")} > 0
                        then 1 else 0 end as failed
                from ({_CALLS[what]}) as calls group by {keys}, root_id
            ) as one
        ) as placed
        group by {keys}
    """


def add_up_failures(database: Connection) -> None:
    """Add up the failed calls of the chosen days."""
    make_id_table(database, "several_root")
    database.execute("delete from several_root")
    database.execute(_SEVERAL)
    count_rows(database, "several_root")
    for table in ("failure_day", "failure_session"):
        database.execute(f"delete from {table} where {OF_DAYS}")
    database.execute(_ADD_SEVERAL)
    database.execute(_ADD_OFTEN)
    for what in KEYS:
        database.execute(_add(what))
