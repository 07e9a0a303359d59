"""Failed calls by kind, tool, place in the session, length of the session and kind of work."""

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import RelightError
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.intake.retention import forget
from relight.reports.failures import read_failures
from relight.reports.filters import read_filter
from relight.reports.sessions import find_session
from relight.store import Store
from relight.store.queries.failure_sums import POSITIONED
from relight.store.queries.failures import FAILURE_KEYS, FailureGroup, read_failure_groups
from relight.store.queries.filters import Filter
from relight.store.queries.tool_sums import spread_calls

MISSING = "Exit code 127\nbash: line 1: nope: command not found"


def write_session(home: Path, name: str, calls: str, *, start: int = 0) -> None:
    """A session with one call of Bash for each letter: F fails, any other works."""
    lines = [build.claude_prompt("Go", at=start, sessionId=name)]
    for number, letter in enumerate(calls):
        key, at = f"{name}-{number}", start + number * 2 + 1
        call = build.tool_use(key, command=f"nope {number}" if letter == "F" else "date")
        lines.append(build.claude_answer(f"m{key}", call, at=at, sessionId=name))
        text, is_error = (MISSING, True) if letter == "F" else ("Mon", False)
        result = build.claude_result(key, text, at=at + 1, is_error=is_error)
        lines.append(result | {"sessionId": name})
    build.write_claude(home, [one | {"cwd": f"/src/{name}"} for one in lines], name=name)


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    """A short session that fails at its start, and a longer one that fails late."""
    write_session(tmp_path, "short", "F.")
    write_session(tmp_path, "long", "." * 11 + "FF" + "." * 20, start=86_400)
    build.import_home(store, tmp_path)
    return store


def group(store: Store, *by: str, **asked: Any) -> list[FailureGroup]:
    return read_failures(store, read_filter(store, **{"since": "all", **asked}), by).failures


def test_failures_are_counted_by_their_place_in_the_session(store: Store) -> None:
    found = [(one.position, one.count, one.tool_calls) for one in group(store, "position")]
    assert found == [("1-10", 1, 12), ("11-30", 2, 20)]


def test_failures_are_counted_by_the_length_of_the_session(store: Store) -> None:
    found = [(one.length, one.count, one.tool_calls) for one in group(store, "length")]
    assert found == [("1-10", 1, 2), ("31-100", 2, 33)]


