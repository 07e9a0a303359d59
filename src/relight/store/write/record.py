"""The second half of the door: price sealed rows and write them with their read mark, at once.

The same rows come out in whatever order and however often records arrive.
"""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from relight.ids import row_id
from relight.store import Store
from relight.store.derive import outcomes, reconcile, rollup, scores
from relight.store.derive.pricing import Pricing
from relight.store.derive.skills import uses
from relight.store.write import rows
from relight.store.write.append import append
from relight.store.write.marks import find_current, write_place
from relight.store.write.seal import Sealed
from relight.store.write.side_records import refresh_durations, write_side_records


class Recorder:
    """Writes sealed rows into a store; one for a whole import, so that prices stay in memory."""

    def __init__(self, store: Store, pricing: Pricing | None = None) -> None:
        self.store = store
        self.pricing = pricing or Pricing(store)

    def record(self, pieces: Sequence[Sealed]) -> tuple[list[Sealed], set[int]]:
        """Write pieces in one transaction; return those written, and the sessions that are new.

        A piece whose mark has moved on since it was read was recorded by another process, and is
        left out.
        """
        with self.store.transaction() as database:
            current = find_current(database, pieces)
            forgotten = [_is_forgotten(database, piece) for piece in current]
            wanted = [one for one, is_gone in zip(current, forgotten, strict=True) if not is_gone]
            is_appended = len(wanted) == 1 and append(database, wanted[0], self.pricing)
            new = set() if is_appended else self.write(database, wanted)
            for piece, is_gone in zip(current, forgotten, strict=True):
                write_place(database, _remove_words(piece) if is_gone else piece)
        return current, new

    def write(self, database: sqlite3.Connection, pieces: Sequence[Sealed]) -> set[int]:
        """Write the rows of these pieces and everything derived from them."""
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
        rows.write_turns(database, turns)
        for piece in pieces:
            rows.write_piece(database, piece)
            write_side_records(database, piece)
        rows.write_shared(database, shared)
        touched |= {session for sessions in shared.values() for session in sessions}
        touched |= {
            row_id("session", piece.source, one.session)
            for piece in pieces
            for one in piece.latencies
        }
        touched |= reconcile.reconcile(database, touched, self.pricing)
        refresh_durations(database, touched)
        rollup.refresh(database, touched)
        scores.refresh(database, touched)
        uses.refresh(database, outcomes.refresh(database, touched))
        self.pricing.write_found(database)
        return new


def _is_forgotten(database: sqlite3.Connection, piece: Sealed) -> bool:
    """True if a piece is from a forgotten session or a sub-agent of one.

    Checked for each piece: a session may be forgotten while it goes on.
    """
    parents = {one.parent for _, one in piece.sessions if one.parent is not None}
    ids = [piece.owner_id, *(row_id("session", piece.source, parent) for parent in parents)]
    marks = ", ".join("?" * len(ids))
    statement = f"select 1 from forgotten where session_id in ({marks})"
    return database.execute(statement, ids).fetchone() is not None


def _remove_words(piece: Sealed) -> Sealed:
    """Keep only the read mark of a forgotten session's piece: no tape and no reader's state."""
    return replace(piece, records=b"", after=replace(piece.after, state=b""))
