"""Spool files: telemetry is written here before it is acknowledged, and read from here like files.

`telemetry/otlp/` has files of programs, each with lines of many sessions. An agent's records are in
one file for each session, as the agent's own files are. A file that was read to its end is deleted
when nothing was added to it for a while.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from relight.locks import append_whole, hold, make_folder, open_private
from relight.names import blake2b
from relight.redact import redact
from relight.sources.files import find_files
from relight.sources.otlp.lines import AnyReceived
from relight.sources.otlp.reader import NAME
from relight.store import Store
from relight.store.write.tape import read_marks

# a file of programs is continued by the next after so much
MOST_BYTES = 16 << 20
MOST_SECONDS = 600.0
# a file that was read is deleted when it has not grown for so long
IDLE_SECONDS = 60.0
COUNT_SECONDS = 5.0


class Spool:
    """Appends received lines to files below one folder; threads may share it."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key
        self._lock = threading.Lock()
        self._name = ""
        self._began = 0.0
        self._bytes = 0
        self._counted_at = float("-inf")

    def write(self, source: str, lines: Iterable[AnyReceived]) -> None:
        """Return when these lines are on disk, redacted; raise OSError if they cannot be."""
        files: dict[str, list[bytes]] = {}
        for line in lines:
            name = "" if source == NAME else _name_file(line.session)
            files.setdefault(name, []).append(msgspec.json.encode(line) + b"\n")
        for name, encoded in files.items():
            data = redact(b"".join(encoded), key=self._key)
            with self._lock:
                _append(self._find_path(source, name), data)

    def count_bytes(self) -> int:
        """Return the size of all spool files, looked at once in a few seconds."""
        now = time.monotonic()
        if now - self._counted_at > COUNT_SECONDS:
            self._counted_at = now
            folders = self._folder.iterdir() if self._folder.is_dir() else ()
            self._bytes = sum(one.size for folder in folders for one in find_files(folder))
        return self._bytes

    def _find_path(self, source: str, name: str) -> Path:
        folder = self._folder / source
        if not folder.is_dir():
            make_folder(folder)
        if name:
            return folder / f"{name}.jsonl"
        path = folder / self._name
        is_over = time.monotonic() - self._began > MOST_SECONDS
        if not self._name or is_over or (path.exists() and path.stat().st_size > MOST_BYTES):
            self._began = time.monotonic()
            self._name = f"{time.time_ns()}-{secrets.token_hex(3)}.jsonl"
        return folder / self._name


def _name_file(session: str) -> str:
    """The name of a session's file: any text may come over the wire."""
    return blake2b(session.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _append(path: Path, data: bytes) -> None:
    """Append lines and wait for the disk; a file that was deleted meanwhile is made again."""
    while True:
        file = open_private(path, os.O_RDWR | os.O_APPEND)
        try:
            hold(file)
            found = os.fstat(file)
            if found.st_nlink == 0:
                continue
            # killed while it wrote: that request was not acknowledged
            if found.st_size and _read_last(file) != b"\n":
                data = b"\n" + data
            append_whole(file, data)
            os.fsync(file)
            return
        finally:
            os.close(file)


def _read_last(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)


def sweep(store: Store) -> None:
    """Delete the files that were read to their end and are not written any more."""
    now = time.time()
    for folder in sorted(store.config.telemetry.iterdir()):
        for origin in find_files(folder):
            if now - origin.modified_ns / 1e9 > IDLE_SECONDS:
                mark = read_marks(store, folder.name, origin.path).get("")
                if mark and mark.offset >= origin.size:
                    _delete(Path(origin.path), mark.offset)


def _delete(path: Path, size: int) -> None:
    """Delete a file unless it has grown, or is being written."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return
    try:
        if hold(file, waits=False) and os.fstat(file).st_size <= size:
            path.unlink(missing_ok=True)
    finally:
        os.close(file)
