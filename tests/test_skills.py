import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import build
from relight.doctor import examine
from relight.errors import RelightError
from relight.misses import record_safely
from relight.rebuilding import rebuild
from relight.skills import read_daily, record_skill_invocation
from relight.store import Store

AT = "2026-11-15T09:00:00Z"
DAILY = (
    "skill_name, model, provider, day, invocation_count, success_count, failure_count,"
    " unknown_count, avg_duration_s, total_cost_usd, avg_cost_usd, unpriced_count,"
    " total_input_tokens, total_output_tokens, avg_quality_score, last_invoked_at"
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with build.open_home(tmp_path) as store:
        yield store


def tell(store: Store, **fields: Any) -> int:
    return record_skill_invocation(
        store, **{"skill_name": "triage", "invoked_at": AT, "model": "haiku"} | fields
    )


def read(store: Store, *names: str) -> list[tuple[Any, ...]]:
    return store.query(f"select {', '.join(names)} from skill_invocations order by id")


def test_what_is_told_of_a_use_is_kept(store: Store) -> None:
    given = {
        "skill_name": "triage",
        "session_id": "my-session",
        "job_id": "nightly",
        "skill_version": "1.2.0",
        "entry": "cron",
        "model": "haiku",
        "provider": "anthropic",
        "duration_seconds": 12.5,
        "input_tokens": 1000,
        "output_tokens": 200,
        "cache_read_tokens": 30,
        "cache_write_tokens": 4,
        "cost_usd": 0.0123,
        "cost_status": "estimated",
        "cost_source": "me",
        "end_reason": "done",
        "quality_score": 0.75,
        "share": 0.5,
    }
    number = tell(store, success=True, completed_at="2026-11-15T10:00:12+01:00", **given)
    assert read(store, "id", *given) == [(number, *given.values())]
    assert read(store, "day", "success", "completed_at - invoked_at", "cost_nanos") == [
        ("2026-11-15", 1, 12_000, 12_300_000)
    ]


@pytest.mark.parametrize(
    "at", [datetime(2026, 11, 15, 9, tzinfo=UTC), AT, "2026-11-15T10:00:00+01:00", 1794733200]
)
def test_a_time_may_be_told_in_three_ways(store: Store, at: object) -> None:
    tell(store, invoked_at=at)
    assert read(store, "invoked_at") == [(1794733200000,)]


def test_without_a_session_every_telling_is_a_use_of_its_own(store: Store) -> None:
    assert len({tell(store), tell(store)}) == 2
    assert len(read(store, "id")) == 2


def test_telling_a_sessions_use_again_updates_it_and_keeps_what_is_not_told(store: Store) -> None:
    first = tell(store, session_id="s", entry="cron", cost_usd=0.5)
    again = tell(store, session_id="s", entry="cron", success=False)
    assert first == again
    assert read(store, "cost_usd", "success", "cost_status") == [(0.5, 0, "reported")]
    assert tell(store, session_id="s", entry="tool") != first
    assert tell(store, session_id="s") != first
    assert len(read(store, "id")) == 3


def test_a_duration_is_from_begin_to_end_where_only_these_are_told(store: Store) -> None:
    tell(store, completed_at="2026-11-15T09:01:30Z")
    assert read(store, "duration_seconds") == [(90,)]


def test_a_zero_that_is_marked_unknown_is_no_price(store: Store) -> None:
    tell(store, cost_usd=0.0, cost_status="unknown")
    tell(store, cost_usd=0.0)
    tell(store)
    assert read(store, "cost_usd", "cost_status") == [
        (None, "unknown"),
        (0.0, "reported"),
        (None, "unknown"),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("skill_name", ""),
        ("skill_name", "  "),
        ("skill_name", 7),
        ("invoked_at", "yesterday"),
        ("invoked_at", datetime(2026, 11, 15)),  # noqa: DTZ001 - that is what is wrong with it
        ("invoked_at", None),
        ("completed_at", "2026-11-14T00:00:00Z"),
        ("entry", "magic"),
        ("input_tokens", -1),
        ("output_tokens", 1.5),
        ("output_tokens", True),
        ("cost_usd", -0.01),
        ("cost_usd", float("nan")),
        ("cost_usd", "cheap"),
        ("cost_status", "guessed"),
        ("cost_status", "reported"),
        ("duration_seconds", float("inf")),
        ("success", "yes"),
        ("success", 1),
        ("quality_score", float("nan")),
        ("share", 1.5),
        ("session_id", ""),
    ],
)
def test_a_bad_value_is_refused_with_words(store: Store, field: str, value: object) -> None:
    with pytest.raises(RelightError, match=f"^{field} "):
        tell(store, **{field: value})
    assert read(store, "id") == []


