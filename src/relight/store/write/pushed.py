"""Parts of the tape that other machines pushed: written at once, derived later.

A part is identified by its machine, file, part, generation and position: one that arrives twice is
there once. A longer one at the same place replaces it and those that it covers, which a machine
joined into one.
"""

import time
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from relight.errors import RelightError, StoreError
from relight.model import row_id
from relight.store import Store, search_index
from relight.store.months import prepare_months
from relight.store.search_index import DeriveTexts
from relight.store.sql import Connection, divide, insert, list_marks, read
from relight.store.write.tape import OriginRow, TapePart, TapePartRow, load_zstd, read_part

MOST_RAW = 256 << 20  # of one part, before compression
# so many can derive at once
MOST_DERIVERS = 16
SAME_PLACE = "origin_id = ? and part = ? and generation = ?"
# file, part, generation and position
Place: TypeAlias = tuple[int, str, int, int]


class BadPartError(RelightError):
    """A part that no machine of ours would send."""


class PushedPartRow(TapePartRow, frozen=True):
    """A row of `tape_part` that another machine pushed."""

    machine_id: int
    is_figures: int

    @property
    def place(self) -> Place:
        return self.origin_id, self.part, self.generation, self.position


class KnownPart(Struct, frozen=True):
    """A part of the tape that is there already."""

    id: int
    origin_id: int
    part: str
    generation: int
    position: int
    raw_bytes: int

    @property
    def place(self) -> Place:
        return self.origin_id, self.part, self.generation, self.position


class DueRow(Struct, frozen=True):
    """A row of `derive_due`."""

    tape_part_id: int
    received_at: int


class DeriveBacklog(Struct, frozen=True):
    """The backlog of the index: parts that wait, since when, and those that cannot be read."""

    parts: int
    since: int | None
    failed: int


def write_parts(
    database: Connection,
    parts: Sequence[tuple[OriginRow, PushedPartRow]],
    derive: DeriveTexts | None,
) -> int:
    """Write the parts that are not there yet and note them as due; return how many.

    `derive` gives the texts of parts that are replaced, which are removed from the index. None if
    the transaction is for the tape only: then a part that replaces another one is an error.
    """
    origins = {origin.id: origin for origin, _ in parts}
    insert(database, "origin", list(origins.values()), on_conflict="on conflict do nothing")
    known = {
        found.place: found.raw_bytes for found in find_parts_at(database, [p for _, p in parts])
    }
    new: dict[Place, PushedPartRow] = {}
    for _, part in parts:
        place = part.place
        if place in known:
            if known[place] >= part.raw_bytes:
                continue
            if derive is None:
                raise StoreError("a part was replaced while it was pushed", "push again")
            _remove_covered(database, part, derive)
            new = {one: row for one, row in new.items() if not _covers(part, one)}
            known = {one: size for one, size in known.items() if not _covers(part, one)}
        known[place] = part.raw_bytes
        new[place] = part
    prepare_months(database, "tape_part", [row.recorded_at for row in new.values()])
    insert(database, "tape_part", list(new.values()))
    now = int(time.time() * 1000)
    due = [
        DueRow(found.id, now)
        for found in find_parts_at(database, list(new.values()))
        if found.place in new
    ]
    insert(database, "derive_due", due, on_conflict="on conflict do nothing")
    return len(new)


def _covers(part: PushedPartRow, place: Place) -> bool:
    """True if a part has the records of the one at this place."""
    *file, position = place
    end = part.position + part.raw_bytes
    return tuple(file) == part.place[:3] and part.position <= position < end


def _remove_covered(database: Connection, part: PushedPartRow, derive: DeriveTexts) -> None:
    covered = database.execute(
        f"select id from tape_part where {SAME_PLACE} and position >= ? and position < ?",
        (*part.place, part.position + part.raw_bytes),
    ).fetchall()
    remove_parts(database, [found for (found,) in covered], derive)


def find_parts_at(database: Connection, parts: Sequence[PushedPartRow]) -> list[KnownPart]:
    """Return the parts of the tape at these places, and others of the same files."""
    found: list[KnownPart] = []
    for some, marks in divide({part.origin_id for part in parts}):
        places = {part.position for part in parts if part.origin_id in set(some)}
        found += read(
            database,
            KnownPart,
            "select id, origin_id, part, generation, position, raw_bytes from tape_part"
            f" where origin_id in ({marks}) and position in ({list_marks(places)})",
            [*some, *places],
        )
    return found


