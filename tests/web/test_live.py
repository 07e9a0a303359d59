"""Open pages learn that the store has changed, cheaply, and never hold up who changes it."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import build
import serving
from relight.store.changes import LOOK_SECONDS, ChangeWatcher

OTHER = "22222222-aaaa-4aaa-8aaa-222222222222"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        return store.config.home


def import_another(folder: Path, name: str = OTHER) -> None:
    """What `relight import` does in a separate process: a second connection."""
    lines = [
        build.claude_prompt("Count the zebras", at=50, sessionId=name),
        build.claude_answer(f"msg_{name}", at=55, sessionId=name),
    ]
    build.write_claude(folder, lines, name=name)
    with build.open_home(folder) as store:
        build.import_home(store, folder)


def read_version(client: TestClient) -> str:
    version: str = client.get("/api/live").json()["version"]
    return version


def test_the_version_is_another_one_after_a_change_and_only_then(home: Path) -> None:
    with serving.make_client(home) as client:
        before = read_version(client)
        time.sleep(LOOK_SECONDS * 1.2)
        assert read_version(client) == before
        import_another(home.parent)
        build.wait_for(lambda: read_version(client) != before)


def test_versions_of_two_servers_are_never_the_same(home: Path) -> None:
    with serving.make_client(home) as one, serving.make_client(home) as other:
        assert read_version(one) != read_version(other)


def test_a_new_session_appears_in_the_list_without_a_restart(home: Path) -> None:
    with serving.make_client(home) as client:
        path = "/api/sessions?since=all"
        assert len(client.get(path).json()["sessions"]) == 1
        assert "zebras" not in client.get("/sessions?since=all").text
        import_another(home.parent)
        build.wait_for(lambda: len(client.get(path).json()["sessions"]) == 2)
        build.wait_for(lambda: "zebras" in client.get("/sessions?since=all").text)


def test_a_page_says_which_version_it_was_made_of(home: Path) -> None:
    with serving.make_client(home) as client:
        assert f'content="{read_version(client)}"' in client.get("/").text


@pytest.mark.sqlite("it counts looks at the file")
def test_however_many_ask_the_database_is_looked_at_ten_times_a_second(home: Path) -> None:
    with closing(ChangeWatcher(serving.read_config(home))) as watcher:
        watcher.version()
        looks: list[str] = []
        assert isinstance(watcher.connection, sqlite3.Connection)
        watcher.connection.set_trace_callback(looks.append)
        began = time.monotonic()
        tabs = [
            threading.Thread(target=lambda: [watcher.version() for _ in range(500)])
            for _ in range(8)
        ]
        for tab in tabs:
            tab.start()
        for tab in tabs:
            tab.join()
        assert len(looks) <= (time.monotonic() - began) / LOOK_SECONDS + 1


def test_pages_are_read_while_someone_writes_and_the_writer_does_not_wait(home: Path) -> None:
    with serving.make_client(home) as client, build.open_home(home.parent) as store:
        with store.transaction() as database:
            database.execute("update session set title = 'half written'")
            for path in ("/", "/sessions?since=all", "/api/report", "/api/live"):
                answer = client.get(path)
                assert answer.status_code == 200
                assert "half written" not in answer.text
        # a page that is being looked at holds no lock: this would wait for a minute
        began = time.monotonic()
        with store.transaction() as database:
            database.execute("update session set title = 'written'")
        assert time.monotonic() - began < 30
        build.wait_for(lambda: "written" in client.get("/sessions?since=all").text)


def test_a_reader_cannot_write(home: Path) -> None:
    from relight.errors import StoreError
    from relight.store import open_reader

    with open_reader(serving.read_config(home)) as reader, pytest.raises(StoreError):
        reader.query("delete from session")


@pytest.mark.sqlite("it moves the file")
def test_a_store_that_went_away_is_reported_and_not_made_again(home: Path) -> None:
    away = home.with_name("away")
    with serving.make_client(home) as client:
        secret = client.get("/api/secret").json()["secret"]
        assert client.get("/sessions?since=all").status_code == 200
        home.rename(away)
        time.sleep(LOOK_SECONDS * 1.2)
        page = client.get("/sessions?since=all")
        assert (page.status_code, "is gone" in page.text) == (503, True)
        assert client.get("/api/live").status_code == 503
        act = client.post("/api/jobs/a/pause", headers={"X-Relight-Secret": secret}, json={})
        assert act.status_code == 503
        assert not home.exists()
        away.rename(home)
        build.wait_for(lambda: client.get("/sessions?since=all").status_code == 200)


@pytest.mark.sqlite("it moves the file")
def test_another_store_in_the_same_place_is_shown(home: Path, tmp_path: Path) -> None:
    with serving.make_client(home) as client:
        assert len(client.get("/api/sessions?since=all").json()["sessions"]) == 1
        import_another(tmp_path / "elsewhere", OTHER)
        with build.open_home(tmp_path / "elsewhere") as other:
            other.backup(tmp_path / "other.db")
        (tmp_path / "other.db").rename(home / "relight.db")
        time.sleep(LOOK_SECONDS * 1.2)
        assert "zebras" in client.get("/sessions?since=all").text


@pytest.mark.sqlite("it writes the version of the file")
def test_a_store_that_a_newer_relight_has_changed_is_refused_and_says_what_to_do(
    home: Path,
) -> None:
    with serving.make_client(home) as client:
        assert client.get("/").status_code == 200
        with closing(sqlite3.connect(home / "relight.db")) as newer:
            newer.execute("pragma user_version = 9999")
        time.sleep(LOOK_SECONDS * 1.2)
        page = client.get("/")
        assert page.status_code == 503
        assert "schema 9999" in page.text
        assert "restart `relight serve`" in page.text
