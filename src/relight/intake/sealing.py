"""Seal files without recording them: worker processes load no more than this module."""

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.model import Mark, Unreadable, Work
from relight.sources import find_source
from relight.sources.files import read_piece
from relight.store.write.seal import Sealed, seal


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
            piece, has_more = read_piece(work.source, work.origin, work.mark)
            read = find_source(work.source).read
            sealed.append(seal(piece, read, key=task.key, timezone=task.timezone))
        except Exception as error:  # noqa: BLE001 - one file must not stop the others
            sealed.append(seal_unreadable(work, describe_error(error)))
            continue
        if has_more:
            left.append(Work(work.source, work.origin, sealed[-1].after))
    return SealedFiles(sealed, left)


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
