"""Files that agents leave: JSON records, one a line, and SQLite databases."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from relight.errors import RelightError
from relight.model import Mark, Origin, Piece, Unreadable
from relight.names import blake2b

if TYPE_CHECKING:
    from sqlite3 import Connection

CHUNK_BYTES = 2 << 20
LINE_LIMIT_BYTES = 64 << 20
EDGE_BYTES = 1024
# a program that writes holds its database for a fraction of a second
LOCK_WAIT_SECONDS = 10.0
BOM = b"\xef\xbb\xbf"


def find_files(folder: str | Path, *, suffix: str = ".jsonl") -> Iterator[Origin]:
    """Every regular file below `folder` with that ending, in linked folders too.

    A folder that cannot be read becomes an origin with its trouble, so that it is reported and the
    rest is read. A link back into the tree, or a second one to the same place, is skipped. If
    `folder` is a file, it is taken whatever its ending.
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
    """True if one is inside the other: following such a link would never end."""
    return os.path.commonpath([path, folder]) in (path, folder)


def look_at(path: str | Path) -> Origin | None:
    """The file as it is now, or None if there is no regular file."""
    name = os.fspath(path)
    try:
        found = os.stat(name)  # noqa: PTH116 - for each of many thousand files
        name.encode()
    except OSError:
        return None
    except UnicodeEncodeError:
        return Origin(ascii(name), trouble="its name is not written in UTF-8")
    if not S_ISREG(found.st_mode):
        return None
    return Origin(name, found.st_size, found.st_mtime_ns, found.st_ino)


def look_at_database(path: Path) -> Origin | None:
    """A SQLite file together with its write-ahead log, which may hold all that is new."""
    main = look_at(path)
    return main and join_origins(main, look_at(f"{path}-wal"))


def join_origins(main: Origin, beside: Origin | None) -> Origin:
    """A file as new as the newer of it and one that is read together with it."""
    if beside is None or main.trouble:
        return main
    newest = max(main.modified_ns, beside.modified_ns)
    return Origin(main.path, main.size + beside.size, newest, main.inode)


def open_database(path: str) -> "Connection":
    """A read-only connection to another program's SQLite file.

    The file must never be opened as bytes: closing it would drop the locks of the program. One
    that nobody writes, which has no log and no journal, is read without locks.
    """
    import sqlite3

    is_written = any(Path(f"{path}-{one}").exists() for one in ("wal", "journal"))
    mode = "ro" if is_written else "ro&immutable=1"
    uri = f"{Path(path).absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_SECONDS)
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def reading_database(path: str, hint: str) -> "Iterator[Connection]":
    """Such a connection, closed at the end; an error in the block has this hint."""
    import sqlite3

    try:
        with closing(open_database(path)) as database:
            yield database
    except sqlite3.DatabaseError as error:
        raise RelightError(f"cannot read {path}: {error}", hint) from error


def read_document(path: str | Path) -> Any:
    """The value of a file that is one JSON document; raise if it is half written."""
    try:
        return msgspec.json.decode(Path(path).read_bytes().removeprefix(BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "the agent may be writing it: the next import tries again"
        raise RelightError(f"cannot read {path}: {error}", hint) from error


def read_piece(
    source: str,
    origin: Origin,
    mark: Mark | None,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    limit_bytes: int = LINE_LIMIT_BYTES,
) -> tuple[Piece, bool]:
    """The next whole lines after the mark, and whether more may follow.

    An incomplete last line is read when the rest of it has been written. A line over the limit is
    skipped and reported as unreadable. The mark has the file's size only if all of it was read: an
    import that ends earlier must be able to go on.
    """
    with open(origin.path, "rb") as file:  # noqa: PTH123 - Path.open would cost a Path a file
        before = _check_mark(mark, origin, file)
        file.seek(before.offset)
        raw = file.read(chunk_bytes)
        end = raw.rfind(b"\n") + 1
        unreadable = []
        skipped = 0
        if not end and len(raw) == chunk_bytes:
            raw, skipped = _read_long_line(file, raw, limit_bytes)
            end = len(raw)
            if skipped and not end:
                reason = f"a line of {skipped:,} bytes is longer than {limit_bytes:,}"
                unreadable.append(Unreadable(before.offset, reason))
        elif len(raw) < chunk_bytes and is_whole_object(raw[end:]):
            end = len(raw)
        offset = before.offset + (end or skipped)
        has_more = bool(end or skipped) and offset < origin.size
        after = pass_origin(before, origin, offset=offset, head=_fingerprint(file, offset))
        if has_more:
            after = msgspec.structs.replace(after, size=0)
    piece = Piece(source=source, raw=raw[:end], before=before, after=after, unreadable=unreadable)
    return piece, has_more


def pass_origin(mark: Mark, origin: Origin, **facts: Any) -> Mark:
    """The mark after all of an origin was read, as it was looked at."""
    seen = {"size": origin.size, "modified_ns": origin.modified_ns, "inode": origin.inode}
    return msgspec.structs.replace(mark, **seen, **facts)


def read_pieces(origin: Origin, mark: Mark | None, *, source: str = "") -> Iterator[Piece]:
    """All whole lines after the mark, in pieces."""
    has_more = True
    while has_more:
        piece, has_more = read_piece(source, origin, mark)
        mark = piece.after
        yield piece


def is_whole_object(line: bytes) -> bool:
    """True if a last line without a newline is a complete record.

    >>> [is_whole_object(line) for line in (b'{"a": 1}', b'{"a": {}', b"", b"12")]
    [True, False, False, False]
    """
    if line.rstrip()[-1:] not in (b"}", b"]"):
        return False
    try:
        msgspec.json.decode(line.removeprefix(BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _check_mark(mark: Mark | None, origin: Origin, file: BinaryIO) -> Mark:
    """The mark to go on from; a file that was cut or rewritten is read from its start."""
    if mark is None:
        return Mark(path=origin.path)
    if mark.offset == 0:  # nothing was kept of it, so nothing can have been rewritten
        return mark
    if origin.size >= mark.offset and _fingerprint(file, mark.offset) == mark.head:
        return mark
    return Mark(path=origin.path, generation=mark.generation + 1)


def _read_long_line(file: BinaryIO, start: bytes, limit_bytes: int) -> tuple[bytes, int]:
    """A whole line longer than a chunk, or only its length if it is over the limit.

    An incomplete line within the limit gives neither.
    """
    parts, size = [start], len(start)
    while more := file.read(len(start)):
        cut = more.find(b"\n")
        more = more[: cut + 1] if cut >= 0 else more
        size += len(more)
        if size <= limit_bytes:
            parts.append(more)
        else:
            parts.clear()
        if cut >= 0:
            return (b"".join(parts), 0) if parts else (b"", size)
    return b"", 0 if parts else size


def _fingerprint(file: BinaryIO, offset: int) -> bytes:
    """A hash of the first bytes and of the last before the offset: files may begin alike."""
    file.seek(0)
    first = file.read(min(EDGE_BYTES, offset))
    file.seek(max(offset - EDGE_BYTES, 0))
    return blake2b(first + file.read(min(EDGE_BYTES, offset)), digest_size=8).digest()
