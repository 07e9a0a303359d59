"""How far each file has been read, and the tape of what was read there."""

import sqlite3
import time
from collections.abc import Sequence

from relight.ids import row_id
from relight.model import Mark
from relight.store.write.seal import Sealed


def find_current(database: sqlite3.Connection, pieces: Sequence[Sealed]) -> list[Sealed]:
    """The pieces that go on where the store's marks stand, or where the piece before them ends."""
    reached: dict[tuple[int, str], Mark | None] = {}
    current = []
    for piece in pieces:
        place = (row_id("origin", piece.source, piece.before.path), piece.before.part)
        if place not in reached:
            row = database.execute(
                "select position, generation, head from file_mark where origin_id = ? and part = ?",
                place,
            ).fetchone()
            reached[place] = row and Mark(path="", offset=row[0], generation=row[1], head=row[2])
        if _goes_on(piece.before, reached[place]):
            current.append(piece)
            reached[place] = piece.after
    return current


def _goes_on(before: Mark, reached: Mark | None) -> bool:
    if reached is None:
        return before.generation == 0 and before.offset == 0
    if before.generation == reached.generation + 1 and before.offset == 0:
        return True  # the file was written anew since
    return (before.offset, before.generation, before.head) == (
        reached.offset,
        reached.generation,
        reached.head,
    )


def write_place(database: sqlite3.Connection, piece: Sealed) -> None:
    """The tape, the lines that could not be read, and how far we have read."""
    origin_id = row_id("origin", piece.source, piece.after.path)
    after, before = piece.after, piece.before
    now = int(time.time() * 1000)
    database.execute(
        "insert or ignore into origin values (?, ?, ?)", (origin_id, piece.source, after.path)
    )
    if piece.records and piece.owner_id is not None:
        database.execute(
            "insert or ignore into tape_part (session_id, origin_id, part, generation, position,"
            " modified_ns, recorded_at, state, raw_bytes, records)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                piece.owner_id,
                origin_id,
                after.part,
                after.generation,
                piece.start,
                after.modified_ns,
                now,
                before.state,
                piece.raw_bytes,
                piece.records,
            ),
        )
    # what could not be read at this place before has been now
    database.execute(
        "delete from unreadable where origin_id = ? and part = ? and position = ?",
        (origin_id, after.part, piece.start),
    )
    database.executemany(
        "insert or ignore into unreadable values (?, ?, ?, ?, ?)",
        [(origin_id, after.part, bad.offset, bad.reason, now) for bad in piece.unreadable],
    )
    database.execute(
        "insert or replace into file_mark values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            origin_id,
            after.part,
            after.size,
            after.modified_ns,
            after.inode,
            after.offset,
            after.generation,
            after.head,
            after.state,
        ),
    )
