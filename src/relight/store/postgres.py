"""The store on PostgreSQL, for the server of a team: the one module that loads psycopg.

Relight's statements run as they are; only the marks of their values are written as psycopg wants
them. One writer at a time holds an advisory lock, as SQLite lets only one write; but what machines
push is written while the index is. What differs otherwise is in the modules beside this one:
`postgres_schema` and `postgres_search`.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relight.config import Config
from relight.errors import RefusedValueError, RelightError, StoreError, UnavailableError
from relight.locks import make_folder
from relight.store import BUSY_SECONDS, SCHEMA, Store, Upkeep, Written, closed_on_error
from relight.store.changes import ChangeWatcher
from relight.store.postgres_marks import arrange_values, write_marks
from relight.store.sql import Connection, Cursor, ReadRows
from relight.store.visibility import MACHINES, PROJECTS, SEES_ALL, Viewer
from relight.text import show_url

try:
    import psycopg
    from psycopg import ClientCursor, errors
    from psycopg.pq import TransactionStatus
    from psycopg.types.numeric import IntDumper
    from psycopg.types.string import StrDumperUnknown
except ImportError as error:
    raise RelightError(
        "the store is on PostgreSQL, and its client is not installed",
        "install it with: pip install 'relight[postgres]'",
    ) from error

# any numbers, the same in all processes: advisory locks belong to one database
INDEX_LOCK, TAPE_LOCK, CLAIM_LOCK = 7_269_646, 7_269_647, 7_269_648
# always in this order, so that no two writers wait for one another
LOCK_ALL = f"select pg_advisory_xact_lock({INDEX_LOCK}), pg_advisory_xact_lock({TAPE_LOCK})"
LOCK = {
    None: LOCK_ALL,
    "index": f"select pg_advisory_xact_lock({INDEX_LOCK})",
    "tape": f"select pg_advisory_xact_lock({TAPE_LOCK})",
}
CONNECT_SECONDS = 10
# the role that row-level security holds for; it owns no table and cannot log in
READER = "relight_reader"
# The person of a transaction with their projects and machines, found once for all of its reads.
SET_PERSON = f"""
    select set_config('relight.person', cast(array[
        '{{person}}',
        cast(array(select project from ({PROJECTS}) as found where :only_own = 0) as text),
        cast(array({MACHINES}) as text)
    ] as text), true)
"""
# class and meaning of SQLSTATE codes that a person can act on
HINTS = {
    "53100": "free some space there and try again: what was recorded is kept",
    "55P03": "another Relight has been writing for long: try again when it is done",
    "28": "check the user and password of [store] url",
    "3D": "create the database there first",
    "42501": "the user of [store] url needs to own the database and its tables",
}


class _TextDumper(StrDumperUnknown):
    """Writes texts without NUL, which PostgreSQL does not store."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)


class _FlagDumper(IntDumper):
    """Writes True and False as 1 and 0: no column of ours is of another engine's kind."""

    def dump(self, obj: bool) -> Any:
        return super().dump(int(obj))


