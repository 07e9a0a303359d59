"""Seal files in worker processes, and record them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from relight.config import Settings
from relight.errors import RelightError
from relight.intake.importing import Imported, Work
from relight.intake.workers import Lost, Workers
from relight.judging.admissions import admit
from relight.judging.failures import read_kinds
from relight.judging.verdicts.rules import read_rules
from relight.model import Mark, Piece, Unreadable
from relight.prices import read_lists
from relight.redact import redact
from relight.sources import find_source
from relight.sources.files import CHUNK_BYTES, read_piece
from relight.store import Store
from relight.store.derive.pricing import find_price_settings
from relight.store.write.seal import prepare_piece, seal
from relight.store.write.sealed import Sealed
from relight.store.write.tape import load_zstd
from relight.times import day_reader

if TYPE_CHECKING:
    from relight.intake.setting_aside import Retries

# how much is written in one transaction: the more, the fewer pages are written twice, but all of it
# waits in memory. As the end nears it is a share of what remains, so that little is left to write
# when the workers are done.
COMMIT_BYTES = (2 << 20, 40 << 20)
COMMIT_SHARE = 3
# how far into a file its session is looked for: what names none by then is no session
HOLD_BYTES = 4 * CHUNK_BYTES

Progress = Callable[[int, int], None]


class SealTask(Struct, frozen=True):
    """Files or pieces for a worker process to seal, with the store's redaction key and time zone.

    Pieces are those of a source that fetches them, all from one file. Turns are priced by these
    settings, if any.
    """

    work: list[Work]
    key: bytes
    timezone: str
    pieces: list[Piece] = []
    settings: Settings | None = None


class SealedFiles(Struct, frozen=True):
    """The sealed pieces of a task, and the work that is left on its files.

    `trouble` is why pieces that were fetched could not be sealed from one of them on.
    """

    sealed: list[Sealed]
    left: list[Work] = []
    trouble: str | None = None


def seal_task(task: SealTask) -> SealedFiles:
    """Read and seal the next stretch of each of these files, or seal these pieces."""
    sealed: list[Sealed] = []
    left = []
    for work in task.work:
        try:
            if work.origin.trouble:
                raise OSError(work.origin.trouble)
            found, has_more = _seal_next(work, task)
            sealed.append(found)
        except Exception as error:  # noqa: BLE001 - one file must not stop the others
            sealed.append(seal_unreadable(work, describe_error(error)))
            continue
        if has_more:
            left.append(Work(work.source, work.origin, sealed[-1].after))
    try:
        for piece in task.pieces:
            read = find_source(piece.source).read
            going_on = go_on(piece, sealed[-1] if sealed else None)
            found = seal(going_on, read, key=task.key, timezone=task.timezone)
            sealed.append(prepare_piece(found, task.settings))
    except Exception as error:  # noqa: BLE001 - one file must not stop the others
        return SealedFiles(sealed, trouble=describe_error(error))
    return SealedFiles(sealed, left)


def go_on(piece: Piece, last: Sealed | None) -> Piece:
    """Return a fetched piece with the reader's state after the last one, if it begins there."""
    if last is None or last.after.offset == last.before.offset:
        return piece
    if msgspec.structs.replace(last.after, state=piece.before.state) != piece.before:
        return piece
    return msgspec.structs.replace(piece, before=last.after)


def _seal_next(work: Work, task: SealTask) -> tuple[Sealed, bool]:
    """Read and seal the next stretch of a file; return it and whether more may follow.

    Agents write some lines before the first that names the session. Until that one is there, the
    mark stays before them: a later import reads them again, and they are on the session's tape.
    """
    sealed, has_more = _seal_stretch(work, task, CHUNK_BYTES)
    origin, before = work.origin, sealed.before
    if sealed.owner_id is not None or before.offset > 0 or not sealed.raw_bytes:
        return sealed, has_more
    if origin.size >= CHUNK_BYTES:
        sealed, has_more = _seal_stretch(work, task, HOLD_BYTES)
        if sealed.owner_id is not None or origin.size >= HOLD_BYTES:
            return sealed, has_more
    held = msgspec.structs.replace(
        before, size=origin.size, modified_ns=origin.modified_ns, inode=origin.inode
    )
    return msgspec.structs.replace(sealed, after=held, records=b""), False


