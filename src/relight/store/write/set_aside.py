"""Pieces that no worker process could seal: what is known of them, and when to try again."""

import time

from msgspec import Struct

from relight import __version__
from relight.model import Origin, row_id
from relight.store import Store
from relight.store.sql import Connection, column_list, insert, replacing

# the first try, and one more at the next import: the machine may have been short of memory
TRIES = 2


class SetAside(Struct, frozen=True):
    """The reason why a piece is set aside, and the file as it was at the last try."""

    reason: str
    tries: int
    holds_file: bool
    size: int
    inode: int


class SetAsideRow(Struct, frozen=True):
    """A row of `set_aside`."""

    origin_id: int
    part: str
    position: int
    generation: int
    reason: str
    tries: int
    version: str
    holds_file: int
    size: int
    inode: int
    seen_at: int

    @property
    def can_retry(self) -> bool:
        """True if it was not tried often enough, or not by this version of Relight."""
        return self.tries < TRIES or self.version != __version__

    def is_rewritten(self, origin: Origin) -> bool:
        """True if the piece may have gone; a database shrinks whenever its log is emptied."""
        is_other = origin.size < self.size or origin.inode != self.inode
        return bool(self.holds_file) and is_other

    def is_due(self, origin: Origin) -> bool:
        """True if the next import tries the piece."""
        return self.can_retry or self.is_rewritten(origin)


def read_set_aside(store: Store, source: str, path: str) -> list[SetAsideRow]:
    """Return what is set aside of a file."""
    statement = f"select {column_list(SetAsideRow)} from set_aside where origin_id = ?"
    return store.read(SetAsideRow, statement, (row_id("origin", source, path),))


def write_set_aside(
    database: Connection, place: tuple[int, str, int], generation: int, piece: SetAside
) -> None:
    """Set a piece aside, at this origin, part and position."""
    origin_id, part, position = place
    row = SetAsideRow(
        origin_id=origin_id,
        part=part,
        position=position,
        generation=generation,
        reason=piece.reason,
        tries=piece.tries,
        version=__version__,
        holds_file=int(piece.holds_file),
        size=piece.size,
        inode=piece.inode,
        seen_at=int(time.time() * 1000),
    )
    keys = ("origin_id", "part", "position")
    insert(database, "set_aside", [row], on_conflict=replacing(SetAsideRow, *keys))
