"""The roll-up of single calls by tool and kind of failure, kept beside that of usage."""

import sqlite3
from collections.abc import Sequence

# a call whose turn is not known goes by its session's model; model calls that failed have no tool
TOLD = """
    select tool_call.session_id, session.root_id, coalesce(tool_call.day, 'unknown') as day,
        session.source, session.project, coalesce(turn.model, session.model) as model,
        turn.provider, tool_call.tool, tool_call.kind, 1 as tool_calls,
        case when tool_call.label = 'error' then 1 else 0 end as tool_failures, 0 as failed_turns,
        tool_call.at
    from tool_call join session on session.id = tool_call.session_id
    left join turn on turn.id = tool_call.turn_id
    where tool_call.{test}
    union all
    select turn.session_id, session.root_id, coalesce(turn.day, 'unknown'), session.source,
        session.project, turn.model, turn.provider, null, turn.failure, 0, 0, 1, turn.at
    from turn join session on session.id = turn.session_id
    where turn.failure is not null and turn.{test}
"""
KEYS = "session_id, root_id, day, source, project, model, provider, tool, kind"
COLUMNS = f"{KEYS}, tool_calls, tool_failures, failed_turns, last_at"
SUMMED = f"""
    select {KEYS}, sum(tool_calls), sum(tool_failures), sum(failed_turns), max(at)
    from ({{told}}) group by {KEYS}
"""
ROW = (
    "session_id = ?1 and root_id = ?2 and day = ?3 and source = ?4 and project is ?5"
    " and model is ?6 and provider is ?7 and tool is ?8 and kind is ?9"
)


def refresh(database: sqlite3.Connection) -> None:
    """Sum the calls of the sessions in `touched` anew."""
    touched = "session_id in (select id from touched)"
    database.execute(f"delete from call_day where {touched}")
    database.execute(
        f"insert into call_day ({COLUMNS}) {SUMMED.format(told=TOLD.format(test=touched))}"
    )


def shift(database: sqlite3.Connection, ids: Sequence[int], sign: int) -> None:
    """Take these calls and turns out of the roll-up, or put them in, as they stand now.

    So a live session's next event is counted without looking at all that came before it.
    """
    if not ids:
        return
    # the ids as values: a statement that is the same each time is prepared once
    among = f"id in ({', '.join(f'?{place}' for place in range(1, len(ids) + 1))})"
    rows = database.execute(SUMMED.format(told=TOLD.format(test=among)), ids).fetchall()
    for *key, calls, failures, failed_turns, last_at in rows:
        changed = database.execute(
            "update call_day set tool_calls = tool_calls + ?10,"
            " tool_failures = tool_failures + ?11, failed_turns = failed_turns + ?12,"
            f" last_at = max(coalesce(last_at, ?13), coalesce(?13, last_at)) where {ROW}",
            (*key, sign * calls, sign * failures, sign * failed_turns, last_at),
        )
        if not changed.rowcount:
            values = (*key, calls, failures, failed_turns, last_at)
            marks = ", ".join("?" * len(values))
            database.execute(f"insert into call_day ({COLUMNS}) values ({marks})", values)
    if sign < 0 and rows:
        database.execute(
            "delete from call_day where session_id = ? and tool_calls = 0 and failed_turns = 0",
            (rows[0][0],),
        )
