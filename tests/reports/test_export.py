"""Exports: what leaves a store, and what comes back from it in another one."""

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build
import build_agents as agents
import build_forks
from relight.chat.validity import validate_messages
from relight.errors import RelightError
from relight.intake.importing import Imported, import_all
from relight.intake.recorder import record
from relight.intake.retention import prune
from relight.reports.export import CUTS, write_session_line
from relight.reports.export_files import TABLES, export_sessions
from relight.reports.sessions import find_session
from relight.reports.totals import report
from relight.reports.trace import read_trace
from relight.reports.transcript import read_transcript
from relight.store import Store, open_store
from relight.store.queries.filters import Filter

SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
TURN = """
    select session.source || ':' || session.key, at, day, turn.model, provider, role, calls,
        input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
        reasoning_tokens, usage_status, cost_nanos, cost_status, cost_source, duration_ms,
        first_token_ms, failure, failure_text, turn.branch
    from turn join session on session.id = session_id
"""
CALL = """
    select session.source || ':' || session.key, at, day, finished_at, tool, fingerprint,
        arguments_bytes, result_bytes, exit_code, duration_ms, label, kind, reason, evidence, tests,
        work
    from tool_call join session on session.id = session_id
"""
SESSION = """
    select source || ':' || key, (select source || ':' || key from session as above
        where above.id = session.parent_id), parent_kind, project, branch, title, model, version,
        started_at, ended_at, ending, prompted_at, answer, coalesce(outcome, 'unknown'), points_to
    from session
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all of them were read, its export, and a store that read the export."""
    home = tmp_path_factory.mktemp("sample")
    agents.write_all(home)
    with build.open_home(home) as store, build.open_home(home / "other") as other:
        build.import_home(store, home)
        done = export_sessions(store, home / "all.jsonl")
        assert (done.sessions, done.cut_sessions, done.silent_sessions) == (9, 0, 0)
        found = take(other, home / "all.jsonl")
        # a sub-agent is part of its parent's session
        assert (found.sessions_new, found.unreadable) == (8, 0)
    return home


