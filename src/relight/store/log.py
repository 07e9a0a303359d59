"""SQLite's write-ahead log, which a busy dashboard would let grow without end."""

import os
import time
from pathlib import Path

from relight.store.sql import Connection

LONGEST_BYTES = 100_000_000
# looking at its size costs an eighth of a small commit
LOOK_SECONDS = 0.2
# a writer does not notice so short a wait, and a dashboard's readers are done in less
WAIT_SECONDS = 0.1


class Log:
    """The write-ahead log, shortened also while others read without a pause.

    SQLite restarts its log only when no reader uses it. Under a busy dashboard that never happens:
    the log would grow for as long as an import lasts, and every reader would search all of it. So
    a writer of much data waits for a moment without readers.
    """

    def __init__(
        self,
        database: Path,
        *,
        longest_bytes: int = LONGEST_BYTES,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._path = f"{database}-wal"
        self._longest = self._limit = longest_bytes
        self._look_seconds = look_seconds
        self._next_look = 0.0

    def shorten(self, connection: Connection) -> None:
        """Move a long log into the database and empty it."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._look_seconds
        try:
            size = os.stat(self._path).st_size  # noqa: PTH116 - a Path takes longer
        except OSError:
            return
        if size < self._limit:
            return
        (waited,) = connection.execute("pragma busy_timeout").fetchone()
        connection.execute(f"pragma busy_timeout = {round(WAIT_SECONDS * 1000)}")
        try:
            is_busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        finally:
            connection.execute(f"pragma busy_timeout = {waited}")
        # after a reader that takes long, try again when the log has grown by a quarter
        self._limit = size + self._longest // 4 if is_busy else self._longest
