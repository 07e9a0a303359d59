import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import astuple

from relight.errors import RelightError
from relight.intake.rebuild import rebuild
from relight.reports.skills.uses import record_skill_invocation
from relight.reports.totals import report
from relight.store import Store
from relight.store.queries.skills import read_daily

AT = "2026-11-15T09:00:00Z"
DAILY = (
    "skill_name, model, provider, day, invocation_count, success_count, failure_count,"
    " unknown_count, avg_duration_s, total_cost_usd, avg_cost_usd, unpriced_count,"
    " total_input_tokens, total_output_tokens, avg_quality_score, last_invoked_at"
)


def tell(store: Store, **fields: Any) -> int:
    return record_skill_invocation(
        store, **{"skill_name": "triage", "invoked_at": AT, "model": "haiku"} | fields
    )


def read(store: Store, *names: str) -> list[tuple[Any, ...]]:
    return store.query(f"select {', '.join(names)} from skill_invocations order by id")


def test_what_is_recorded_of_a_use_is_kept(store: Store) -> None:
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
def test_a_time_may_be_given_in_three_ways(store: Store, at: object) -> None:
    tell(store, invoked_at=at)
    assert read(store, "invoked_at") == [(1794733200000,)]


def test_without_a_session_every_record_is_a_separate_use(store: Store) -> None:
    assert len({tell(store), tell(store)}) == 2
    assert len(read(store, "id")) == 2


def test_recording_a_sessions_use_again_updates_it_and_keeps_what_is_not_recorded(
    store: Store,
) -> None:
    first = tell(store, session_id="s", entry="cron", cost_usd=0.5)
    again = tell(store, session_id="s", entry="cron", success=False)
    assert first == again
    assert read(store, "cost_usd", "success", "cost_status") == [(0.5, 0, "reported")]
    assert tell(store, session_id="s", entry="tool") != first
    assert tell(store, session_id="s") != first
    assert len(read(store, "id")) == 3


def test_a_duration_is_from_begin_to_end_where_only_these_are_recorded(store: Store) -> None:
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
        ("invoked_at", -1),
        ("invoked_at", -5e10),
        ("invoked_at", "1969-12-31T23:59:59Z"),
        ("invoked_at", "0001-01-01T00:00:00+14:00"),
        ("invoked_at", "9999-12-31T23:59:59-12:00"),
        ("invoked_at", datetime.max.replace(tzinfo=UTC)),
        ("invoked_at", datetime.min.replace(tzinfo=UTC)),
        ("invoked_at", 10**400),
        ("invoked_at", ""),
        ("completed_at", "2026-11-14T00:00:00Z"),
        ("completed_at", 1e15),
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
        ("session_id", "a\0b"),
        ("skill_name", "tidy\0"),
        ("skill_name", "half \ud83d"),
        ("model", "half \ud83d"),
        ("end_reason", "\udc80"),
        ("job_id", "a\0b"),
        ("entry", ["cron"]),
        ("cost_usd", 1e10),
        ("cost_usd", 10**400),
        ("input_tokens", 2**63),
        ("cache_read_tokens", 10**400),
        ("duration_seconds", 1e300),
        ("quality_score", 7),
        ("quality_score", -0.1),
        ("share", -0.1),
    ],
)
def test_a_bad_value_is_refused_with_words(store: Store, field: str, value: object) -> None:
    with pytest.raises(RelightError, match=f"^{field} "):
        tell(store, **{field: value})
    assert read(store, "id") == []


@pytest.mark.parametrize("field", ["cost_usd", "input_tokens", "invoked_at", "success", "model"])
def test_a_number_too_long_to_print_is_refused_with_words_too(store: Store, field: str) -> None:
    with pytest.raises(RelightError, match=f"^{field} "):
        tell(store, **{field: 10**6000})


def test_the_largest_values_that_are_taken_can_be_added_up_and_shown(store: Store) -> None:
    most = {"cost_usd": 1e6, "input_tokens": 10**12, "duration_seconds": 2.5e11, "share": 1}
    for at in ("9998-12-31T23:59:59Z", 0, "9998-12-31T23:59:59Z"):
        tell(store, invoked_at=at, **most)
    newest, oldest = read_daily(store)
    assert (newest.day, oldest.day) == ("9998-12-31", "1970-01-01")
    assert newest.total_cost_usd == 2e6
    assert oldest.last_invoked_at == "1970-01-01T00:00:00.000Z"


@pytest.mark.sqlite("scripts open the file")
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
    assert list(astuple(row)) == [
        *("triage", "haiku", None, "2026-11-15"),
        *(3, 1, 1, 1, 4, 0.04, 0.02, 1, 20, 10, 0.5, "2026-11-15T11:00:00.000Z"),
    ]


def test_a_use_with_a_cost_and_without_tokens_has_an_unknown_number_of_tokens(
    store: Store,
) -> None:
    tell(store, cost_usd=0.1)
    (row,) = report(store, ("skill",)).rows
    assert (row.cost_usd, row.turns, row.total_tokens) == (0.1, 0, None)


@pytest.mark.sqlite("it asks for the plan of a query")
def test_the_table_is_indexed_by_skill_by_job_and_by_session(store: Store) -> None:
    for column in ("skill_name", "job_id", "session_id"):
        (plan,) = store.query(
            f"explain query plan select * from skill_invocations where {column} = 'x'"
        )
        assert "USING INDEX" in plan[3]


def test_a_rebuild_leaves_what_was_recorded_alone(store: Store) -> None:
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


def test_many_writers_at_once_lose_nothing_and_record_nothing_twice(store: Store) -> None:
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
