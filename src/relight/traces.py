"""Full-turn traces of mixtures: what each model received, byte for byte, and what it said.

One JSON line a turn in a file a session. They are not redacted: their worth is that they are
exact, so only the user may read them.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.names import file_name

_lock = threading.Lock()


class Trace(Struct, frozen=True):
    """A file of traces: its turns, and how many lines could not be read."""

    path: Path
    turns: list[dict[str, Any]]
    skipped: int


def trace_path(folder: Path, session_id: str) -> Path:
    """The file of a session's traces, wherever its id seems to lead."""
    return folder / file_name(session_id, ending=".jsonl")


def write_trace(folder: Path, session_id: str, record: Mapping[str, Any]) -> None:
    """Append a turn with one write under a lock, so that turns of many writers never mix.

    A line that a crash left without its end is closed first, so that only it is lost.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    line = msgspec.json.encode(record) + b"\n"
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with _lock:
        file = os.open(trace_path(folder, session_id), flags, 0o600)
        try:
            _hold(file)
            size = os.lseek(file, 0, os.SEEK_END)
            if size:
                os.lseek(file, size - 1, os.SEEK_SET)
                line = line if os.read(file, 1) == b"\n" else b"\n" + line
            written = os.write(file, line)
            while written < len(line):  # a disk that is nearly full, or more than 2 GB
                written += os.write(file, line[written:])
        finally:
            os.close(file)


def _hold(file: int) -> None:
    """Keep other processes out until the file is closed."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there O_APPEND alone must do
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def read_trace(path: Path) -> Trace:
    """The turns of a file; a torn line is passed over and counted."""
    turns, skipped = [], 0
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        try:
            turn = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            skipped += 1
            continue
        if isinstance(turn, dict) and isinstance(turn.get("references"), list):
            turns.append(turn)
        else:
            skipped += 1
    return Trace(path, turns, skipped)


def find_traces(folder: Path) -> Iterator[Trace]:
    """All files of traces, the newest first."""
    try:
        paths = sorted(folder.glob("*.jsonl"), key=lambda one: (-one.stat().st_mtime, one.name))
    except OSError:
        return
    yield from map(read_trace, paths)