def _seal_stretch(work: Work, task: SealTask, chunk_bytes: int) -> tuple[Sealed, bool]:
    piece, has_more = read_piece(work.source, work.origin, work.mark, chunk_bytes=chunk_bytes)
    read = find_source(work.source).read
    sealed = seal(piece, read, key=task.key, timezone=task.timezone)
    return prepare_piece(sealed, task.settings), has_more


def describe_error(error: Exception) -> str:
    """Return the reason why something could not be read, in one line."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, RelightError):
        return error.message
    return f"{type(error).__name__}: {error}"[:300]


def answer_task(message: bytes) -> bytes:
    """Seal the files of an encoded task in a worker process."""
    return msgspec.msgpack.encode(seal_task(msgspec.msgpack.decode(message, type=SealTask)))


def decode_answer(message: bytes) -> SealedFiles:
    """Return the sealed pieces that a worker process sent."""
    return msgspec.msgpack.decode(message, type=SealedFiles)


def seal_unreadable(work: Work, reason: str) -> Sealed:
    """Return the piece of a file that could not be read; the next import tries it again."""
    before = work.mark or Mark(path=work.origin.path)
    return Sealed(
        source=work.source,
        before=before,
        after=msgspec.structs.replace(before, size=-1),
        start=before.offset,
        unreadable=[Unreadable(before.offset, reason)],
    )


def load_rules(store: Store, compiling: Thread | None, *, is_shared: bool) -> None:
    """Load what workers need before they are forked; join the thread that compiles the scan.

    What this process needs as well costs nothing here, and each worker that much less. With
    `is_shared` there are several.
    """
    load_zstd()
    day_reader(store.timezone)
    if is_shared:
        load_tables()
    if compiling:
        compiling.join()  # a fork must not have another thread
    redact(b"\n", key=store.redaction_key)


def load_tables() -> None:
    """Load the rules and prices that nearly every worker needs."""
    load_zstd()
    read_rules()
    read_kinds()
    admit("")
    read_lists()


class Intake:
    """Reads what is new in files into a store, with one worker process or several."""

    def __init__(self, store: Store, pool: Workers, progress: Progress | None = None) -> None:
        # worker processes load this module too, and record nothing
        from relight.store.write.record import Recorder

        self.store = store
        self.counts: dict[str, Imported] = {}
        self.recorder = Recorder(store)
        self.settings = find_price_settings(store.config)
        self.pool = pool
        self.progress = progress or _ignore
        self.total = self.done = 0
        # the sessions that were read, by source, and those of them that are new
        self.found: dict[str, set[int]] = {}
        self.new: set[int] = set()
        self.touched: set[int] = set()
        # the last piece that was fetched
        self.last: Sealed | None = None

    @cached_property
    def retries(self) -> "Retries":
        from relight.intake.setting_aside import Retries

        return Retries(self.store, self.pool.message_seconds)

    def take(self, work: list[Work]) -> list[Imported]:
        """Read, seal and record these files; return the counts for each source."""
        self.total = sum(one.new_bytes for one in work)
        for one in work:
            self.counts.setdefault(one.source, Imported(one.source)).files += 1
        databases = [one for one in work if find_source(one.source).fetch]
        files = [one for one in work if not find_source(one.source).fetch]
        for one in databases:
            self._import_database(one)
        # the largest first: the pieces of a file follow one another, and should not come last
        files.sort(key=lambda one: one.new_bytes, reverse=True)
        self._import_files(files)
        self._count_sessions()
        return list(self.counts.values())

    def _count_sessions(self) -> None:
        """Count the sessions that were read as reports do: a sub-agent is part of its parent's."""
        from relight.store.write.rows import find_roots

        for source, found in self.found.items():
            with self.store.reading() as database:
                roots = find_roots(database, found)
            # if the parent's own file is gone, its sub-agents say whether it is new
            known = {root for one, root in roots.items() if one not in self.new}
            every = {*roots.values()}
            new = (every & self.new) | (every - found - known)
            self.counts[source].sessions_new = len(new)
            self.counts[source].sessions_grown = len(every - new)

    def _encode(self, work: Sequence[Work] = (), pieces: Sequence[Piece] = ()) -> bytes:
        key, timezone = self.store.redaction_key, self.store.timezone
        task = SealTask(list(work), key, timezone, list(pieces), self.settings)
        return msgspec.msgpack.encode(task)

    def _import_files(self, files: Sequence[Work]) -> None:
        """Seal in worker processes; this one prices and writes meanwhile."""
        least, most = COMMIT_BYTES
        pending: list[Sealed] = []
        # what was set aside is not read together with other files, which would be read twice
        apart: list[Work] = []
        if self.store.has_rows("set_aside"):
            apart = [one for one in files if self.retries.find_row(one)]
        together = [one for one in files if one not in apart] if apart else files
        groups = [[one] for one in apart] + list(group_work(together))
        for response in self.pool.responses(map(self._encode, groups)):
            if isinstance(response, Lost):
                pending += self._take_lost(response)
                continue
            answer = decode_answer(response)
            for group in group_work(answer.left):
                self.pool.submit(self._encode(group))
            pending += answer.sealed
            self._report(answer.sealed)
            enough = min(max((self.total - self.done) // COMMIT_SHARE, least), most)
            if sum(piece.raw_bytes for piece in pending) >= enough:
                self._record(pending)
                pending = []
        self.pool.finish()
        self._record(pending)

    def _take_lost(self, lost: Lost) -> list[Sealed]:
        """Try each file of a lost task by itself, or set the only one aside."""
        works = msgspec.msgpack.decode(lost.message, type=SealTask).work
        if len(works) == 1 and not self.retries.is_first(lost, works[0].origin.path):
            return [self.retries.set_file_aside(works[0], lost)]
        for work in works:
            self.pool.submit(self._encode([work]))
        return []

    def _import_database(self, work: Work) -> None:
        """Record the pieces that a source fetches, in their order: the last moves the mark."""
        pieces: list[Piece] = []
        size = 0
        try:
            for piece in self.retries.fetch(work):
                pieces.append(piece)
                size += len(piece.raw)
                if size > CHUNK_BYTES:
                    if not self._record_pieces(work, pieces):
                        return
                    pieces, size = [], 0
        except Exception as error:  # noqa: BLE001 - one file must not stop the others
            self._record_pieces(work, pieces)
            self._record([seal_unreadable(work, describe_error(error))])
        else:
            self._record_pieces(work, pieces)

    def _record_pieces(self, work: Work, pieces: Sequence[Piece]) -> bool:
        """Seal and record pieces of one file; False if the rest of it must wait."""
        sealed: list[Sealed] = []
        is_whole = True
        from relight.intake.setting_aside import can_fetch_again

        for group, found in self._seal_pieces(pieces):
            if isinstance(found, Lost):
                sealed.append(self.retries.set_piece_aside(work, group[0], found))
                is_whole = can_fetch_again(group[0])
            else:
                sealed += found.sealed
                self.last = found.sealed[-1] if found.sealed else None
                is_whole = found.trouble is None
                if found.trouble:
                    sealed.append(seal_unreadable(work, found.trouble))
            if not is_whole:
                break
        self._report(sealed)
        self._record(sealed)
        return is_whole

    def _seal_pieces(
        self, pieces: Sequence[Piece]
    ) -> Iterator[tuple[Sequence[Piece], SealedFiles | Lost]]:
        """Yield pieces with their sealed files: all at once, or one by one if they were lost."""
        if not pieces:
            return
        message = self._encode(pieces=[go_on(pieces[0], self.last), *pieces[1:]])
        (response,) = self.pool.responses([message])
        if not isinstance(response, Lost):
            yield pieces, decode_answer(response)
        elif len(pieces) > 1:
            for piece in pieces:
                yield from self._seal_pieces([piece])
        elif self.retries.is_first(response, pieces[0].before.path):
            yield from self._seal_pieces(pieces)
        else:
            yield pieces, response

    def _record(self, sealed: list[Sealed]) -> None:
        taken, new = self.recorder.record(sealed)
        for piece in taken:
            count = self.counts[piece.source]
            self.touched |= {found for found, _ in piece.sessions}
            # a session that only a log mentions was not read
            found = {found for found, one in piece.sessions if one.started_at}
            self.new |= found & new
            self.found.setdefault(piece.source, set()).update(found)
            count.bytes += piece.raw_bytes
            count.unreadable += len(piece.unreadable)
            count.set_aside += piece.set_aside is not None

    def _report(self, sealed: list[Sealed]) -> None:
        self.done += sum(piece.raw_bytes for piece in sealed)
        self.progress(min(self.done, self.total), self.total)


def group_work(work: Iterable[Work]) -> Iterator[list[Work]]:
    """Yield small files together and large ones alone, so that a message is worth its cost."""
    group: list[Work] = []
    size = 0
    for one in work:
        group.append(one)
        size += one.new_bytes
        if size >= CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _ignore(done: int, total: int) -> None:
    """Do nothing: the caller wants no progress."""
