"""The tape, a session's redacted and compressed records, and the read marks of files on it.

An import that finds nothing new loads this module and no other of the door.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import DamagedTapeError
from relight.model import Mark, Origin, row_id
from relight.store import Store, search_index
from relight.store.sql import Connection, insert, insert_part, read, replacing, same

if TYPE_CHECKING:
    from relight.store.write.sealed import Sealed

OF_SESSION = f"""
    where session_id = :session and is_figures = 0 and {same("machine_id", "(")}
        select machine_id from tape_part where session_id = :session and is_figures = 0
        group by machine_id order by sum(raw_bytes) desc, machine_id nulls first limit 1
    )
"""
# a program that continues its session begins a part, whose name is made by chance
BY_PART = "over (partition by origin_id, part)"
AS_BEGUN = f"min(recorded_at) {BY_PART}, min(id) {BY_PART}"
HAS_NOTES = """
    select 1 from unreadable where origin_id = ? and part = ?
    union all select 1 from set_aside where origin_id = ? and part = ?
"""
# Level 1 with a larger table of matches of at least 6 bytes, and a window of 1 MB: 1 to 4 % smaller
# than level 1 in the same time. Level 3 is another 4 % smaller, in a fifth more time.
COMPRESSION = {"compression_level": 1, "window_log": 20, "hash_log": 16, "min_match": 6}


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
    """The end of what has been read of a part of an origin."""

    position: int
    generation: int
    head: bytes


def read_seen(store: Store, source: str) -> dict[str, Origin]:
    """Return the files of a source by path, as they were when last read.

    The path of a forgotten session's file is the text of its id.
    """
    rows = store.query(
        "select path, size, modified_ns, inode from origin join file_mark on origin_id = origin.id"
        " where source = ? and part = ''",
        (source,),
    )
    return {row[0]: Origin(*row) for row in rows}


def read_aside(store: Store) -> set[int]:
    """Return the ids of the files of which a piece is set aside."""
    return {found for (found,) in store.query("select origin_id from set_aside")}


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


def find_continuing(database: Connection, pieces: Sequence["Sealed"]) -> list["Sealed"]:
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


def _read_reached(database: Connection, place: tuple[int, str]) -> Reached | None:
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


def write_place(database: Connection, piece: "Sealed", *, is_forgotten: bool = False) -> int | None:
    """Write a piece's tape, unreadable lines and read mark; return the tape's new part, if any."""
    origin_id = row_id("origin", piece.source, piece.after.path)
    after, before = piece.after, piece.before
    now = int(time.time() * 1000)
    if not before.offset:  # what continues has its row already
        # a database is shared with other sessions, each of which is a part
        is_named = after.part or not is_forgotten
        row = OriginRow(origin_id, piece.source, after.path if is_named else str(origin_id))
        insert(database, "origin", [row], on_conflict="on conflict do nothing")
    tape_part_id = None
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
        tape_part_id = insert_part(database, part)
    where = (origin_id, after.part)
    place = (*where, piece.start)
    if database.execute(HAS_NOTES, (*where, *where)).fetchone():
        _delete_notes(database, place, before.generation)
    bad_lines = [UnreadableRow(*where, bad.offset, bad.reason, now) for bad in piece.unreadable]
    insert(database, "unreadable", bad_lines, on_conflict="on conflict do nothing")
    if piece.set_aside:
        from relight.store.write.set_aside import write_set_aside

        write_set_aside(database, place, before.generation, piece.set_aside)
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
    return tape_part_id


def _delete_notes(database: Connection, place: tuple[int, str, int], generation: int) -> None:
    """Delete the notes about a place: what could not be read there before can be read now."""
    here = "origin_id = ? and part = ?"
    for table in ("unreadable", "set_aside"):
        database.execute(f"delete from {table} where {here} and position = ?", place)
    rewritten = f"delete from set_aside where {here} and generation <> ?"
    database.execute(rewritten, (*place[:2], generation))


class TapePart(Struct, frozen=True, kw_only=True):
    """A stretch of a session's tape, with everything needed to derive its rows again."""

    id: int
    session_id: int
    source: str
    origin: Origin
    part: str
    offset: int
    state: bytes
    recorded_at: int
    records: bytes
    # the machine that pushed it: its row and its key, which the path begins with
    machine_id: int | None = None
    machine: str | None = None
    # True if the records are rows without words
    is_figures: bool = False

    @property
    def read_origin(self) -> Origin:
        """The file by its name on the machine that it is from."""
        if self.machine is None:
            return self.origin
        return replace(self.origin, path=self.origin.path.removeprefix(f"{self.machine}:"))

    def lines(self) -> list[bytes]:
        """The records; raise if they are not those that were written."""
        try:
            return split_lines(decompress(self.records))
        except DamagedTapeError as error:
            place = f"{self.origin.path} from byte {self.offset}"
            raise DamagedTapeError(f"the tape of {place} is damaged", error.hint) from error


