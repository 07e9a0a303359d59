"""Letting go: old tapes, old sessions, or one session for good."""

import sqlite3
from typing import Any

from msgspec import Struct

from relight.store import Store

DAY_MS = 86_400_000
OWN = (
    "turn",
    "tool_call",
    "control_total",
    "shared_turn",
    "session_day",
    "skill_entry",
    "call_latency",
    "session_words",
    "call_timing",
    "label",
)


class Pruned(Struct, frozen=True):
    """What a pruning took away, or would."""

    tapes: int
    tape_bytes: int
    sessions: int


def prune(
    store: Store,
    *,
    now: int,
    tape_days: int | None,
    index_days: int | None,
    dry_run: bool,
) -> Pruned:
    """Drop tapes of sessions older than one limit, and whole sessions older than another.

    A session whose tape went is frozen: its figures stay, and no rebuild touches them.
    """
    old_tapes = _find_old(store, now, tape_days) | (gone := _find_old(store, now, index_days))
    with store.transaction() as database:
        count, size = _count_tapes(database, old_tapes)
        pruned = Pruned(count, size, len(gone))
        if not dry_run:
            for session_id in old_tapes:
                database.execute("delete from tape_part where session_id = ?", (session_id,))
            database.executemany(
                "update session set is_frozen = 1 where id = ?", [(found,) for found in old_tapes]
            )
            for session_id in gone:
                _delete_index(database, session_id)
    if not dry_run and size:
        store.run("vacuum")
    return pruned


def forget(store: Store, session_id: int) -> int:
    """Take away one session with its sub-agents: tape, index and facts; gives how many.

    What forks copied from it passes to them. It is not read again, even if its file grows. What
    is deleted is overwritten, so that nothing of it is left in the file.
    """
    store.run("pragma secure_delete = on")
    with store.transaction() as database:
        rows = database.execute(
            "select id from session where root_id = ?1 or id = ?1", (session_id,)
        ).fetchall()
        for (found,) in rows:
            # a reader remembers calls that wait for their results
            database.execute(
                "update file_mark set state = x'' where (origin_id, part) in"
                " (select origin_id, part from tape_part where session_id = ?)",
                (found,),
            )
            database.execute("delete from tape_part where session_id = ?", (found,))
            database.execute("insert or ignore into forgotten values (?)", (found,))
            database.execute("delete from skill_invocations where root_id = ?", (found,))
            _delete_templates(database, found)
            _delete_index(database, found)
    store.run("pragma wal_checkpoint(truncate)")
    return len(rows)


def _delete_templates(database: sqlite3.Connection, session_id: int) -> None:
    """Delete what was made of a session's words, and how it was decided to begin."""
    source, key = database.execute(
        "select source, key from session where id = ?", (session_id,)
    ).fetchone()
    database.execute(
        "delete from provision where session_key = ? and (source is null or source = ?)",
        (key, source),
    )
    made = database.execute(
        "delete from template_version where source_session in (?, ?)", (f"{source}:{key}", key)
    )
    if made.rowcount:
        left = "(select template_id from template_version)"
        database.execute(f"delete from template where id not in {left}")
        database.execute(f"delete from template_word where template_id not in {left}")
        database.execute(
            "delete from template_rarity where word not in (select word from template_word)"
        )


def _find_old(store: Store, now: int, days: int | None) -> set[int]:
    if days is None:
        return set()
    rows = store.query(
        "select id from session where coalesce(ended_at, started_at) < ?", (now - days * DAY_MS,)
    )
    return {found for (found,) in rows}


def _count_tapes(database: sqlite3.Connection, sessions: set[int]) -> tuple[int, int]:
    count = size = 0
    for session_id in sessions:
        row: tuple[Any, ...] = database.execute(
            "select count(*), coalesce(sum(length(records)), 0) from tape_part"
            " where session_id = ?",
            (session_id,),
        ).fetchone()
        count, size = count + row[0], size + row[1]
    return count, size


def _delete_index(database: sqlite3.Connection, session_id: int) -> None:
    """Delete a session's rows; turns that another session shares pass to the first of them."""
    heirs = database.execute(
        "select turn_id, (select session.id from shared_turn join session"
        "   on session.id = shared_turn.session_id where shared_turn.turn_id = shared.turn_id"
        "   order by session.key limit 1)"
        " from shared_turn as shared join turn on turn.id = turn_id"
        " where turn.session_id = ? group by turn_id",
        (session_id,),
    ).fetchall()
    for turn_id, heir in heirs:
        database.execute("update turn set session_id = ? where id = ?", (heir, turn_id))
        database.execute("update tool_call set session_id = ? where turn_id = ?", (heir, turn_id))
        database.execute("update skill_entry set session_id = ? where turn_id = ?", (heir, turn_id))
        database.execute(
            "delete from shared_turn where turn_id = ? and session_id = ?", (turn_id, heir)
        )
    for table in OWN:
        database.execute(f"delete from {table} where session_id = ?", (session_id,))
    # what was told of its skills are facts, which its figures do not take along
    database.execute(
        "delete from skill_invocations where root_id = ? and is_told = 0", (session_id,)
    )
    database.execute("update skill_invocations set root_id = null where root_id = ?", (session_id,))
    database.execute("update run set session_id = null where session_id = ?", (session_id,))
    database.execute("delete from session where id = ?", (session_id,))
    if heirs:
        from relight.store import invocations, rollup

        rollup.refresh(database, {heir for _, heir in heirs})
        invocations.refresh(database, {heir for _, heir in heirs})
