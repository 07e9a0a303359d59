"""Whether the store has changed, for any number of open pages."""

import secrets
import sqlite3
import threading
import time

from relight.config import Config
from relight.errors import StoreError
from relight.store import told_errors
from relight.store.keep.migrate import find_migrations
from relight.web.readers import identify

LOOK_SECONDS = 0.1


class Watcher:
    """Looks at the database at most ten times a second, however many ask.

    SQLite tells a connection whether others have written since it last asked: that costs
    microseconds and no lock that a writer would notice.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        # another process's count must not look like one of ours
        self._start = secrets.token_hex(4)
        self._which: tuple[int, int] | None = None
        self._seen: int | None = None
        self._changes = 0
        self._looked_at = float("-inf")

    def close(self) -> None:
        with self._lock:
            if self.connection is not None:
                self.connection.close()
                self.connection = None

    def version(self) -> str:
        """A text that is another one after each change; an error where there is no such store."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                self._look()
                self._looked_at = now
            return f"{self._start}-{self._changes}"

    def look_again(self) -> None:
        """Look at the next question, however soon: this process has written itself."""
        with self._lock:
            self._looked_at = float("-inf")

    def _look(self) -> None:
        which = identify(self._config.database)
        with told_errors(self._config.database):
            if self.connection is None or which != self._which:
                if self.connection is not None:
                    self.connection.close()
                self.connection = sqlite3.connect(
                    f"{self._config.database.absolute().as_uri()}?mode=ro",
                    uri=True,
                    check_same_thread=False,
                )
                self._which, self._seen = which, None
            (seen,) = self.connection.execute("pragma data_version").fetchone()
            if seen != self._seen:
                check_schema(self.connection)
                self._seen = seen
                self._changes += 1


def check_schema(connection: sqlite3.Connection) -> None:
    """Refuse a database of another version: Relight may be upgraded beneath a running server."""
    (version,) = connection.execute("pragma user_version").fetchone()
    known = max(find_migrations())
    if version != known:
        raise StoreError(
            f"this database is of another version of Relight (schema {version}, known {known})",
            "end `relight serve` and start it anew",
        )
