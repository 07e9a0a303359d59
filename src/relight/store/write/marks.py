"""Read marks, which say how far each file has been read, and the tape of what was read there."""

import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from relight.model import Mark, Origin, row_id
from relight.store import Store
from relight.store.sql import insert, read, replacing

# an import that finds nothing new loads no more than this module
if TYPE_CHECKING:
    from relight.store.write.seal import Sealed


class MarkRow(Struct, frozen=True):
    """A row of `file_mark`."""

    origin_id: int
    part: str
    size: int
    modified_ns: int
    inode: int
    position: int
    generation: int
    head: bytes
    state: bytes


class TapePartRow(Struct, frozen=True):
    """A row of `tape_part`."""

    session_id: int
    origin_id: int
    part: str
    generation: int
    position: int
    modified_ns: int
    recorded_at: int
    state: bytes
    raw_bytes: int
    records: bytes


class OriginRow(Struct, frozen=True):
    """A row of `origin`."""

    id: int
    source: str
    path: str


class UnreadableRow(Struct, frozen=True):
    """A row of `unreadable`."""

    origin_id: int
    part: str
    position: int
    reason: str
    seen_at: int


class Reached(Struct, frozen=True):
    """How far a part of an origin has been read."""

    position: int
    generation: int
    head: bytes


def read_seen(store: Store, source: str) -> dict[str, Origin]:
    """Return the files of a source by path, as they were when last read."""
    rows = store.query(
        "select path, size, modified_ns, inode from origin join file_mark on origin_id = origin.id"
        " where source = ? and part = ''",
        (source,),
    )
    return {row[0]: Origin(*row) for row in rows}


def read_marks(store: Store, source: str, path: str) -> dict[str, Mark]:
    """Return the marks of one file by part: '' for the file, a session's id inside a database."""
    rows = store.query(
        "select part, size, modified_ns, inode, position, generation, head, state"
        " from file_mark where origin_id = ?",
        (row_id("origin", source, path),),
    )
    return {
        part: Mark(
            path=path,
            part=part,
            size=size,
            modified_ns=modified_ns,
            inode=inode,
            offset=position,
            generation=generation,
            head=head,
            state=state,
        )
        for part, size, modified_ns, inode, position, generation, head, state in rows
    }


def find_current(database: sqlite3.Connection, pieces: Sequence["Sealed"]) -> list["Sealed"]:
    """Return the pieces that continue at the store's marks, or at the end of the piece before."""
    reached: dict[tuple[int, str], Reached | None] = {}
    current = []
    for piece in pieces:
        place = (row_id("origin", piece.source, piece.before.path), piece.before.part)
        if place not in reached:
            reached[place] = _read_reached(database, place)
        if _continues(piece.before, reached[place]):
            current.append(piece)
            after = piece.after
            reached[place] = Reached(after.offset, after.generation, after.head)
    return current


def _read_reached(database: sqlite3.Connection, place: tuple[int, str]) -> Reached | None:
    rows = read(
        database,
        Reached,
        "select position, generation, head from file_mark where origin_id = ? and part = ?",
        place,
    )
    return rows[0] if rows else None


def _continues(before: Mark, reached: Reached | None) -> bool:
    if reached is None:
        return before.generation == 0 and before.offset == 0
    if before.generation == reached.generation + 1 and before.offset == 0:
        return True  # the file was rewritten since
    return Reached(before.offset, before.generation, before.head) == reached


def write_place(database: sqlite3.Connection, piece: "Sealed") -> None:
    """Write a piece's tape, the lines that could not be read, and the read mark."""
    origin_id = row_id("origin", piece.source, piece.after.path)
    after, before = piece.after, piece.before
    now = int(time.time() * 1000)
    origin = OriginRow(origin_id, piece.source, after.path)
    insert(database, "origin", [origin], on_conflict="on conflict do nothing")
    if piece.records and piece.owner_id is not None:
        part = TapePartRow(
            session_id=piece.owner_id,
            origin_id=origin_id,
            part=after.part,
            generation=after.generation,
            position=piece.start,
            modified_ns=after.modified_ns,
            recorded_at=now,
            state=before.state,
            raw_bytes=piece.raw_bytes,
            records=piece.records,
        )
        insert(database, "tape_part", [part], on_conflict="on conflict do nothing")
    # lines that could not be read here before can be read now
    database.execute(
        "delete from unreadable where origin_id = ? and part = ? and position = ?",
        (origin_id, after.part, piece.start),
    )
    bad_lines = [
        UnreadableRow(origin_id, after.part, bad.offset, bad.reason, now)
        for bad in piece.unreadable
    ]
    insert(database, "unreadable", bad_lines, on_conflict="on conflict do nothing")
    mark = MarkRow(
        origin_id=origin_id,
        part=after.part,
        size=after.size,
        modified_ns=after.modified_ns,
        inode=after.inode,
        position=after.offset,
        generation=after.generation,
        head=after.head,
        state=after.state,
    )
    insert(database, "file_mark", [mark], on_conflict=replacing(MarkRow, "origin_id", "part"))
