"""Find what is new in the agents' own files, read it, and record it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.model import Mark, Origin, Unreadable
from relight.sources import SOURCES, find_fetch, find_source
from relight.sources.files import CHUNK_BYTES, is_unchanged, read_piece
from relight.store import Store
from relight.store.places import read_marks
from relight.store.record import Recorder
from relight.store.seal import Sealed, seal

# below this much new text, starting worker processes costs more than they save
POOL_BYTES = 12 << 20
# how much is written in one transaction: the more, the fewer pages are written twice; the less,
# the less is left to write when the workers are done
COMMIT_BYTES = (8 << 20, 48 << 20)
COMMITS = 10

Progress = Callable[[int, int], None]


class Imported(Struct):
    """What an import found and took from one source."""

    source: str
    files: int = 0
    bytes: int = 0
    sessions_new: int = 0
    sessions_grown: int = 0
    unreadable: int = 0


class Work(Struct, frozen=True):
    """A file with something new, and the mark up to which it has been read."""

    source: str
    origin: Origin
    mark: Mark | None


class Task(Struct, frozen=True):
    """Files for a worker process to seal, with what it needs to know of the store."""

    work: list[Work]
    key: bytes
    timezone: str


class Answer(Struct, frozen=True):
    """What a worker made of its files, and the work that is left on them."""

    sealed: list[Sealed]
    left: list[Work]


def import_all(
    store: Store,
    *,
    sources: Sequence[str] = (),
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
) -> list[Imported]:
    """Read whatever is new in the sources' folders, or in the one given, into the store."""
    environment = os.environ if environment is None else environment
    counts = {name: Imported(name) for name in sources or SOURCES}
    with hold_import(store):
        work = [one for name in counts for one in find_work(store, name, folder, environment)]
        _Import(store, counts, progress or _ignore).run(work, workers or os.cpu_count() or 1)
    return list(counts.values())


@contextmanager
def hold_import(store: Store) -> Iterator[None]:
    """One import at a time: the others wait, and then find nothing left to do."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there the marks alone keep two imports apart
        yield
        return
    with (store.config.home / "import.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_work(
    store: Store, name: str, folder: Path | None, environment: Mapping[str, str]
) -> Iterator[Work]:
    """The files of a source that have something new."""
    marks = read_marks(store, name)
    for origin in find_source(name).find(environment, folder):
        mark = marks.get(origin.path, {}).get("")
        if mark is None or not is_unchanged(origin, mark):
            yield Work(name, origin, mark)


class _Import:
    def __init__(self, store: Store, counts: dict[str, Imported], progress: Progress) -> None:
        self.store = store
        self.counts = counts
        self.recorder = Recorder(store)
        self.progress = progress
        self.total = self.done = 0
        self.seen: set[int] = set()

    def run(self, work: list[Work], workers: int) -> None:
        self.total = sum(map(new_bytes, work))
        for one in work:
            self.counts[one.source].files += 1
        databases = [one for one in work if find_fetch(one.source)]
        files = [one for one in work if not find_fetch(one.source)]
        for one in databases:
            self._import_database(one)
        tasks = [self._task(group) for group in group_work(files)]
        if workers > 1 and sum(map(new_bytes, files)) > POOL_BYTES:
            self._seal_apart(tasks, workers)
        else:
            self._seal_here(tasks)

    def _task(self, work: list[Work]) -> Task:
        return Task(work, self.store.redaction_key, self.store.timezone)

    def _seal_here(self, tasks: list[Task]) -> None:
        while tasks:
            answer = seal_task(tasks.pop(0))
            self._tell(answer.sealed)
            self._record(answer.sealed)
            tasks += [self._task(group) for group in group_work(answer.left)]

    def _seal_apart(self, tasks: list[Task], workers: int) -> None:
        """Seal in worker processes; this one prices and writes meanwhile."""
        from relight.workers import Workers

        encode, decode = msgspec.msgpack.encode, msgspec.msgpack.Decoder(Answer).decode
        least, most = COMMIT_BYTES
        enough = min(max(self.total // COMMITS, least), most)
        pending: list[Sealed] = []
        with Workers(workers, "relight.importing:answer_task") as pool:
            for message in pool.answers(map(encode, tasks)):
                answer = decode(message)
                for group in group_work(answer.left):
                    pool.ask(encode(self._task(group)))
                pending += answer.sealed
                self._tell(answer.sealed)
                if sum(piece.raw_bytes for piece in pending) >= enough:
                    self._record(pending)
                    pending = []
            self._record(pending)

    def _import_database(self, work: Work) -> None:
        source, fetch = find_source(work.source), find_fetch(work.source)
        assert fetch is not None
        marks = read_marks(self.store, work.source).get(work.origin.path, {})
        key, timezone = self.store.redaction_key, self.store.timezone
        pending: list[Sealed] = []
        try:
            for piece in fetch(work.origin, marks):
                pending.append(seal(piece, source.read, key=key, timezone=timezone))
                if sum(one.raw_bytes for one in pending) > CHUNK_BYTES:
                    self._tell(pending)
                    self._record(pending)
                    pending = []
        except (RelightError, OSError) as error:
            pending.append(seal_unreadable(work, str(error)))
        self._record(pending)

    def _record(self, sealed: list[Sealed]) -> None:
        taken, new = self.recorder.record(sealed)
        for piece in taken:
            count = self.counts[piece.source]
            found = {session_id for session_id, _ in piece.sessions} - self.seen
            self.seen |= found
            count.sessions_new += len(found & new)
            count.sessions_grown += len(found - new)
            count.bytes += piece.raw_bytes
            count.unreadable += len(piece.unreadable)

    def _tell(self, sealed: list[Sealed]) -> None:
        self.done += sum(piece.raw_bytes for piece in sealed)
        self.progress(min(self.done, self.total), self.total)


def seal_task(task: Task) -> Answer:
    """Read and seal the next stretch of each of these files."""
    sealed, left = [], []
    for work in task.work:
        try:
            piece, has_more = read_piece(work.source, work.origin, work.mark)
        except OSError as error:
            sealed.append(seal_unreadable(work, error.strerror or str(error)))
            continue
        read = find_source(work.source).read
        sealed.append(seal(piece, read, key=task.key, timezone=task.timezone))
        if has_more:
            left.append(Work(work.source, work.origin, sealed[-1].after))
    return Answer(sealed, left)


def answer_task(message: bytes) -> bytes:
    """What a worker process does with a task."""
    return msgspec.msgpack.encode(seal_task(msgspec.msgpack.decode(message, type=Task)))


def seal_unreadable(work: Work, reason: str) -> Sealed:
    """A file that could not be opened: told, and tried again next time."""
    mark = msgspec.structs.replace(work.mark or Mark(path=work.origin.path), size=-1)
    return Sealed(
        source=work.source,
        owner_id=None,
        before=work.mark or Mark(path=work.origin.path),
        after=mark,
        raw_bytes=0,
        records=b"",
        sessions=[],
        turns=[],
        calls=[],
        totals=[],
        jobs=[],
        runs=[],
        latencies=[],
        unreadable=[Unreadable(mark.offset, reason)],
    )


def group_work(work: Iterable[Work]) -> Iterator[list[Work]]:
    """Small files together, large ones alone: enough for a worker to be worth a message."""
    group: list[Work] = []
    size = 0
    for one in work:
        group.append(one)
        size += new_bytes(one)
        if size >= CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def new_bytes(work: Work) -> int:
    return max(work.origin.size - (work.mark.offset if work.mark else 0), 0)


def _ignore(done: int, total: int) -> None:
    """No one looks at the progress."""
