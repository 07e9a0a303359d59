"""The tape: a session's redacted records, compressed."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from relight.model import Origin

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
    state: bytes
    recorded_at: int
    records: bytes

    def lines(self) -> list[bytes]:
        return split_lines(decompress(self.records))


def compress(records: bytes) -> bytes:
    return zstd.compress(records, level=LEVEL)


def decompress(records: bytes) -> bytes:
    return zstd.decompress(records)


def split_lines(records: bytes) -> list[bytes]:
    """Lines end at a line feed and nowhere else: JSON may hold the other separators."""
    lines = records.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def read_tape(store: "Store", session_id: int | None = None) -> Iterator[TapePart]:
    """The parts of one session's tape, or of all, in the order they were recorded."""
    where = "" if session_id is None else "where tape_part.session_id = ?"
    ids = store.query(
        f"select id from tape_part {where} order by origin_id, part, generation, offset",
        () if session_id is None else (session_id,),
    )
    statement = (
        "select tape_part.session_id, source, path, part, modified_ns, state, recorded_at, records"
        " from tape_part join origin on origin.id = origin_id where tape_part.id = ?"
    )
    for (part_id,) in ids:
        row = store.query(statement, (part_id,))
        if row:
            session, source, path, part, modified_ns, state, recorded_at, records = row[0]
            yield TapePart(
                session_id=session,
                source=source,
                origin=Origin(path, modified_ns=modified_ns),
                part=part,
                state=state,
                recorded_at=recorded_at,
                records=records,
            )