@pytest.fixture
def store(sample: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copytree(sample / "relight", tmp_path / "relight")
    with open_store(tmp_path / "relight") as store:
        yield store


@pytest.fixture
def returned(sample: Path) -> Iterator[Store]:
    with open_store(sample / "other" / "relight") as store:
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with build.open_home(tmp_path / "other") as store:
        yield store


def take(store: Store, path: Path) -> Imported:
    return import_all(store, sources=["chat"], folder=path).sources[0]


def read_rows(store: Store, statement: str, *, prefix: str = "") -> list[tuple[Any, ...]]:
    """Rows in an order of their own, without the `chat:` before imported names."""
    rows = store.query(statement)
    names = [[one.removeprefix(prefix) if isinstance(one, str) else one for one in r] for r in rows]
    return sorted(map(tuple, names), key=repr)


@pytest.mark.parametrize("table", [TURN, CALL, SESSION], ids=["turns", "calls", "sessions"])
def test_sessions_of_all_agents_are_the_same_in_another_store(
    store: Store, returned: Store, table: str
) -> None:
    assert read_rows(returned, table, prefix="chat:") == read_rows(store, table)


def test_figures_texts_and_steps_come_back(store: Store, returned: Store) -> None:
    before, after = report(store, ("session",)), report(returned, ("session",))
    assert after.total == before.total
    for row in before.rows:
        old = find_session(store, str(row.session))
        new = find_session(returned, f"chat:{row.session}")
        kept = [(one.kind, one.text, one.tool, one.result) for one in read_trace(store, old).steps]
        steps = read_trace(returned, new).steps
        assert [(one.kind, one.text, one.tool, one.result) for one in steps] == kept
        texts = [read_texts(store, old), read_texts(returned, new)]
        assert texts[0] == texts[1], row.session
        assert validate_messages(read_transcript(returned, new).messages) == []


def read_texts(store: Store, session: int) -> list[tuple[str, str | None, list[str]]]:
    """The messages of a session, without the names of calls."""
    return [
        (
            one["role"],
            one.get("content"),
            [a["function"]["name"] for a in one.get("tool_calls", [])],
        )
        for one in read_transcript(store, session).messages
    ]


def test_a_newer_export_adds_what_is_new_alone(tmp_path: Path, other: Store) -> None:
    lines = build.claude_session()
    path = build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        export_sessions(store, tmp_path / "old.jsonl")
        more = [build.claude_prompt("And now?", 60), build.claude_answer("m9", at=61)]
        path.write_bytes(build.as_lines([*lines, *more]))
        build.import_home(store, tmp_path)
        export_sessions(store, tmp_path / "new.jsonl")
        for name in ("old.jsonl", "old.jsonl", "new.jsonl"):
            take(other, tmp_path / name)
        assert read_rows(other, TURN, prefix="chat:") == read_rows(store, TURN)
        session = find_session(other, f"claude-code:{build.CLAUDE_SESSION}")
        prompts = [one.text for one in read_trace(other, session).steps if one.kind == "prompt"]
        assert len(prompts) == len(set(prompts)) == 2


def test_the_store_itself_does_not_count_its_export(store: Store, tmp_path: Path) -> None:
    before = report(store, ("source",)).total
    export_sessions(store, tmp_path / "all.jsonl")
    found = take(store, tmp_path / "all.jsonl")
    assert (found.sessions_new, found.unreadable) == (0, 0)
    assert report(store, ("source",)).total == before
    assert (
        store.query(
            "select 1 from tape_part join origin on origin.id = origin_id where source = 'chat'"
        )
        == []
    )


def test_what_a_fork_copied_is_exported_once(tmp_path: Path, other: Store) -> None:
    for path, lines in build_forks.family().items():
        build_forks.append(tmp_path, path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        export_sessions(store, tmp_path / "forks.jsonl")
        take(other, tmp_path / "forks.jsonl")
        assert read_rows(other, TURN, prefix="chat:") == read_rows(store, TURN)
        assert report(other, ("day",)).total == report(store, ("day",)).total


def test_a_session_without_a_tape_keeps_its_figures(
    store: Store, other: Store, tmp_path: Path
) -> None:
    prune(store, now=build.START * 2, tape_days=1, index_days=None, dry_run=False)
    done = export_sessions(store, tmp_path / "all.jsonl")
    assert done.silent_sessions == done.sessions == 9
    take(other, tmp_path / "all.jsonl")
    assert read_rows(other, TURN, prefix="chat:") == read_rows(store, TURN)


def test_a_session_that_was_not_cut_off_has_no_call_more(tmp_path: Path, other: Store) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, session_id="live", model="gpt-5.1") as rec:
            rec.turn(input_tokens=10, output_tokens=5, message="Hello.")
            rec.message("user", "And now?")
        export_sessions(store, tmp_path / "live.jsonl")
        take(other, tmp_path / "live.jsonl")
        assert read_rows(other, TURN, prefix="chat:") == read_rows(store, TURN)


def test_filters_choose_whole_sessions_with_their_sub_agents(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    done = export_sessions(store, path, Filter(source="claude-code"))
    names = [json.loads(line)["session_id"] for line in path.read_bytes().splitlines()]
    assert done.sessions == len(names) == 2
    assert names[1].startswith(names[0])
    assert export_sessions(store, tmp_path / "none", Filter(model="no such")).sessions == 0
    assert (tmp_path / "none").read_bytes() == b""


def test_secrets_and_hostile_texts_do_no_harm(tmp_path: Path, other: Store) -> None:
    hostile = '=cmd|"/c calc"!A1 \x1b[2J\u202e\u2028 ' + SECRET
    lines = [build.claude_prompt(hostile, 0), build.claude_answer("m1", at=1)]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        # as if an older version had let it through
        with store.transaction() as database:
            database.execute("update session set title = ?", (hostile,))
        export_sessions(store, tmp_path / "all.jsonl")
        export_sessions(store, tmp_path / "tables", format="csv")
    line = (tmp_path / "all.jsonl").read_text(encoding="utf-8")
    assert SECRET not in line
    assert line.count("\n") == 1
    assert take(other, tmp_path / "all.jsonl").unreadable == 0
    table = (tmp_path / "tables" / "sessions.csv").read_text(encoding="utf-8")
    assert SECRET not in table
    assert "\x1b" not in table
    (row,) = csv.DictReader(table.splitlines())
    assert row["title"].startswith("'=cmd|")


def test_tables_have_a_row_for_each_session_turn_and_call(store: Store, tmp_path: Path) -> None:
    done = export_sessions(store, tmp_path / "tables", format="csv")
    rows = {}
    for table in TABLES:
        with (tmp_path / "tables" / f"{table}.csv").open(newline="", encoding="utf-8") as file:
            rows[table] = list(csv.DictReader(file))
    assert [len(rows[table]) for table in TABLES] == [done.sessions, done.turns, done.tool_calls]
    total = report(store, ("source",)).total
    assert sum(int(row["output_tokens"] or 0) for row in rows["sessions"]) == total.output_tokens
    assert sum(int(row["calls"]) for row in rows["turns"]) == total.turns
    known = {row["session_id"] for row in rows["sessions"]}
    assert {row["session_id"] for row in rows["turns"] + rows["calls"]} <= known
    made = {row["turn_id"] for row in rows["turns"]}
    assert {row["turn_id"] for row in rows["calls"] if row["turn_id"]} <= made
    assert all(re.fullmatch("t[0-9a-f]{16}", row["turn_id"]) for row in rows["turns"])
    one = tmp_path / "turns.csv"
    export_sessions(store, one, format="csv", table="turns")
    assert one.read_bytes() == (tmp_path / "tables" / "turns.csv").read_bytes()


def test_a_file_is_replaced_only_by_a_whole_one_and_if_wanted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("mine")
    with pytest.raises(RelightError, match="already exists"):
        export_sessions(store, path)
    monkeypatch.setattr("relight.reports.export_files.write_session_line", raise_full)
    with pytest.raises(OSError, match="disk"):
        export_sessions(store, path, force=True)
    assert path.read_text() == "mine"
    assert not list(tmp_path.glob(".all.jsonl*"))
    monkeypatch.undo()
    export_sessions(store, path, force=True)
    assert path.read_bytes().startswith(b"{")
    assert path.stat().st_mode & 0o777 == 0o600


def raise_full(*_: object) -> None:
    raise OSError(28, "No space left on the disk")


def test_a_file_that_was_made_meanwhile_stays(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "all.jsonl"

    def make_it(given: Store, session_id: int) -> Any:
        path.write_text("another's")
        return write_session_line(given, session_id)

    monkeypatch.setattr("relight.reports.export_files.write_session_line", make_it)
    with pytest.raises(RelightError, match="meanwhile"):
        export_sessions(store, path)
    assert path.read_text() == "another's"


def test_a_line_that_no_import_would_read_is_cut(tmp_path: Path) -> None:
    answer = {"type": "text", "text": "x" * (CUTS[-2] * 5)}
    build.write_claude(tmp_path, [build.claude_prompt("Hi"), build.claude_answer("m1", answer)])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (session_id,) = store.query("select id from session")[0]
        made = write_session_line(store, session_id, limit=4000)
    assert (made.is_cut, len(made.line) < 4000) == (True, True)
    (said,) = [one for one in json.loads(made.line)["messages"] if one["role"] == "assistant"]
    assert said["content"] == "x" * CUTS[-2] + "[4,000 characters left out]"


def test_an_export_with_a_damaged_turn_is_left_out_whole(
    store: Store, other: Store, tmp_path: Path
) -> None:
    path = tmp_path / "all.jsonl"
    export_sessions(store, path, Filter(source="pi"))
    first, *others = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(first)
    record["turns"][-1]["output_tokens"] = -1
    path.write_text("\n".join([json.dumps(record), *others, ""]), encoding="utf-8")
    assert take(other, path).unreadable == 1
    keys = {key for (key,) in other.query("select key from session")}
    assert record["session_id"] not in keys
    assert len(keys) == len(others)


def test_an_export_of_a_newer_shape_is_unreadable_and_says_so(
    store: Store, other: Store, tmp_path: Path
) -> None:
    path = tmp_path / "all.jsonl"
    export_sessions(store, path, Filter(source="pi"))
    path.write_bytes(path.read_bytes().replace(b'"relight_export":1', b'"relight_export":2'))
    assert take(other, path).unreadable == 1
    ((reason,),) = other.query("select reason from unreadable")
    assert "update Relight" in reason
