"""A watch for changes of the database; its cost does not grow with the number of callers."""

import secrets
import threading
import time

from relight.config import Config
from relight.errors import StoreError
from relight.store import StillConnection, connect_reader
from relight.store.keep.migrate import find_migrations
from relight.store.sql import Connection, readable_errors

LOOK_SECONDS = 0.1


class ChangeWatcher:
    """Looks at the database at most ten times a second, however many callers there are.

    SQLite reports whether another connection has written since the last look. That takes
    microseconds and no lock that a writer would notice.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._database = config.database
        self.connection: Connection | None = None
        self._lock = threading.Lock()
        # makes the counts of two processes different
        self._start = secrets.token_hex(4)
        self._file: object = None
        self._seen: int | None = None
        self._changes = 0
        self._looked_at = float("-inf")

    def close(self) -> None:
        with self._lock:
            if self.connection is not None:
                self.connection.close()
                self.connection = None

    def version(self) -> str:
        """Return a text that differs after every change; raise if the database is gone."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                self._look()
                self._looked_at = now
            return f"{self._start}-{self._changes}"

    def look_again(self) -> None:
        """Look again at the next call, because this process has written itself."""
        with self._lock:
            self._looked_at = float("-inf")

    def _look(self) -> None:
        file: object = identify(self._config)
        if isinstance(self.connection, StillConnection):  # it reports no change by itself
            from relight.store.still import read_stamp

            file = (file, read_stamp(self._database))
        with readable_errors(self._database):
            if self.connection is None or file != self._file:
                if self.connection is not None:
                    self.connection.close()
                self.connection = connect_reader(self._database)
                self._file, self._seen = file, None
            (seen,) = self.connection.execute("pragma data_version").fetchone()
            if seen != self._seen:
                check_schema(self.connection)
                self._seen = seen
                self._changes += 1


def check_schema(connection: Connection) -> None:
    """Raise if Relight was upgraded while this server runs."""
    (version,) = connection.execute("pragma user_version").fetchone()
    known = max(find_migrations())
    if version != known:
        raise StoreError(
            f"the database belongs to another version of Relight (schema {version}, known {known})",
            "restart `relight serve`",
        )


def make_watcher(config: Config) -> ChangeWatcher:
    """Return the watch for changes of a store's database."""
    if config.store.url:
        from relight.store.postgres import PostgresWatcher

        return PostgresWatcher(config)
    return ChangeWatcher(config)


def identify(config: Config) -> tuple[int, int] | None:
    """Return the file's device and inode: a file that was moved away still answers reads.

    None for a database on a server.
    """
    if config.store.url:
        return None
    database = config.database
    try:
        found = database.stat()
    except OSError as error:
        raise StoreError(
            f"the database {database} is gone: {error.strerror}",
            "put it back, or restart `relight serve`",
        ) from error
    return found.st_dev, found.st_ino
