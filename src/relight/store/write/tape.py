"""The tape: a session's redacted records, compressed."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from relight.ids import row_id
from relight.model import Mark, Origin

if TYPE_CHECKING:
    from relight.store import Store

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 1  # a tenth larger than level 3, in three quarters of the time


class TapePart(Struct, frozen=True, kw_only=True):
    """A stretch of a session's tape, with what is needed to derive its rows again."""

    session_id: int
    source: str
    origin: Origin
    part: str
    offset: int
    state: bytes
    recorded_at: int
    records: bytes

    def lines(self) -> list[bytes]:
        return split_lines(decompress(self.records))


class _Compressor(threading.local):
    """Each thread's own: to make one takes ten times as long as a live session's next record."""

    def __init__(self) -> None:
        self.zstd = zstd.ZstdCompressor(level=LEVEL)


_compressor = _Compressor()


def compress(records: bytes) -> bytes:
    return _compressor.zstd.compress(records, mode=zstd.ZstdCompressor.FLUSH_FRAME)


def decompress(records: bytes) -> bytes:
    return zstd.decompress(records)


def split_lines(records: bytes) -> list[bytes]:
    """Lines end at a line feed and nowhere else: JSON may hold the other separators."""
    lines = records.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def join_parts(database: sqlite3.Connection, source: str, mark: Mark) -> None:
    """One part of tape in place of the many that a live session was told in.

    Only for a source whose reader remembers nothing between its records.
    """
    place = (row_id("origin", source, mark.path), mark.part)
    parts = database.execute(
        "select id, records, raw_bytes from tape_part where origin_id = ? and part = ?"
        " order by position",
        place,
    ).fetchall()
    if len(parts) < 2:
        return
    records = b"".join(decompress(part) for _, part, _ in parts)
    database.executemany("delete from tape_part where id = ?", [(one[0],) for one in parts[1:]])
    database.execute(
        "update tape_part set records = ?, raw_bytes = ? where id = ?",
        (compress(records), sum(size for _, _, size in parts), parts[0][0]),
    )


def count_bytes(store: "Store", session_id: int) -> int:
    """How much a session's records were before they were compressed."""
    rows = store.query(
        "select coalesce(sum(raw_bytes), 0) from tape_part where session_id = ?", (session_id,)
    )
    return int(rows[0][0])


def read_tape(store: "Store", session_id: int | None = None) -> Iterator[TapePart]:
    """The parts of one session's tape, or of all, in the order they were recorded."""
    where = "" if session_id is None else "where tape_part.session_id = ?"
    ids = store.query(
        f"select id from tape_part {where} order by origin_id, part, generation, position",
        () if session_id is None else (session_id,),
    )
    statement = (
        "select tape_part.session_id, source, path, part, position, modified_ns, state,"
        " recorded_at, records"
        " from tape_part join origin on origin.id = origin_id where tape_part.id = ?"
    )
    for (part_id,) in ids:
        row = store.query(statement, (part_id,))
        if row:
            session, source, path, part, offset, modified_ns, state, recorded_at, records = row[0]
            yield TapePart(
                session_id=session,
                source=source,
                origin=Origin(path, modified_ns=modified_ns),
                part=part,
                offset=offset,
                state=state,
                recorded_at=recorded_at,
                records=records,
            )
