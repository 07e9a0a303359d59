"""Files of one JSON record a line: finding them, and reading what is new in them."""

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

import msgspec

from relight.model import Mark, Origin, Piece, Unreadable

CHUNK_BYTES = 2 << 20
LINE_LIMIT_BYTES = 64 << 20
HEAD_BYTES = 1024


def find_files(folder: str | Path, *, suffix: str = ".jsonl") -> Iterator[Origin]:
    """Every regular file below `folder` with that ending, in linked folders too.

    A folder that may not be looked into is given as an origin with its trouble, so that it is
    told and the rest is read. A link back into the tree, or twice to one place, is passed by. A
    file named itself is taken whatever its ending.
    """
    if named := look_at(folder):
        yield named
        return
    root = os.path.realpath(folder)
    linked = {root}
    pending = [os.fspath(folder)]
    while pending:
        place = pending.pop()
        try:
            entries = list(os.scandir(place))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Origin(place, trouble=f"cannot look into the folder: {error.strerror}")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif entry.is_symlink() and os.path.isdir(entry.path):  # noqa: PTH112 - False in a loop
                target = os.path.realpath(entry.path)
                if target not in linked and not _is_inside(target, root):
                    linked.add(target)
                    pending.append(entry.path)
            elif entry.name.endswith(suffix) and (origin := look_at(entry.path)):
                yield origin


def _is_inside(path: str, folder: str) -> bool:
    """Whether one lies in the other, either way: both would lead in circles."""
    return os.path.commonpath([path, folder]) in (path, folder)


def look_at(path: str | Path) -> Origin | None:
    """The file as it is now, or None where there is no regular file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for each of many thousand files
    except OSError:
        return None
    if not S_ISREG(found.st_mode):
        return None
    return Origin(os.fspath(path), found.st_size, found.st_mtime_ns, found.st_ino)


def read_piece(source: str, origin: Origin, mark: Mark | None) -> tuple[Piece, bool]:
    """The next whole lines after the mark, and whether more may follow.

    A last line without its end waits: it is read when its rest has come. A line over the limit
    is passed over and told as unreadable.
    """
    with open(origin.path, "rb") as file:  # noqa: PTH123 - Path.open would cost a Path a file
        before = _check_mark(mark, origin, file.read(HEAD_BYTES))
        file.seek(before.offset)
        raw = file.read(CHUNK_BYTES)
        end = raw.rfind(b"\n") + 1
        unreadable = []
        skipped = 0
        if not end and len(raw) == CHUNK_BYTES:
            raw, skipped = _read_long_line(file, raw)
            end = len(raw)
            if skipped and not end:
                reason = f"a line of {skipped:,} bytes is longer than {LINE_LIMIT_BYTES:,}"
                unreadable.append(Unreadable(before.offset, reason))
        file.seek(0)
        offset = before.offset + (end or skipped)
        head = _fingerprint(file.read(HEAD_BYTES)[:offset])
    after = msgspec.structs.replace(
        before,
        size=origin.size,
        modified_ns=origin.modified_ns,
        inode=origin.inode,
        offset=offset,
        head=head,
    )
    piece = Piece(source=source, raw=raw[:end], before=before, after=after, unreadable=unreadable)
    return piece, bool(end or skipped) and offset < origin.size


def _check_mark(mark: Mark | None, origin: Origin, head: bytes) -> Mark:
    """The mark to read on from: a file that was cut or written anew is read from its start."""
    if mark is None:
        return Mark(path=origin.path)
    known = min(mark.offset, HEAD_BYTES)
    if origin.size >= mark.offset and _fingerprint(head[:known]) == mark.head:
        return mark
    return Mark(path=origin.path, generation=mark.generation + 1)


def _read_long_line(file: BinaryIO, start: bytes) -> tuple[bytes, int]:
    """The whole of a line longer than a chunk, or, past the limit, only how long it is.

    A line within the limit whose end has not come yet is left to wait: nothing.
    """
    parts, size = [start], len(start)
    while more := file.read(CHUNK_BYTES):
        cut = more.find(b"\n")
        more = more[: cut + 1] if cut >= 0 else more
        size += len(more)
        if size <= LINE_LIMIT_BYTES:
            parts.append(more)
        else:
            parts.clear()
        if cut >= 0:
            return (b"".join(parts), 0) if parts else (b"", size)
    return b"", 0 if parts else size


def _fingerprint(head: bytes) -> bytes:
    return blake2b(head, digest_size=8).digest()
