"""A recorder must never break what it records."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import build
from relight.reports.doctor import examine
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store
from relight.store.misses import FILE, record_safely


def tell(store: Store, **fields: Any) -> int:
    return record_skill_invocation(store, skill_name="triage", invoked_at=0, **fields)


def read(store: Store, *names: str) -> list[tuple[Any, ...]]:
    return store.query(f"select {', '.join(names)} from skill_invocations order by id")


def missed(store: Store) -> int:
    return examine(store, environment={"HOME": "/nowhere"}).missed_records


def test_a_record_that_can_be_kept_is_kept(store: Store) -> None:
    assert record_safely(store, tell) == 1
    assert record_safely(store.config.home, tell) == 2
    assert missed(store) == 0


def test_a_bad_record_is_a_miss_and_not_an_error(store: Store) -> None:
    assert record_safely(store, lambda store: tell(store, entry="magic")) is None
    assert record_safely(store, lambda store: 1 / 0) is None
    assert missed(store) == 2


@pytest.mark.sqlite("it locks the file")
@pytest.mark.parametrize("by_home", [True, False])
def test_a_locked_database_is_a_miss_and_not_an_error(store: Store, by_home: bool) -> None:
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("begin immediate")
    place = store.config.home if by_home else store
    assert record_safely(place, tell, wait_seconds=0.1) is None
    other.execute("rollback")
    other.close()
    assert (missed(store), read(store, "id")) == (1, [])
    assert record_safely(place, tell) is not None


@pytest.mark.sqlite("it is a setting of a connection")
def test_a_read_only_database_is_a_miss_and_not_an_error(store: Store) -> None:
    store.run("pragma query_only = on")
    assert record_safely(store, tell) is None
    store.run("pragma query_only = off")
    assert missed(store) == 1


@pytest.mark.sqlite("it limits the pages of the file")
def test_a_full_database_is_a_miss_and_not_an_error(store: Store) -> None:
    (pages,) = store.query("pragma page_count")[0]
    store.run(f"pragma max_page_count = {pages}")
    told = [record_safely(store, lambda s: tell(s, end_reason="x" * 9000)) for _ in range(3)]
    assert told[-1] is None
    store.run("pragma max_page_count = 1000000")
    assert missed(store) >= 1
    assert record_safely(store, tell) is not None


def test_a_closed_store_is_a_miss_and_not_an_error(tmp_path: Path) -> None:
    store = build.open_home(tmp_path)
    store.close()
    for _ in range(2):
        assert record_safely(store, tell) is None
    with build.open_home(tmp_path) as again:
        assert missed(again) == 2


def test_a_miss_of_a_store_that_cannot_be_opened_is_counted_in_a_private_file(store: Store) -> None:
    def fail(_: Store) -> None:
        raise OSError("no space left on device")

    for number in (1, 2):
        assert record_safely(store.config.home, fail) is None
        assert missed(store) == number
    file = store.config.home / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert "no space left on device" in file.read_text()


def test_a_miss_that_can_be_counted_nowhere_is_logged_and_no_error(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    (store.config.home / FILE).mkdir()
    assert record_safely(store.config.home, lambda _: 1 / 0) is None
    assert "could not be counted" in caplog.text
    assert missed(store) == 0


def test_a_file_that_is_a_link_is_not_followed(tmp_path: Path, store: Store) -> None:
    other = tmp_path / "precious"
    other.write_text("mine")
    (store.config.home / FILE).symlink_to(other)
    assert record_safely(store.config.home, lambda _: 1 / 0) is None
    assert other.read_text() == "mine"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "place", ["\0", "\ud83d", 123, object(), "~nobody-of-that-name/x", "/dev/full/x", ["a"]]
)
def test_nonsense_for_a_place_is_a_miss_and_not_an_error(
    tmp_path: Path, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_HOME", str(tmp_path / "relight"))
    assert record_safely(place, tell) is None


def test_nonsense_for_a_place_is_counted_in_the_users_own_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_HOME", str(tmp_path / "relight"))
    nonsense: Any = 123
    record_safely(nonsense, tell)
    with build.open_home(tmp_path) as store:
        record_safely(nonsense, tell)
        assert missed(store) == 2


def test_an_error_without_words_is_a_miss_too(store: Store) -> None:
    def fail(_: Store) -> None:
        raise Unspeakable

    assert record_safely(store, fail) is None
    assert record_safely(store.config.home, fail) is None
    assert missed(store) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_cannot_be_written_is_no_error_either(tmp_path: Path) -> None:
    folder = tmp_path / "shut"
    folder.mkdir(mode=0o500)
    assert record_safely(folder / "relight", tell) is None
