"""Scores put off: all of a session is read to score it, which no step of a live one can wait for.

A session that ends is scored then. One whose program was killed never says that it ended, and is
scored by whoever looks next.
"""

import sqlite3
from collections.abc import Collection

from relight.errors import RelightError
from relight.store import Store

WAIT_SECONDS = 0.5


def put_off(database: sqlite3.Connection, session_id: int) -> None:
    """Leave a session's score for later."""
    database.execute("insert or ignore into score_due values (?)", (session_id,))


def strike_out(database: sqlite3.Connection, scored: Collection[int]) -> None:
    if database.execute("select 1 from score_due limit 1").fetchone():
        database.executemany(
            "delete from score_due where session_id = ?", [(one,) for one in scored]
        )


def settle(store: Store) -> None:
    """Score all that was put off; left to the next who looks where another is writing."""
    if not store.query("select 1 from score_due limit 1"):
        return
    from relight.store.derive import scores

    try:
        with store.waiting(WAIT_SECONDS), store.transaction() as database:
            rows = database.execute("select session_id from score_due").fetchall()
            scores.refresh(database, [found for (found,) in rows])
    except RelightError:
        return
