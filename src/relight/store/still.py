"""A database that can only be read as one that does not change; it is opened again when it has.

Readers of a database with a log share a file beside it. In a folder that nobody may write in that
file cannot be made, so SQLite is asked to look for no changes. A writer that begins later would
leave such a reader with old pages, or with old and new ones mixed.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from relight.config import Config
from relight.errors import StoreError
from relight.store import SCHEMA, StillConnection, Store, connect_reader, open_reader
from relight.store.sql import Connection, S
from relight.store.visibility import Viewer

R = TypeVar("R")
Stamp = tuple[tuple[int, int, int] | None, ...]


def read_stamp(database: Path) -> Stamp:
    """Return inode, size and time of the database and its log: they differ after every change."""
    return tuple(_look(f"{database}{ending}") for ending in ("", "-wal"))


def _look(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - before each query
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class StillStore(Store):
    """A store that is read as one that does not change, and is opened again if it has."""

    _stamp: Stamp | None = None

    def query(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return self._steadily(lambda: Store.query(self, statement, values))

    def read(
        self,
        shape: type[S],
        statement: str,
        values: Any = (),
        formats: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> list[S]:
        return self._steadily(lambda: Store.read(self, shape, statement, values, formats))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        self._open_again()
        with super().reading() as connection:
            yield connection

    @contextmanager
    def snapshot(self, viewer: Viewer | None = None) -> Iterator[None]:
        self._open_again()
        with super().snapshot(viewer):
            yield

    def _steadily(self, run: Callable[[], R]) -> R:
        """Return the result of a query during which nothing changed."""
        while True:
            with self._lock:
                self._open_again()
                before = self._stamp
                try:
                    found = run()
                except StoreError:
                    if self._is_steady(before):
                        raise
                    continue
                if self._is_steady(before):
                    return found

    def _is_steady(self, before: Stamp | None) -> bool:
        connection = self._connection
        is_still = isinstance(connection, StillConnection) and not connection.in_transaction
        return not is_still or read_stamp(self.path) == before

    def _open_again(self) -> None:
        """Open the database again if it has changed since; inside a snapshot, stay with it."""
        with self._lock:
            stamp = read_stamp(self.path)
            if self._stamp is not None and not self._is_steady(self._stamp):
                opened = connect_reader(self.path)
                self._connection.close()
                self._connection = opened
            self._stamp = stamp


def open_unwritable(config: Config) -> Store:
    """Return a store that exists, for reading only; raise if it must be migrated."""
    store = open_reader(config)
    version = store.read_schema()
    if version != SCHEMA:
        store.close()
        raise StoreError(
            f"{config.home} is only read here, and its database has schema {version}, not {SCHEMA}",
            "run a command of this Relight as a user who may write there",
        )
    return store