def has_shorter(store: Store, parts: Sequence[PushedPartRow]) -> bool:
    """True if one of these parts would replace another one."""
    sizes = {part.place: part.raw_bytes for part in parts}
    with store.reading() as database:
        known = find_parts_at(database, parts)
    return any(found.raw_bytes < sizes.get(found.place, 0) for found in known)


def has_copy(database: Connection, part: PushedPartRow, origins: Sequence[int]) -> bool:
    """True if another machine pushed the very same part: its home has a copy of it."""
    return any(
        database.execute(
            f"select 1 from tape_part where {SAME_PLACE} and position = ? and recorded_at = ?",
            (origin, part.part, part.generation, part.position, part.recorded_at),
        ).fetchone()
        for origin in origins
    )


def remove_parts(database: Connection, ids: list[int], derive: DeriveTexts) -> None:
    """Delete parts of the tape, with their entries of the search index and counts of words."""
    search_index.remove_parts(database, ids, derive)
    for some, marks in divide(ids):
        database.execute(
            "delete from session_words where (origin_id, part, position) in"
            f" (select origin_id, part, position from tape_part where id in ({marks}))",
            some,
        )
        database.execute(f"delete from tape_part where id in ({marks})", some)


def decompress_most(records: bytes) -> bytes:
    """Return records that another machine compressed; raise if they are damaged or too long."""
    zstd = load_zstd()
    reader = zstd.ZstdDecompressor()
    try:
        raw: bytes = reader.decompress(records, max_length=MOST_RAW)
    except zstd.ZstdError as error:
        raise BadPartError("the records of a part are damaged") from error
    if not reader.eof or reader.unused_data:
        raise BadPartError(f"a part is cut off, or has more than {MOST_RAW:,} bytes of records")
    return raw


def find_origin(source: str, machine: str, path: str) -> OriginRow:
    """Return the row of a file on another machine."""
    place = f"{machine}:{path}"
    return OriginRow(row_id("origin", source, place), source, place)


def read_due(store: Store, limit: int) -> list[TapePart]:
    """Claim the next parts to derive, in the order that they arrived in, and return them.

    What other derivers have claimed is passed over. The caller gives up the claims when it is done.
    """
    waiting = "select tape_part_id from derive_due where reason is null"
    rows = store.query(f"{waiting} order by tape_part_id limit ?", (limit * MOST_DERIVERS,))
    ids = [found for (found,) in rows]
    for start in range(0, len(ids), limit):
        if claimed := store.claim(ids[start : start + limit]):
            # another deriver may have been done with them before they were claimed
            left = store.query(
                f"{waiting} and tape_part_id in ({list_marks(claimed)}) order by tape_part_id",
                claimed,
            )
            parts = (read_part(store, found) for (found,) in left)
            return [part for part in parts if part is not None]
    return []


def find_due(database: Connection, ids: list[int]) -> set[int]:
    """Return those of these parts that still are to be derived."""
    found: set[int] = set()
    for some, marks in divide(ids):
        statement = f"select tape_part_id from derive_due where tape_part_id in ({marks})"
        found |= {one for (one,) in database.execute(statement, some)}
    return found


def set_derived(database: Connection, ids: Sequence[int | None]) -> None:
    """Strike parts out of the queue."""
    database.executemany(
        "delete from derive_due where tape_part_id = ?", [(found,) for found in ids]
    )


def note_failure(store: Store, part_id: int, reason: str) -> None:
    """Note why a part cannot be derived; a rebuild tries it again."""
    with store.transaction() as database:
        database.execute(
            "update derive_due set reason = ? where tape_part_id = ?", (reason[:300], part_id)
        )


def read_backlog(store: Store) -> DeriveBacklog:
    """Return how far the index is behind what was pushed."""
    statement = (
        "select count(case when reason is null then 1 end) as parts,"
        " min(case when reason is null then received_at end) as since,"
        " count(reason) as failed from derive_due"
    )
    with store.reading() as database:
        return read(database, DeriveBacklog, statement)[0]
