"""What a recorder could not write yet, in a file beside the database until it can.

Another process may hold the database for longer than a program can stand still. What was told
meanwhile is safe in the file, also when the program is killed: the next recorder, or the next
import, takes it up.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.locks import hold
from relight.model import Mark

FOLDER = "backlog"


class Left(Struct, frozen=True):
    """The lines of a file that nobody writes on: how far their tape was, and what came after."""

    path: Path
    mark: Mark
    lines: list[bytes]


class Backlog:
    """One recorder's file; it is there only while something waits."""

    def __init__(self, home: Path, name: str) -> None:
        self._path = home / FOLDER / f"{name}.jsonl"
        self._file: int | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def add(self, mark: Mark, lines: Sequence[bytes]) -> None:
        """Append lines; `mark` says how far the tape is without all that is in the file."""
        if not lines:
            return
        if self._file is None:
            self._file = self._create(msgspec.json.encode(mark) + b"\n")
        _write(self._file, b"".join(lines))

    def _create(self, head: bytes) -> int:
        """A file that nobody sees before it is held."""
        self._path.parent.mkdir(exist_ok=True, mode=0o700)
        new = self._path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            hold(file)
            _write(file, head)
            new.replace(self._path)
        except OSError:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        return file

    def clear(self) -> None:
        """All of it is in the database."""
        if self._file is not None:
            self.close()
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the file to whoever comes next."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write(file: int, data: bytes) -> None:
    """Append all of it, or nothing: half a line would spoil the next."""
    size = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        os.ftruncate(file, size)
        raise


@contextmanager
def taking(path: Path) -> Iterator[Left | None]:
    """What is left in a file; None while its recorder is still at work, or another takes it."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        yield None
        return
    try:
        yield _read(path) if hold(file, waits=False) else None
    finally:
        os.close(file)


def _read(path: Path) -> Left:
    head, *lines = path.read_bytes().splitlines(keepends=True) or [b""]
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # killed while it wrote: that call had not returned
    try:
        return Left(path, msgspec.json.decode(head, type=Mark), lines)
    except msgspec.DecodeError:
        return Left(path, Mark(path=""), [])


def find_backlogs(home: Path) -> list[Path]:
    folder = home / FOLDER
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
