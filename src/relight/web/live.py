"""Whether the store has changed, for any number of open pages."""

import secrets
import sqlite3
import threading
import time

from relight.config import Config
from relight.store import told_errors

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
        self._seen: int | None = None
        self._changes = 0
        self._looked_at = float("-inf")

    def version(self) -> str:
        """A text that is another one after each change."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                self._looked_at = now
                self._look()
            return f"{self._start}-{self._changes}"

    def look_again(self) -> None:
        """Look at the next question, however soon: this process has written itself."""
        with self._lock:
            self._looked_at = float("-inf")

    def _look(self) -> None:
        with told_errors(self._config.database):
            if self.connection is None:
                self.connection = sqlite3.connect(
                    f"{self._config.database.absolute().as_uri()}?mode=ro",
                    uri=True,
                    check_same_thread=False,
                )
            (seen,) = self.connection.execute("pragma data_version").fetchone()
        if seen != self._seen:
            self._seen = seen
            self._changes += 1
