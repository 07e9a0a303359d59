"""The tape: a session's redacted records, compressed."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from relight.model import Mark, Origin, row_id
from relight.redact import redact

if TYPE_CHECKING:
    from relight.store import Store

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 1  # a tenth larger than level 3, in three quarters of the time


class TapePart(Struct, frozen=True, kw_only=True):
    """A stretch of a session's tape, with everything needed to derive its rows again."""

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
    """One compressor for each thread: making one takes as long as compressing ten records."""

    def __init__(self) -> None:
        self.zstd = zstd.ZstdCompressor(level=LEVEL)


_compressor = _Compressor()


def compress(records: bytes) -> bytes:
    return _compressor.zstd.compress(records, mode=zstd.ZstdCompressor.FLUSH_FRAME)


def decompress(records: bytes) -> bytes:
    return zstd.decompress(records)


def split_lines(records: bytes) -> list[bytes]:
    """Return the lines, which end at a line feed only: JSON may hold the other separators."""
    lines = records.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def join_parts(database: sqlite3.Connection, source: str, mark: Mark) -> None:
    """Replace the many tape parts of a live session by one.

    Only for a source whose reader keeps no state between its records.
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
    first, *others = [part_id for part_id, _, _ in parts]
    database.executemany("delete from tape_part where id = ?", [(one,) for one in others])
    database.execute(
        "update tape_part set records = ?, raw_bytes = ? where id = ?",
        (compress(records), sum(size for _, _, size in parts), first),
    )


def count_bytes(store: "Store", session_id: int) -> int:
    """Return the size of a session's records before compression."""
    rows = store.query(
        "select coalesce(sum(raw_bytes), 0) from tape_part where session_id = ?", (session_id,)
    )
    return int(rows[0][0])


def count_parts(store: "Store") -> tuple[int, int]:
    """Return the number of all tape parts and their compressed size."""
    rows = store.query("select count(*), coalesce(sum(length(records)), 0) from tape_part")
    return int(rows[0][0]), int(rows[0][1])


def read_tape(store: "Store", session_id: int | None = None) -> Iterator[TapePart]:
    """Yield the parts of one session's tape, or of all, in the order they were recorded."""
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
            session, source, path, part, position, modified_ns, state, recorded_at, records = row[0]
            yield TapePart(
                session_id=session,
                source=source,
                origin=Origin(path, modified_ns=modified_ns),
                part=part,
                offset=position,
                state=state,
                recorded_at=recorded_at,
                records=records,
            )


def redact_tapes(store: "Store") -> None:
    """Apply today's redaction rules to tapes recorded under older ones."""
    for (part_id,) in store.query("select id from tape_part"):
        records = store.query("select records from tape_part where id = ?", (part_id,))[0][0]
        lines = decompress(records)
        redacted = redact(lines, key=store.redaction_key)
        if redacted != lines:
            with store.transaction() as database:
                database.execute(
                    "update tape_part set records = ? where id = ?", (compress(redacted), part_id)
                )
