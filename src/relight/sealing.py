"""Sealing files, apart from recording them: this is all that worker processes load."""

import msgspec
from msgspec import Struct

from relight.model import Mark, Unreadable, Work
from relight.sources import find_source
from relight.sources.files import read_piece
from relight.store.seal import Sealed, seal


class Task(Struct, frozen=True):
    """Files for a worker process to seal, with what it needs to know of the store."""

    work: list[Work]
    key: bytes
    timezone: str


class Answer(Struct, frozen=True):
    """What a worker made of its files, and the work that is left on them."""

    sealed: list[Sealed]
    left: list[Work]


def seal_task(task: Task) -> Answer:
    """Read and seal the next stretch of each of these files."""
    sealed, left = [], []
    for work in task.work:
        if work.origin.trouble:
            sealed.append(seal_unreadable(work, work.origin.trouble))
            continue
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