def test_failures_are_counted_by_kind_of_work_and_by_place_in_it(store: Store) -> None:
    ((category, count, sessions),) = [
        (one.category, one.count, one.sessions) for one in group(store, "category")
    ]
    assert (count, sessions) == (3, 2)
    both = group(store, "category", "position")
    assert [(one.category, one.position, one.count) for one in both] == [
        (category, "1-10", 1), (category, "11-30", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("key", FAILURE_KEYS)
def test_every_key_counts_the_same_failures_and_samples_their_sessions(
    store: Store, key: str
) -> None:
    rows = group(store, key)
    assert sum(one.count for one in rows) == 3
    assert all(one.count == one.tool_failures + one.failed_turns for one in rows)
    names = {name for one in rows for name in one.sessions_sample}
    assert names == {"claude-code:short", "claude-code:long"}
    part = group(store, key, project="short")
    assert sum(one.count for one in part) == 1
    assert sum(one.count for one in group(store, key, since="2026-11-16")) == 2


def test_a_place_is_that_in_the_whole_session_also_of_a_part_of_its_days(
    tmp_path: Path, store: Store
) -> None:
    # twelve calls before midnight, and one that fails after it
    write_session(tmp_path, "night", "." * 12 + "F", start=86_400 - 24)
    build.import_home(store, tmp_path)
    chosen = Filter(since="2026-11-16", project="night")
    (one,) = read_failure_groups(store, chosen, ("position",))
    assert (one.position, one.count) == ("11-30", 1)


def test_a_failed_model_call_is_at_the_place_of_the_call_it_did_not_make(
    tmp_path: Path, store: Store
) -> None:
    failed = build.claude_answer("bad", at=900, sessionId="short") | {"isApiErrorMessage": True}
    failed["message"] |= {
        "model": "<synthetic>",
        "content": [{"type": "text", "text": "API Error: 529 overloaded_error"}],
    }
    path = build.write_claude(tmp_path, [], name="short")
    write_session(tmp_path, "short", "." * 10)
    path.write_bytes(path.read_bytes() + build.as_lines([failed | {"cwd": "/src/short"}]))
    with build.open_home(tmp_path / "again") as again:
        build.import_home(again, tmp_path)
        found = [one for one in group(again, "position", project="short") if one.failed_turns]
    assert [(one.position, one.failed_turns, one.tool_failures) for one in found] == [
        ("11-30", 1, 0)
    ]


def test_by_kind_there_is_an_example_and_no_number_of_calls(store: Store) -> None:
    (one,) = group(store, "kind")
    assert (one.kind, one.count, one.tool_calls) == ("command_not_found", 3, None)
    assert "nope" in (one.example or "")
    (other,) = group(store, "tool")
    assert (other.tool, other.tool_calls, other.example) == ("Bash", 35, None)


def test_an_unknown_key_is_refused_with_those_there_are(store: Store) -> None:
    with pytest.raises(RelightError, match="cannot group failures by 'colour'") as caught:
        group(store, "colour")
    assert "kind, tool, position, length, category" in (caught.value.hint or "")


def test_what_a_failed_session_burnt_is_the_cost_of_its_spirals(
    tmp_path: Path, store: Store
) -> None:
    lines = [build.claude_prompt("Go", sessionId="loop")]
    for number in range(4):
        call = build.tool_use(f"t{number}", command="nope")
        lines.append(build.claude_answer(f"l{number}", call, at=number * 2 + 1, sessionId="loop"))
        result = build.claude_result(f"t{number}", MISSING, at=number * 2 + 2, is_error=True)
        lines.append(result | {"sessionId": "loop"})
    lines.append(build.claude_prompt("And now?", at=99, sessionId="loop"))
    build.write_claude(tmp_path, lines, name="loop")
    build.import_home(store, tmp_path)
    found = read_failures(store, Filter())
    runs = {one.session_id: one for one in found.runs}
    (spiral,) = [one for one in found.spirals if one.session_id == "claude-code:loop"]
    loop = runs["claude-code:loop"]
    assert loop.burnt_usd == pytest.approx(spiral.cost_usd)
    assert loop.cost_usd is not None
    assert 0 < (loop.burnt_usd or 0) <= loop.cost_usd


def check_positions(store: Store) -> int:
    """Compare the sums by position with the calls themselves; return the number of rows."""
    keys = "session_id, day, position, root_id, source, project, machine_id"
    single = store.query(
        f"select {keys}, sum(tool_calls), sum(tool_failures), sum(failed_turns),"
        " max(case when tool_failures + failed_turns > 0 then at end)"
        f" from {POSITIONED.format(test='session_id is not null')} group by {keys} order by 1, 2, 3"
    )
    summed = store.query(
        f"select {keys}, tool_calls, tool_failures, failed_turns, failed_at"
        " from position_day order by 1, 2, 3"
    )
    assert [tuple(row) for row in summed] == [tuple(row) for row in single]
    return len(summed)


def test_sums_by_position_are_those_of_single_calls(tmp_path: Path, store: Store) -> None:
    write_session(tmp_path, "night", "F" * 12 + "F.F", start=86_400 - 24)
    build.import_home(store, tmp_path)
    assert check_positions(store) == 7
    rebuild(store)
    assert check_positions(store) == 7
    forget(store, find_session(store, "night"))
    assert check_positions(store) == 4


def test_sums_by_position_of_a_live_session_are_those_of_single_calls(store: Store) -> None:
    with record(store, "mine", model="gpt-5.1") as tracker:
        tracker.message("user", "Go")
        tracker.turn(input_tokens=10, output_tokens=5, message={"content": "Well."})
        for number in range(12):
            key = f"c{number}"
            asked = {"id": key, "function": {"name": "terminal", "arguments": "{}"}}
            answer = {"role": "assistant", "content": None, "tool_calls": [asked]}
            tracker.turn(input_tokens=10, output_tokens=5, message=answer)
            check_positions(store)
            tracker.tool_call("terminal", {}, "", call_id=key, exit_code=number % 2)
            check_positions(store)
        tracker.turn(failure=TimeoutError("it took too long"))
        rows = store.query(
            "select position, tool_calls, tool_failures, failed_turns from position_day"
            " where source = 'relight' order by 1"
        )
        assert [tuple(row) for row in rows] == [(1, 10, 5, 0), (11, 2, 1, 1)]
        check_positions(store)
    check_positions(store)


@pytest.mark.sqlite("it counts the steps of SQLite's machine")
def test_calls_of_a_few_days_are_spread_without_reading_those_of_all_days(
    tmp_path: Path, store: Store
) -> None:
    for number in range(60):
        write_session(
            tmp_path, f"{number:08}-0000-4000-8000-000000000000", ".F", start=86_400 * number
        )
    build.import_home(store, tmp_path)
    days = [day for (day,) in store.query("select distinct day from session_day order by day")]
    assert len(days) == 60
    steps = []
    with store.reading() as database:
        assert isinstance(database, sqlite3.Connection)
        for since in (days[0], days[-1]):
            count = itertools.count()

            def add(count: Iterator[int] = count) -> bool:
                return next(count) < 0

            database.set_progress_handler(add, 1)
            assert spread_calls(store, Filter(since=since)).failed
            database.set_progress_handler(None, 1)
            steps.append(next(count))
    assert steps[1] < steps[0] / 10
