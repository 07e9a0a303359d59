"""What was told of skills in sessions: facts, apart from the uses that they become."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

# what may be told of a use; what was left out is null
FACTS = (
    "job_id",
    "skill_version",
    "invoked_at",
    "completed_at",
    "model",
    "provider",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost_nanos",
    "cost_status",
    "cost_source",
    "success",
    "end_reason",
    "quality_score",
    "share",
)
READ = f"select id, session_id, skill_name, entry, {', '.join(FACTS)} from skill_told"
# of a session with its sub-agents, whose uses are the whole session's
OF_TREE = "session_id in (select source || ':' || key from session where root_id = ?)"
# each telling with a new id, so that ids are in the order of telling
WRITE = f"""
    insert or replace into skill_told (id, session_id, skill_name, entry, {", ".join(FACTS)})
    values (nullif(:id, 0), :session_id, :skill_name, :entry, {", ".join(f":{n}" for n in FACTS)})
"""
# told before the session was read, under its bare id
UNJOINED = """
    select skill_told.id, session.source || ':' || session.key
    from session join skill_told on skill_told.session_id = session.key
    where session.id in (select id from touched) order by skill_told.id
"""

Values = dict[str, Any]


class Told(Struct, frozen=True, kw_only=True):
    """What was told of one use; `values` has only what was not left out."""

    id: int = 0
    session_id: str
    skill_name: str
    entry: str | None
    values: Values


def combine(older: Mapping[str, Any], newer: Mapping[str, Any]) -> Values:
    """Both as one, where what was told later wins and what it leaves out stays.

    A cost told after all ends its being unknown, and the other way round.

    >>> combine({"cost_status": "unknown"}, {"cost_nanos": 5})
    {'cost_nanos': 5}
    """
    found = {**older, **newer}
    if newer.get("cost_status") == "unknown":
        found.pop("cost_nanos", None)
    elif "cost_nanos" in newer and found.get("cost_status") == "unknown":
        del found["cost_status"]
    return found


def keep(database: sqlite3.Connection, told: Told) -> Told:
    """Write a fact with what was told of the same use before."""
    known = _find(database, told)
    return _write(database, told, combine(known.values if known else {}, told.values))


def read_of_session(database: sqlite3.Connection, name: str) -> list[Told]:
    """What was told of one session, recorded or not."""
    return _read(database, "session_id = ?", (name,))


def read_of_tree(database: sqlite3.Connection, root_id: int) -> list[Told]:
    """What was told of a recorded session and its sub-agents."""
    return _read(database, OF_TREE, (root_id,))


def join(database: sqlite3.Connection) -> None:
    """Give what was told of the sessions in `touched`, before they were read, their full names."""
    for told_id, name in database.execute(UNJOINED).fetchall():
        (told,) = _read(database, "id = ?", (told_id,))
        database.execute("delete from skill_told where id = ?", (told_id,))
        # the use goes on under the name, in place of one that was told of by it
        database.execute(
            "update or replace skill_invocations set session_id = ? where session_id = ?",
            (name, told.session_id),
        )
        named = replace(told, session_id=name)
        known = _find(database, named)
        both = sorted([one for one in (named, known) if one], key=lambda one: one.id)
        _write(database, both[-1], combine(both[0].values, both[-1].values))


def forget(database: sqlite3.Connection, session_id: int) -> None:
    """Take away what was told of a recorded session."""
    database.execute(
        "delete from skill_told where session_id ="
        " (select source || ':' || key from session where id = ?)",
        (session_id,),
    )


def _find(database: sqlite3.Connection, told: Told) -> Told | None:
    """What is known of the use that this one tells of."""
    found = _read(
        database,
        "session_id = ? and skill_name = ? and coalesce(entry, '') = ?",
        (told.session_id, told.skill_name, told.entry or ""),
    )
    return found[0] if found else None


def _write(database: sqlite3.Connection, told: Told, values: Values) -> Told:
    fields = dict.fromkeys(FACTS) | values | asdict(told)
    return replace(told, id=database.execute(WRITE, fields).lastrowid, values=values)


def _read(database: sqlite3.Connection, test: str, values: tuple[Any, ...]) -> list[Told]:
    return [
        Told(
            id=row[0],
            session_id=row[1],
            skill_name=row[2],
            entry=row[3],
            values={n: v for n, v in zip(FACTS, row[4:], strict=True) if v is not None},
        )
        for row in database.execute(f"{READ} where {test} order by id", values)
    ]