class _NumberLoader(psycopg.adapt.Loader):
    """A sum of whole numbers is `numeric` in PostgreSQL; it is an int here, and others floats."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text or b"a" in text else int(text)


class _FlagLoader(psycopg.adapt.Loader):
    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


class PostgresConnection:
    """A connection that takes Relight's statements, and raises errors that a person can act on.

    If the server went away, the next statement outside of a transaction connects again.
    """

    def __init__(self, url: str, *, can_write: bool, wait_seconds: float) -> None:
        self._url, self._can_write = url, can_write
        self.wait_seconds = wait_seconds
        # the months that it has seen or made: see `months`
        self.months: set[str] = set()
        self._raw = self._connect()

    def _connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        options = f"-c lock_timeout={round(self.wait_seconds * 1000)} -c client_encoding=UTF8"
        # PostgreSQL 15 compiles the many small conditions of policies for longer than it runs them
        options += " -c jit=off"
        # rows are looked up by their ids in months of turns, on disks that read anywhere alike
        options += " -c random_page_cost=1.1"
        # a commit is acknowledged by the disk, whatever the server's own setting is
        options += " -c synchronous_commit=on" if self._can_write else ""
        options += "" if self._can_write else " -c default_transaction_read_only=on"
        with self._readable():
            raw = psycopg.connect(
                self._url,
                autocommit=True,
                options=options,
                connect_timeout=CONNECT_SECONDS,
                application_name="relight",
            )
        raw.adapters.register_dumper(str, _TextDumper)
        raw.adapters.register_dumper(bool, _FlagDumper)
        raw.adapters.register_loader("numeric", _NumberLoader)
        raw.adapters.register_loader("bool", _FlagLoader)
        raw.prepare_threshold = None
        return raw

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise explain(error, self._url) from error

    @property
    def in_transaction(self) -> bool:
        return self._raw.info.transaction_status not in (
            TransactionStatus.IDLE,
            TransactionStatus.UNKNOWN,
        )

    def execute(self, statement: str, values: Any = (), /) -> Cursor:
        text, kind = write_marks(statement)
        if self._raw.broken:
            self._raw = self._connect()
        with self._readable():
            # values are written into the statement: a mark alone would need a cast to its type
            cursor = ClientCursor(self._raw)
            cursor.execute(text.encode(), arrange_values(kind, values))
            return cursor if cursor.description else ReadRows(rowcount=cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Any], /) -> Cursor:
        text, kind = write_marks(statement)
        some = [arrange_values(kind, row) or () for row in rows]
        if not some:
            return ReadRows(rowcount=0)
        with self._readable():
            cursor = self._raw.cursor()
            cursor.executemany(text.encode(), some)
            return ReadRows(rowcount=cursor.rowcount)

    def copy(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows into a table in the quickest way; a text is a line as `copy` reads it."""
        text = f"copy {table} ({columns}) from stdin"
        with self._readable(), self._raw.cursor() as cursor, cursor.copy(text.encode()) as stream:
            for row in rows:
                stream.write(row) if isinstance(row, str) else stream.write_row(row)

    def close(self) -> None:
        self._raw.close()


def explain(error: psycopg.Error, url: str) -> StoreError:
    """Return an error of PostgreSQL in Relight's form, without the password of the address."""
    code = error.sqlstate or ""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = "its disk is full" if isinstance(error, errors.DiskFull) else lines[0]
    hint = next(
        (hint for start, hint in HINTS.items() if code.startswith(start)),
        "check that the server runs and that [store] url leads to it"
        if not code
        else "`relight doctor` checks the database",
    )
    kind = StoreError
    # an index takes texts of 2,700 bytes
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError | errors.ProgramLimitExceeded):
        kind = RefusedValueError
    elif isinstance(error, psycopg.OperationalError | psycopg.InternalError):
        kind = UnavailableError
    return kind(f"the database {show_url(url)} could not be used: {text}", hint)


