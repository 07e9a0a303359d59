"""The write-ahead log kept short, also while others read without a pause."""

import sqlite3
from pathlib import Path

LONGEST_BYTES = 100_000_000
WAIT_SECONDS = 1.0


class Log:
    """SQLite begins its log anew when nobody reads from it, which a busy dashboard's readers never
    let happen: it would grow for as long as an import lasts, and each reader would look through
    all of it. So who has written much waits for the readers of a moment to be done.
    """

    def __init__(self, database: Path, *, longest_bytes: int = LONGEST_BYTES) -> None:
        self._path = database.with_name(f"{database.name}-wal")
        self._longest = self._limit = longest_bytes

    def shorten(self, connection: sqlite3.Connection) -> None:
        """Put all that is in a log that has grown long into the database, and empty it."""
        try:
            size = self._path.stat().st_size
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
        # someone reads for long: not again before it has grown as much once more
        self._limit = size + self._longest if is_busy else self._longest