def test_the_daily_view_has_the_columns_scripts_rely_on(store: Store) -> None:
    cursor = sqlite3.connect(store.path).execute("select * from skill_stats_daily")
    assert ", ".join(column[0] for column in cursor.description) == DAILY
    cursor.connection.close()


def test_the_daily_view_counts_unknowns_and_leaves_them_out_of_means(store: Store) -> None:
    figures = {"input_tokens": 10, "output_tokens": 5}
    tell(store, success=True, cost_usd=0.03, duration_seconds=4, quality_score=0.5, **figures)
    tell(store, success=False, cost_usd=0.01, **figures)
    tell(store, invoked_at="2026-11-15T11:00:00Z")
    (row,) = read_daily(store)
    assert list(row.values()) == [
        *("triage", "haiku", None, "2026-11-15"),
        *(3, 1, 1, 1, 4, 0.04, 0.02, 1, 20, 10, 0.5, "2026-11-15T11:00:00.000Z"),
    ]


def test_the_table_is_indexed_by_skill_by_job_and_by_session(store: Store) -> None:
    for column in ("skill_name", "job_id", "session_id"):
        (plan,) = store.query(
            f"explain query plan select * from skill_invocations where {column} = 'x'"
        )
        assert "USING INDEX" in plan[3]


def test_a_rebuild_leaves_what_was_told_alone(store: Store) -> None:
    number = tell(store, session_id="s", success=True)
    rebuild(store)
    assert read(store, "id", "success") == [(number, 1)]


WRITER = """
import sys
from relight import open_store, record_skill_invocation
with open_store(sys.argv[1]) as store:
    for number in range(20):
        for name in (f"{sys.argv[2]}-{number}", "shared"):
            record_skill_invocation(store, skill_name="triage", invoked_at=0, session_id=name)
"""


def test_many_writers_at_once_lose_nothing_and_tell_nothing_twice(store: Store) -> None:
    def write_here(name: str) -> None:
        for number in range(20):
            tell(store, session_id=f"{name}-{number}")
            tell(store, session_id="shared")

    words = [sys.executable, "-c", WRITER, str(store.config.home)]
    processes = [subprocess.Popen([*words, name]) for name in ("p1", "p2")]
    threads = [threading.Thread(target=write_here, args=(name,)) for name in ("t1", "t2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0]
    assert len(read(store, "id")) == 81
    assert len(set(read(store, "session_id"))) == 81


def missed(store: Store) -> int:
    return int(examine(store, environment={"HOME": "/nowhere"})["missed_records"])


def test_a_record_that_can_be_kept_is_kept(store: Store) -> None:
    assert record_safely(store, tell) == 1
    assert record_safely(store.config.home, tell) == 2
    assert missed(store) == 0


def test_a_bad_record_is_a_miss_and_not_an_error(store: Store) -> None:
    assert record_safely(store, lambda store: tell(store, entry="magic")) is None
    assert record_safely(store, lambda store: 1 / 0) is None
    assert missed(store) == 2


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


def test_a_read_only_database_is_a_miss_and_not_an_error(store: Store) -> None:
    store.run("pragma query_only = on")
    assert record_safely(store, tell) is None
    store.run("pragma query_only = off")
    assert missed(store) == 1


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


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_cannot_be_written_is_no_error_either(tmp_path: Path) -> None:
    folder = tmp_path / "shut"
    folder.mkdir(mode=0o500)
    assert record_safely(folder / "relight", tell) is None