class PostgresStore(Store):
    """A store on PostgreSQL."""

    engine = "postgres"
    _connection: PostgresConnection

    def renew(self) -> None:
        """Leave the connection to the parent after a fork; each process must open its own."""
        self._lock = threading.RLock()
        _inherited.append(self._connection)
        self._connection = ClosedConnection()

    @contextmanager
    def snapshot(self, viewer: Viewer | None = None) -> Iterator[None]:
        with self._lock:
            self._connection.execute("begin isolation level repeatable read read only")
            try:
                # policies keep the indexes for words from being used, and would hide nothing here
                if viewer is not None and not self._sees_all(viewer):
                    # until the end of the transaction; without a person every read fails
                    self._connection.execute(
                        SET_PERSON.format(person=viewer.person_id),
                        {"only_own": int(viewer.only_own)},
                    )
                    self._connection.execute(f"set local role {READER}")
                yield
            finally:
                self._roll_back()

    def _sees_all(self, viewer: Viewer) -> bool:
        test = SEES_ALL.format(person=viewer.person_id)
        return not viewer.only_own and self._connection.execute(test).fetchone() is not None

    @contextmanager
    def transaction(self, only: Written | None = None) -> Iterator[Connection]:
        with self._lock:
            if self._connection.in_transaction:
                raise StoreError("a transaction is open already")
            try:
                self._connection.execute("begin")
                self._connection.execute(LOCK[only])
                yield self._connection
                self._connection.execute("commit")
            except BaseException:  # also on Ctrl-C: all or nothing is written
                self._roll_back()
                raise

    def claim(self, ids: Sequence[int]) -> list[int]:
        # A lock of the session, not of a row: a delete of the row must not wait for a deriver
        # that waits for the writers' lock. Two parts with the same lock only wait for one another.
        rows = self.query(
            f"select id from unnest(cast(? as bigint[])) as id"
            f" where pg_try_advisory_lock({CLAIM_LOCK}, cast(mod(id, 2147483647) as integer))",
            (list(ids),),
        )
        return [found for (found,) in rows]

    def release_claims(self) -> None:
        self.query("select pg_advisory_unlock_all()")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("rollback")

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=seconds):
            raise RelightError("the database is in use by another thread", "try again later")
        before = self._connection.wait_seconds
        try:
            self._set_wait(seconds)
            try:
                yield
            finally:
                self._set_wait(before)
        finally:
            self._lock.release()

    def _set_wait(self, seconds: float) -> None:
        self._connection.wait_seconds = seconds
        self._connection.execute(f"set lock_timeout = {round(seconds * 1000)}")

    def keep_up(self, what: Upkeep) -> None:
        """Let the server use the space of deleted rows again; the rest is the server's own work."""
        if what == "shrink":
            self.run("vacuum")

    def read_schema(self) -> int:
        return read_schema(self._connection)

    def read_size(self) -> int:
        return int(self.query("select pg_database_size(current_database())")[0][0])

    def find_damage(self) -> str | None:
        """Return None: PostgreSQL checks its pages when it reads them."""
        return None

    def backup(self, target: Path) -> None:
        from relight.store.keep.dump import dump

        dump(str(self.config.store.url), target)


class ClosedConnection(PostgresConnection):
    """Stands for a connection that belongs to another process."""

    in_transaction = False

    def __init__(self) -> None:
        self.wait_seconds = 0.0

    def execute(self, statement: str, values: Any = (), /) -> Cursor:
        raise StoreError("the database is closed", "open it again; each process must open its own")

    def executemany(self, statement: str, rows: Iterable[Any], /) -> Cursor:
        return self.execute(statement)

    def close(self) -> None:
        pass


# what a fork must neither use nor close
_inherited: list[PostgresConnection] = []


class PostgresWatcher(ChangeWatcher):
    """A watch for changes: what a new transaction sees differs after every commit."""

    _text: str | None = None

    def _look(self) -> None:
        if self.connection is None:
            self.connection = connect(self._config, can_write=False)
        (seen,) = self.connection.execute("select cast(pg_current_snapshot() as text)").fetchone()
        if seen != self._text:
            check_schema(self.connection)
            self._text = seen
            self._changes += 1


def connect(
    config: Config, *, can_write: bool = True, wait_seconds: float = BUSY_SECONDS
) -> PostgresConnection:
    assert config.store.url is not None
    return PostgresConnection(config.store.url, can_write=can_write, wait_seconds=wait_seconds)


def open_postgres(
    config: Config, *, can_write: bool = True, wait_seconds: float = BUSY_SECONDS
) -> PostgresStore:
    """Return the store at `[store] url`; raise if it has another schema than this version."""
    make_folder(config.home)
    opened = connect(config, can_write=can_write, wait_seconds=wait_seconds)
    with closed_on_error(opened) as connection:
        check_schema(connection)
        return PostgresStore(config, connection, can_write=can_write)


def read_schema(connection: Connection) -> int:
    """Return the number of the last migration that a database has, 0 if it is empty."""
    (table,) = connection.execute("select to_regclass('meta') is not null").fetchone()
    if not table:
        return 0
    row = connection.execute("select value from meta where key = 'schema'").fetchone()
    return int(row[0]) if row else 0


def check_schema(connection: Connection) -> None:
    """Raise unless the database has this version's schema: only `migrate` changes it."""
    version = read_schema(connection)
    if version < SCHEMA:
        found = f"has schema {version}, and this Relight needs {SCHEMA}" if version else "is empty"
        raise StoreError(f"the database on the server {found}", "run there: relight migrate")
    if version > SCHEMA:
        raise StoreError(
            f"the database belongs to a newer Relight (schema {version}, known {SCHEMA})",
            "upgrade Relight",
        )
