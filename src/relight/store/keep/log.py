"""The write-ahead log kept short, also while others read without a pause."""

import os
import sqlite3
import time
from pathlib import Path

LONGEST_BYTES = 100_000_000
# a look costs an eighth of a small commit: no need for one after each
LOOK_SECONDS = 0.2
# nobody who writes should notice it, and a dashboard's readers are done in less
WAIT_SECONDS = 0.1


class Log:
    """SQLite begins its log anew when nobody reads from it, which a busy dashboard's readers never
    let happen: it would grow for as long as an import lasts, and each reader would look through
    all of it. So who has written much waits for the readers of a moment to be done.
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

    def shorten(self, connection: sqlite3.Connection) -> None:
        """Put all that is in a log that has grown long into the database, and empty it."""
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
        # someone reads for long: not again before it has grown a good deal more
        self._limit = size + self._longest // 4 if is_busy else self._longest
