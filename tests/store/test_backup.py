"""Backups of a store on PostgreSQL."""

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

import build
import postgres
from relight.errors import RelightError
from relight.store import Store, open_store
from relight.store.keep.dump import _explain, _split
from relight.store.keep.restore import restore
from relight.store.team import read_own_id
from relight.store.visibility import Viewer


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with one session; the programs are those of the server."""
    programs = postgres.find_server().programs
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    home = tmp_path / "home"
    home.mkdir()
    postgres.make_store(home)
    build.write_claude(tmp_path, build.claude_session())
    with open_store(home) as found:
        build.import_home(found, tmp_path)
        yield found
    postgres.free_below(home)


def test_a_restored_database_is_that_of_the_backup_and_a_new_one_for_its_machines(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "relight.backup"
    before, own_id = build.dump(store), read_own_id(store)
    store.backup(file)
    assert file.stat().st_mode & 0o777 == 0o600
    with store.transaction() as database:
        database.execute("delete from turn")
        database.execute("create table later (id bigint)")
    assert build.dump(store) != before
    restore(store.config, file)  # while it is open
    assert build.dump(store) == before
    assert store.query("select to_regclass('later') is null") == [(True,)]
    assert read_own_id(store) != own_id
    with store.snapshot(Viewer(0)):
        assert store.query("select count(*) from session") == [(0,)]


@pytest.mark.parametrize("cut", [0, 100, -50])
def test_half_a_backup_changes_nothing(store: Store, tmp_path: Path, cut: int) -> None:
    file, half = tmp_path / "relight.backup", tmp_path / "half"
    store.backup(file)
    half.write_bytes(file.read_bytes()[:cut])
    before = build.dump(store)
    with pytest.raises(RelightError):
        restore(store.config, half)
    assert build.dump(store) == before


def test_without_the_programs_of_postgresql_the_error_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RelightError, match="no program pg_dump") as found:
        store.backup(tmp_path / "relight.backup")
    assert "client programs" in (found.value.hint or "")
    assert not (tmp_path / "relight.backup").exists()


@pytest.mark.parametrize(
    ("said", "hint"),
    [('ERROR:  role "relight_reader" does not exist', "relight migrate"),
     ("pg_dump: error: aborting because of server version mismatch", "client programs"),
     ("ERROR:  out of memory", None)],
)  # fmt: skip
def test_a_server_without_the_reading_role_is_to_be_migrated_first(
    said: str, hint: str | None
) -> None:
    error = _explain(BytesIO(said.encode()), "db")
    assert error.message == f"db: {said}"
    assert error.hint is None if hint is None else hint in str(error.hint)


@pytest.mark.parametrize(
    "url",
    ["postgresql://anna:p%40ss@db/relight?sslmode=require",
     "postgresql://anna@db/relight?sslmode=require&password=p%40ss"],
)  # fmt: skip
def test_no_list_of_processes_shows_the_password(url: str) -> None:
    assert _split(url) == (
        "postgresql://anna@db/relight?sslmode=require",
        {"PGPASSWORD": "p@ss"},
    )
