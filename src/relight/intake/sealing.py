"""Seal files, here or in worker processes if there is much to read, and record them."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.intake.importing import Imported
from relight.model import Mark, Unreadable, Work
from relight.sources import find_source
from relight.sources.files import CHUNK_BYTES, read_piece
from relight.store import Store
from relight.store.write.seal import Sealed, seal
from relight.store.write.tape import read_marks

if TYPE_CHECKING:
    from relight.intake.workers import Workers

# how much is written in one transaction: the more, the fewer pages are written twice. As the end
# nears it is a share of what remains, so that little is left to write when the workers are done.
COMMIT_BYTES = (4 << 20, 48 << 20)
COMMIT_SHARE = 8
# how far into a file its session is looked for: what names none by then is no session
HOLD_BYTES = 4 * CHUNK_BYTES

Progress = Callable[[int, int], None]


class SealTask(Struct, frozen=True):
    """Files for a worker process to seal, with the store's redaction key and time zone."""

    work: list[Work]
    key: bytes
    timezone: str


class SealedFiles(Struct, frozen=True):
    """The sealed pieces of a task's files, and the work that is left on them."""

    sealed: list[Sealed]
    left: list[Work]


def seal_task(task: SealTask) -> SealedFiles:
    """Read and seal the next stretch of each of these files."""
    sealed, left = [], []
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
    return SealedFiles(sealed, left)


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
    return seal(piece, read, key=task.key, timezone=task.timezone), has_more


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


class Intake:
    """Reads what is new in files into a store, with worker processes if it is much."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        # worker processes load this module too, and record nothing
        from relight.store.write.record import Recorder

        self.store = store
        self.counts: dict[str, Imported] = {}
        self.recorder = Recorder(store)
        self.progress = progress or _ignore
        self.total = self.done = 0
        self.seen: set[int] = set()
        self.touched: set[int] = set()

    def take(self, work: list[Work], pool: "Workers | None" = None) -> list[Imported]:
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
        tasks = [self._task(group) for group in group_work(files)]
        if pool is None:
            self._seal_here(tasks)
        else:
            self._seal_apart(tasks, pool)
        return list(self.counts.values())

    def _task(self, work: list[Work]) -> SealTask:
        return SealTask(work, self.store.redaction_key, self.store.timezone)

    def _seal_here(self, tasks: list[SealTask]) -> None:
        while tasks:
            answer = seal_task(tasks.pop(0))
            self._report(answer.sealed)
            self._record(answer.sealed)
            tasks += [self._task(group) for group in group_work(answer.left)]

    def _seal_apart(self, tasks: list[SealTask], pool: "Workers") -> None:
        """Seal in worker processes; this one prices and writes meanwhile."""
        encode, decode = msgspec.msgpack.encode, msgspec.msgpack.Decoder(SealedFiles).decode
        least, most = COMMIT_BYTES
        pending: list[Sealed] = []
        for message in pool.responses(map(encode, tasks)):
            answer = decode(message)
            for group in group_work(answer.left):
                pool.submit(encode(self._task(group)))
            pending += answer.sealed
            self._report(answer.sealed)
            enough = min(max((self.total - self.done) // COMMIT_SHARE, least), most)
            if sum(piece.raw_bytes for piece in pending) >= enough:
                self._record(pending)
                pending = []
        self._record(pending)

    def _import_database(self, work: Work) -> None:
        source = find_source(work.source)
        fetch = source.fetch
        assert fetch is not None
        marks = read_marks(self.store, work.source, work.origin.path)
        key, timezone = self.store.redaction_key, self.store.timezone
        pending: list[Sealed] = []
        size = 0
        try:
            for piece in fetch(work.origin, marks):
                pending.append(seal(piece, source.read, key=key, timezone=timezone))
                size += len(piece.raw)
                if size > CHUNK_BYTES:
                    self._report(pending)
                    self._record(pending)
                    pending, size = [], 0
        except Exception as error:  # noqa: BLE001 - one file must not stop the others
            pending.append(seal_unreadable(work, describe_error(error)))
        self._record(pending)

    def _record(self, sealed: list[Sealed]) -> None:
        taken, new = self.recorder.record(sealed)
        for piece in taken:
            count = self.counts[piece.source]
            self.touched |= {found for found, _ in piece.sessions}
            # a session that only a log mentions was not read
            found = {found for found, one in piece.sessions if one.started_at} - self.seen
            self.seen |= found
            count.sessions_new += len(found & new)
            count.sessions_grown += len(found - new)
            count.bytes += piece.raw_bytes
            count.unreadable += len(piece.unreadable)

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
