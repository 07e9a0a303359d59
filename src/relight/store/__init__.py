"""The store: the records and everything derived from them, in one SQLite file or PostgreSQL."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, tzinfo
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from relight.config import Config, find_home, read_config
from relight.errors import RelightError
from relight.locks import check_place, make_folder, open_private, renew_in_forks
from relight.store.sql import (
    META,
    Connection,
    S,
    read,
    readable_errors,
)

if TYPE_CHECKING:
    from relight.store.log import Log
    from relight.store.visibility import Viewer

MIGRATIONS = Path(__file__).with_name("migrations")
# the number of the newest migration
SCHEMA = max(int(path.name[:4]) for path in MIGRATIONS.glob("[0-9]*.sql"))
BUSY_SECONDS = 60
FOUNDING_SECONDS = 0.01
# what a fork must neither use nor close
_inherited: list[Connection] = []
# what a transaction writes: new parts of the tape that machines push, or what is derived from them
Written = Literal["tape", "index"]
Upkeep = Literal["overwrite", "shrink", "shorten_log", "sync"]
UPKEEP: dict[Upkeep, str] = {
    "overwrite": "pragma secure_delete = on",  # deleted rows, from now on
    "shrink": "vacuum",
    "shorten_log": "pragma wal_checkpoint(truncate)",
    "sync": "pragma synchronous = full",  # a commit outlives a power failure, from now on
}


C = TypeVar("C", bound=Connection)


class Store:
    """An open store. Threads may share it; processes open their own on the same file.

    This one is SQLite's; `PostgresStore` has what the other engine does in its own way.
    """

    engine: ClassVar[Literal["sqlite", "postgres"]] = "sqlite"

    def __init__(self, config: Config, connection: Connection, *, can_write: bool = True) -> None:
        self.config = config
        self.can_write = can_write
        self.path = config.database
        self._connection = connection
        self._lock = threading.RLock()
        # how long other writers are waited for: now, and by the connection's setting
        self._patience = self._wait_seconds = float(BUSY_SECONDS)
        self._meta: dict[str, str] = dict(connection.execute("select key, value from meta"))
        # the sessions whose tapes were read, while somebody asks for them
        self.tapes_read: set[int] | None = None
        renew_in_forks(self)

    @cached_property
    def _log(self) -> "Log":
        from relight.store.log import Log  # for those who write

        return Log(self.path)

    def renew(self) -> None:
        """Leave the connection to the parent after a fork: SQLite cannot share it."""
        self._lock = threading.RLock()
        _inherited.append(self._connection)
        self._connection = sqlite3.connect(":memory:")
        self._connection.close()

    @property
    def timezone(self) -> str:
        """The time zone of this store's calendar days."""
        return self._meta["timezone"]

    @property
    def zone(self) -> tzinfo:
        """The same as an object; that of most servers needs no `zoneinfo`, 3 ms to load."""
        if self.timezone == "UTC":
            return UTC
        from zoneinfo import ZoneInfo

        return ZoneInfo(self.timezone)

    def reread(self) -> bool:
        """Read again what the store knows about itself; True if its time zone has changed."""
        before = self.timezone
        self._meta = dict(self.query("select key, value from meta"))
        return self.timezone != before

    @property
    def redaction_key(self) -> bytes:
        return bytes.fromhex(self._meta["redaction_key"])

    def query(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        with self._using() as connection:
            return connection.execute(statement, values).fetchall()

    def list_values(self, statement: str, values: Any = ()) -> list[Any]:
        """Return the first column of a query."""
        return [row[0] for row in self.query(statement, values)]

    def find_first(self, statement: str, values: Any = ()) -> Any | None:
        """Return the first value of a query, None if it has no rows."""
        return next(iter(self.list_values(statement, values)), None)

    def find_meta(self, key: str) -> str | None:
        """Return what the table `meta` has under a key."""
        return self.find_first(META, (key,))

    def has_rows(self, table: str) -> bool:
        """True if a table has a row."""
        return bool(self.query(f"select 1 from {table} limit 1"))

    def read(
        self,
        shape: type[S],
        statement: str,
        values: Any = (),
        formats: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> list[S]:
        """Return the rows of a query as Structs, whose fields are the names of its columns."""
        with self._using() as connection:
            return read(connection, shape, statement, values, formats)

    def find(self, shape: type[S], statement: str, values: Any = ()) -> S | None:
        """Return the first row of a query, None if it has none."""
        return next(iter(self.read(shape, statement, values)), None)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The connection itself, for several queries in a row."""
        with self._using() as connection:
            yield connection

    @contextmanager
    def snapshot(self, viewer: "Viewer | None" = None) -> Iterator[None]:
        """All queries inside see one moment, whatever others write meanwhile.

        With a viewer they see nothing but the rows that this person may see.
        """
        with self._using() as connection:
            connection.execute("begin")
            try:
                if viewer is not None:
                    from relight.store.visibility import narrow

                    narrow(connection, viewer)
                yield
            finally:
                connection.execute("rollback")

    @contextmanager
    def transaction(self, only: "Written | None" = None) -> Iterator[Connection]:
        """Write all or nothing; other processes wait.

        With `only` (tape or index), writers of the other one do not wait, if the engine has
        several writers.
        """
        with self._using() as connection:
            is_outer = not connection.in_transaction
            try:
                # an interrupt during the wait is raised when the wait is over
                connection.execute("begin immediate")
                yield connection
                connection.execute("commit")
            except BaseException:  # also on Ctrl-C: all or nothing is written
                if is_outer and connection.in_transaction:
                    connection.execute("rollback")
                raise
            self._log.shorten(connection)

    def write(self, statement: str, values: Any = ()) -> int:
        """Run one statement as a transaction; return the number of rows that it wrote."""
        with self.transaction() as database:
            return database.execute(statement, values).rowcount

    def claim(self, ids: Sequence[int]) -> list[int]:
        """Return those of these parts of the tape that no other process derives at the moment.

        They are this connection's until it gives them up or ends. SQLite has one deriver only.
        """
        return list(ids)

    def release_claims(self) -> None:
        """Give up all that was claimed."""

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Wait at most this long for other writers, instead of a minute."""
        if not self._lock.acquire(timeout=seconds):
            raise RelightError(
                f"the database {self.path} is in use by another thread", "try again later"
            )
        before, self._patience = self._patience, seconds
        try:
            yield
        finally:
            self._patience = before
            self._lock.release()

    @contextmanager
    def _using(self) -> Iterator[Connection]:
        """The connection, for this thread alone; it waits for others as long as it should."""
        with self._lock, readable_errors(self.path):
            if self._wait_seconds != self._patience:  # compiled each time, as slow as an update
                self._connection.execute(f"pragma busy_timeout = {round(self._patience * 1000)}")
                self._wait_seconds = self._patience
            yield self._connection

    def run(self, statement: str) -> None:
        """Run a statement that must be outside of a transaction."""
        with self._using() as connection:
            connection.execute(statement)

    def keep_up(self, what: Upkeep) -> None:
        self.run(UPKEEP[what])

    def read_schema(self) -> int:
        """Return the number of the last migration that this store has."""
        return int(self.query("pragma user_version")[0][0])

    def read_size(self) -> int:
        """Return the bytes that the database takes."""
        paths = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def find_damage(self) -> str | None:
        """Return the first damage of a page or an index, None if there is none."""
        # `quick_check` finds 57 % of files with 20 flipped bits, this one 73 %
        ((found,),) = self.query("pragma integrity_check(1)")
        return None if found == "ok" else str(found)

    def backup(self, target: Path) -> None:
        """Copy the whole store while others may write."""
        with self._lock, readable_errors(target):
            make_private(target)
            assert isinstance(self._connection, sqlite3.Connection)
            with closing(sqlite3.connect(target)) as copy:
                self._connection.backup(copy)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(home: str | Path | None = None, *, wait_seconds: float = BUSY_SECONDS) -> Store:
    """Return the store of a home folder, made on first use and migrated to this version."""
    config = read_config(find_home(home))
    if config.store.url:
        from relight.store.postgres import open_postgres

        check_place(config.home, config.database)
        return open_postgres(config, wait_seconds=wait_seconds)
    with readable_errors(config.database):
        try:
            make_folder(config.home)
        except OSError as error:
            raise RelightError(
                f"cannot make {config.home}: {error.strerror}",
                "name another folder with --home or RELIGHT_HOME",
            ) from error
        check_place(config.home, config.database)
        if not config.database.exists():
            make_private(config.database)
        elif not (os.access(config.database, os.W_OK) and os.access(config.home, os.W_OK)):
            from relight.store.still import open_unwritable

            return open_unwritable(config)
        with closed_on_error(connect(config.database, wait_seconds=wait_seconds)) as connection:
            ((version,),) = connection.execute("pragma user_version")
            if version != SCHEMA:
                from relight.store.keep.migrate import migrate

                migrate(connection, timezone=config.timezone)
            return Store(config, connection)


def open_reader(config: Config) -> Store:
    """Return an existing store for reading only: it waits for no writer."""
    if config.store.url:
        from relight.store.postgres import open_postgres

        check_place(config.home, config.database)
        return open_postgres(config, can_write=False)
    with readable_errors(config.database):
        if config.home.exists():
            check_place(config.home, config.database)
        with closed_on_error(connect_reader(config.database)) as connection:
            connection.execute("pragma cache_size = -4000")
            # readers of the whole database would copy each page of it otherwise
            connection.execute("pragma mmap_size = 2147418112")
            connection.execute("pragma temp_store = memory")
            if isinstance(connection, StillConnection):
                from relight.store.still import StillStore

                return StillStore(config, connection, can_write=False)
            return Store(config, connection, can_write=False)


class StillConnection(sqlite3.Connection):
    """A connection that takes its database for one that does not change."""


def connect_reader(database: Path) -> sqlite3.Connection:
    """Return a connection that can only read.

    Readers of a database with a log share a file beside it. Where that file cannot be made, the
    database is read as one that does not change, unless a log waits to be read with it. The caller
    must open it again when it has changed.
    """
    address = f"{database.absolute().as_uri()}?mode=ro"
    connect_to = partial(sqlite3.connect, uri=True, isolation_level=None, check_same_thread=False)
    connection = connect_to(address)
    try:
        connection.execute("pragma user_version").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        log = Path(f"{database}-wal")
        is_shut = error.sqlite_errorcode & 0xFF in (
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        )
        if not is_shut or not database.exists() or (log.exists() and log.stat().st_size):
            raise
        return connect_to(f"{address}&immutable=1", factory=StillConnection)
    return connection


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, if it is missing; SQLite keeps its mode."""
    try:
        os.close(open_private(path, os.O_RDWR))
    except OSError as error:
        raise RelightError(
            f"cannot write {path}: {error.strerror}", "check the permissions of its folder"
        ) from error


def connect(path: Path, *, wait_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )
    with closed_on_error(connection):
        use_log(connection, wait_seconds=wait_seconds)
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma cache_size = -16000")
        # a checkpoint waits for the disk, and writes a page once however often it changed before:
        # one for 32 MB, not for each 4
        connection.execute("pragma wal_autocheckpoint = 8000")
        connection.execute("pragma temp_store = memory")
        return connection


def use_log(connection: sqlite3.Connection, *, wait_seconds: float) -> None:
    """Use the write-ahead log, so that readers and a writer work at once.

    SQLite does not wait here: of two processes that make the same file, one is refused at once.
    """
    until = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(FOUNDING_SECONDS)
        else:
            return


@contextmanager
def closed_on_error(connection: C) -> Iterator[C]:
    """The connection, closed if its database turns out to be unusable."""
    try:
        yield connection
    except BaseException:  # also on Ctrl-C: no connection stays open
        connection.close()
        raise