# one compressor for each thread: making one takes as long as compressing ten records
_of_thread = threading.local()


def compress(records: bytes) -> bytes:
    """Return compressed records with a checksum of four bytes."""
    if not hasattr(_of_thread, "compressor"):
        zstd = load_zstd()
        numbers = {**COMPRESSION, "checksum_flag": 1}
        options = {zstd.CompressionParameter[name]: one for name, one in numbers.items()}
        _of_thread.compressor = zstd.ZstdCompressor(options=options)
    compressor = _of_thread.compressor
    compressed: bytes = compressor.compress(records, mode=compressor.FLUSH_FRAME)
    return compressed


def decompress(records: bytes) -> bytes:
    """Return the records; raise if their checksum is wrong."""
    zstd = load_zstd()
    try:
        raw: bytes = zstd.decompress(records)
    except zstd.ZstdError as error:
        hint = (
            "restore a copy made by `relight backup`; figures and other sessions are not affected"
        )
        raise DamagedTapeError("records on a tape are damaged", hint) from error
    return raw


@cache
def load_zstd() -> ModuleType:
    """The module that compresses, loaded when there are records: most imports find none."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    return zstd


def split_lines(records: bytes) -> list[bytes]:
    """Return the lines, which end at a line feed only: JSON may hold the other separators."""
    lines = records.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def join_parts(database: Connection, source: str, mark: Mark) -> None:
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
    try:
        records = b"".join(decompress(part) for _, part, _ in parts)
    except DamagedTapeError:  # the others stay readable by themselves
        return
    first, *others = [part_id for part_id, _, _ in parts]
    database.executemany("delete from tape_part where id = ?", [(one,) for one in others])
    search_index.join_parts(database, first, others)
    database.execute(
        "update tape_part set records = ?, raw_bytes = ? where id = ?",
        (compress(records), sum(size for _, _, size in parts), first),
    )


def count_bytes(store: Store, session_id: int) -> int:
    """Return the size of a session's records before compression."""
    statement = "select coalesce(sum(raw_bytes), 0) from tape_part where session_id = ?"
    return int(store.query(statement, (session_id,))[0][0])


def count_parts(store: Store) -> tuple[int, int]:
    """Return the number of all tape parts and their compressed size."""
    rows = store.query("select count(*), coalesce(sum(length(records)), 0) from tape_part")
    return int(rows[0][0]), int(rows[0][1])


def read_tape(
    store: Store, session_id: int | None = None, *, sample: int | None = None
) -> Iterator[TapePart]:
    """Yield the parts of one session's tape in the order they were recorded, or those of all.

    Of a session that several machines pushed, only the longest copy is its tape. With `sample`, at
    most this many parts are chosen by chance.
    """
    where, begun = ("", "") if session_id is None else (OF_SESSION, f"{AS_BEGUN},")
    ids = store.query(
        f"select id from tape_part {where} order by origin_id, {begun} part, generation, position",
        {"session": session_id},
    )
    if sample is not None and sample < len(ids):
        import random

        ids = random.sample(ids, sample)
    for (part_id,) in ids:
        if part := read_part(store, part_id):
            yield part


def read_part(store: Store, part_id: int) -> TapePart | None:
    """Return a part of the tape; None if it is gone."""
    rows = store.query(
        "select tape_part.session_id, source, path, part, position, modified_ns, state,"
        " recorded_at, records, machine_id, machine.key, is_figures"
        " from tape_part join origin on origin.id = origin_id"
        " left join machine on machine.id = machine_id where tape_part.id = ?",
        (part_id,),
    )
    if not rows:
        return None
    session, source, path, part, position, modified_ns, state, recorded_at, records, *by = rows[0]
    if store.tapes_read is not None:
        store.tapes_read.add(session)
    return TapePart(
        id=part_id,
        session_id=session,
        source=source,
        origin=Origin(path, modified_ns=modified_ns),
        part=part,
        offset=position,
        state=state,
        recorded_at=recorded_at,
        records=records,
        machine_id=by[0],
        machine=by[1],
        is_figures=bool(by[2]),
    )
