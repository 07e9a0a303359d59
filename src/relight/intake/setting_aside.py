"""Pieces that end the worker process that seals them: set aside, so that they stop no other."""

from collections.abc import Iterator

from msgspec.structs import replace

from relight.intake.importing import Work
from relight.intake.workers import Lost, explain_end
from relight.model import Mark, Origin, Piece
from relight.sources import find_source
from relight.store import Store
from relight.store.write.sealed import Sealed
from relight.store.write.set_aside import SetAside, SetAsideRow, read_set_aside
from relight.store.write.tape import read_marks

# so many pieces in one import may end their workers otherwise than by CPU time: if more do, it is
# the machine, which lacks memory, and not the pieces
MOST_KILLED = 3


def is_wanted(store: Store, source: str, origin: Origin, *, is_changed: bool) -> bool:
    """True if a file of which something is set aside is to be read now."""
    rows = read_set_aside(store, source, origin.path)
    held = [row for row in rows if row.holds_file]
    if held:
        return any(row.is_due(origin) for row in held)
    return is_changed or any(row.can_retry for row in rows)


def can_fetch_again(piece: Piece) -> bool:
    """True if its source yields this piece again after the file's mark has passed it.

    That is so for a line with its own place, and for a session with its own fingerprint.
    """
    return piece.start is not None or piece.before.head != piece.after.head


class Retries:
    """The pieces of one import that are tried again, and those that are set aside."""

    def __init__(self, store: Store, message_seconds: float) -> None:
        self._store = store
        self._message_seconds = message_seconds
        self._killed_once: set[str] = set()
        self._killed = 0

    def is_first(self, lost: Lost, path: str) -> bool:
        """True if a file's worker was killed for the first time: that may be an accident."""
        if lost.is_over_time or path in self._killed_once:
            return False
        self._killed_once.add(path)
        return True

    def find_row(self, work: Work) -> SetAsideRow | None:
        """Return the row of the piece that a file is held at."""
        rows = read_set_aside(self._store, work.source, work.origin.path)
        return next((row for row in rows if row.holds_file), None)

    def set_file_aside(self, work: Work, lost: Lost) -> Sealed:
        """Return the piece at a file's mark, set aside; the file is read no further."""
        before = work.mark or Mark(path=work.origin.path)
        aside = self._describe(work, lost, self.find_row(work), holds_file=True)
        return Sealed(
            source=work.source,
            before=before,
            after=replace(before, size=-1),
            start=before.offset,
            set_aside=aside,
        )

    def set_piece_aside(self, work: Work, piece: Piece, lost: Lost) -> Sealed:
        """Return a fetched piece, set aside; its file is read on if the piece is found again."""
        if not can_fetch_again(piece):
            return self.set_file_aside(work, lost)
        rows = read_set_aside(self._store, work.source, work.origin.path)
        place = (piece.before.part, _find_start(piece))
        row = next((row for row in rows if (row.part, row.position) == place), None)
        return Sealed(
            source=work.source,
            before=piece.before,
            after=piece.before,
            start=place[1],
            set_aside=self._describe(work, lost, row, holds_file=False),
        )

    def fetch(self, work: Work) -> Iterator[Piece]:
        """Yield the new pieces of a file and those to be tried again."""
        fetch = find_source(work.source).fetch
        assert fetch is not None
        marks = read_marks(self._store, work.source, work.origin.path)
        rows = read_set_aside(self._store, work.source, work.origin.path)
        alone = [row for row in rows if not row.holds_file]
        mark = marks.get("")
        passed = {
            row.position
            for row in alone
            if mark and not row.part and row.can_retry and row.position < mark.offset
        }
        if mark and passed:
            for piece in fetch(work.origin, {}):
                if piece.start in passed:
                    yield replace(piece, before=mark, after=mark)
        waiting = {(row.part, row.position) for row in alone if not row.can_retry}
        for piece in fetch(work.origin, marks):
            if (piece.before.part, _find_start(piece)) not in waiting or not piece.raw:
                yield piece

    def _describe(
        self, work: Work, lost: Lost, row: SetAsideRow | None, *, holds_file: bool
    ) -> SetAside:
        self._killed += not lost.is_over_time
        if self._killed > MOST_KILLED:
            raise explain_end(-lost.signal)
        is_known = row is not None and not row.is_rewritten(work.origin)
        return SetAside(
            reason=lost.describe(self._message_seconds),
            tries=row.tries + 1 if row is not None and is_known else 1,
            holds_file=holds_file,
            size=work.origin.size,
            inode=work.origin.inode,
        )


def _find_start(piece: Piece) -> int:
    return piece.before.offset if piece.start is None else piece.start
