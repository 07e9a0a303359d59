"""The second half of the door: price sealed rows and write them, with the mark, at once.

Whoever brings a record, in whatever order and however often, the same rows come out.
"""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from relight.ids import row_id
from relight.store import Store
from relight.store.derive import invocations, outcomes, reconcile, rollup, scores, timings
from relight.store.derive.pricing import Pricing
from relight.store.derive.scheduled import write_scheduled
from relight.store.write import rows
from relight.store.write.append import append
from relight.store.write.places import find_current, write_place
from relight.store.write.seal import Sealed


class Recorder:
    """Writes sealed rows into a store; one for the length of an import, so prices are kept."""

    def __init__(self, store: Store, pricing: Pricing | None = None) -> None:
        self.store = store
        self.pricing = pricing or Pricing(store)

    def record(self, pieces: Sequence[Sealed]) -> tuple[list[Sealed], set[int]]:
        """Write pieces in one transaction; gives those taken, and the sessions that are new.

        A piece whose mark has moved on since it was read was recorded by someone else: it is
        left out.
        """
        with self.store.transaction() as database:
            taken = find_current(database, pieces)
            forgotten = [_is_forgotten(database, piece) for piece in taken]
            wanted = [one for one, is_gone in zip(taken, forgotten, strict=True) if not is_gone]
            is_appended = len(wanted) == 1 and append(database, wanted[0], self.pricing)
            new = set() if is_appended else self.write(database, wanted)
            for piece, is_gone in zip(taken, forgotten, strict=True):
                write_place(database, forget_words(piece) if is_gone else piece)
        return taken, new

    def write(self, database: sqlite3.Connection, pieces: Sequence[Sealed]) -> set[int]:
        """Write the rows of these pieces and all that follows from them."""
        touched = {found for piece in pieces for found, _ in piece.sessions}
        new = touched - rows.find_known(database, touched)
        for piece in pieces:
            touched |= rows.write_sessions(database, piece)
        turns = [
            rows.turn_row(piece.source, found, day, turn, cost=self.pricing.price(found, turn))
            for piece in pieces
            for found, day, turn in piece.turns
        ]
        shared = rows.find_shared(database, turns)
        database.executemany(rows.WRITE_TURN, turns)
        for piece in pieces:
            database.executemany(rows.WRITE_CALL, piece.calls)
            database.executemany(rows.WRITE_TOTAL, rows.total_rows(piece))
            database.executemany(rows.WRITE_SKILL, piece.skills)
            database.executemany(rows.WRITE_WORDS, rows.word_rows(piece))
            write_scheduled(database, piece)
            timings.write(database, piece)
        rows.write_shared(database, shared)
        touched |= {session for sessions in shared.values() for session in sessions}
        touched |= {
            row_id("session", one.source, told.session) for one in pieces for told in one.latencies
        }
        touched |= reconcile.reconcile(database, touched, self.pricing)
        timings.refresh(database, touched)
        rollup.refresh(database, touched)
        scores.refresh(database, touched)
        invocations.refresh(database, outcomes.refresh(database, touched))
        self.pricing.keep_found(database)
        return new


def _is_forgotten(database: sqlite3.Connection, piece: Sealed) -> bool:
    """Whether a piece is of a session that was let go for good, or of a sub-agent of one.

    Asked each time: it may be forgotten while it goes on.
    """
    parents = {one.parent for _, one in piece.sessions if one.parent is not None}
    ids = [piece.owner_id, *(row_id("session", piece.source, parent) for parent in parents)]
    marks = ", ".join("?" * len(ids))
    statement = f"select 1 from forgotten where session_id in ({marks})"
    return database.execute(statement, ids).fetchone() is not None


def forget_words(piece: Sealed) -> Sealed:
    """Only how far was read: neither a forgotten session's tape nor what its reader remembers."""
    return replace(piece, records=b"", after=replace(piece.after, state=b""))
