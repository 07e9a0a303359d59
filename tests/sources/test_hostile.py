"""Records as no client should write them, and files as no one should treat them."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.importing import import_all
from relight.intake.retention import forget
from relight.reports.sessions import find_session, read_session
from relight.reports.totals import report
from relight.reports.transcript import read_transcript
from relight.sources.claude_code.reader import ClaudeCodeReader
from relight.sources.files import look_at, read_piece
from relight.store import Store
from relight.store.write.record import Recorder
from relight.store.write.seal import seal

DEEP = "[" * 3000


def chat(tmp_path: Path, *sessions: Any) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in sessions))
    return path


def import_chat(store: Store, path: Path) -> Any:
    return import_all(store, sources=["chat"], folder=path).sources[0]


def test_an_import_that_ends_between_two_pieces_of_a_file_is_gone_on_with(tmp_path: Path) -> None:
    origin = look_at(build.write_claude(tmp_path, build.claude_session()))
    assert origin is not None
    with build.open_home(tmp_path) as store:
        piece, has_more = read_piece("claude-code", origin, None, chunk_bytes=1 << 10)
        assert has_more
        key = store.redaction_key
        Recorder(store).record([seal(piece, ClaudeCodeReader.read, key=key, timezone="UTC")])
        build.import_home(store, tmp_path)
        assert report(store).total.turns == 3


@pytest.mark.parametrize(
    "record",
    [
        build.claude_answer("m9", usage=build.claude_usage(input_tokens=10**20), at=9),
        build.claude_answer("m9", usage=build.claude_usage(input_tokens=-100), at=9),
        build.claude_answer("m9", usage=build.claude_usage(output=1.5), at=9),  # type: ignore[arg-type]
        build.claude_answer("m9", at=9, sessionId=""),
        '{"type":"assistant","message":' + DEEP,
        build.claude_line("assistant", 9, message={"content": 7, "usage": []}),
    ],
    ids=["huge", "negative", "fraction", "no session", "deep", "wrong types"],
)
def test_a_record_that_cannot_be_is_reported_and_costs_no_other(
    tmp_path: Path, record: Any
) -> None:
    build.write_claude(tmp_path, [*build.claude_session(), record])
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].unreadable == 1
        assert report(store).total.turns == 3


def test_deep_text_in_a_result_or_in_arguments_is_only_text(tmp_path: Path) -> None:
    lines = [
        build.claude_answer("m1", build.tool_use("t1", command=DEEP), at=1),
        build.claude_result("t1", DEEP, at=2),
    ]
    build.write_claude(tmp_path, lines)
    messages = [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "x", "arguments": DEEP}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": DEEP},
    ]
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        import_chat(store, chat(tmp_path, {"id": "a", "messages": messages}))
        assert report(store).total.tool_calls == 2


def test_a_moment_or_a_code_that_cannot_be_is_unknown(tmp_path: Path) -> None:
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "terminal"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    session = {"id": "a", "messages": messages, "started_at": 1e20}
    session["calls"] = [{"call_id": "c", "exit_code": 99999999999999}]
    with build.open_home(tmp_path) as store:
        found = import_chat(store, chat(tmp_path, session))
        assert found.sessions_new == 1
        assert store.query("select exit_code from tool_call") == [(None,)]


def test_hermes_calls_that_are_none_cost_only_their_row(tmp_path: Path) -> None:
    database = build.open_hermes(tmp_path)
    name = build.hermes_session(database)
    build.insert(
        database, "messages", session_id=name, role="assistant", tool_calls="[null]",
        timestamp=build.START / 1000 + 9,
    )  # fmt: skip
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[2].unreadable == 1
        assert report(store).total.tool_calls == 1


def import_hermes(store: Store, home: Path) -> Any:
    return build.import_home(store, home)[2]


@pytest.mark.parametrize(
    "figures",
    [
        {"input_tokens": -5},
        {"input_tokens": 2**60},
        {"input_tokens": 5, "api_call_count": 2**62},
    ],
    ids=["negative", "huge", "calls"],
)
def test_sums_that_cannot_be_cost_no_other_session(tmp_path: Path, figures: Any) -> None:
    database = build.open_hermes(tmp_path)
    begin = build.START / 1000 - 50
    build.insert(database, "sessions", id="odd", source="cli", model="gpt-5.1", started_at=begin)
    build.insert(database, "session_model_usage", session_id="odd", model="gpt-5.1", **figures)
    build.hermes_session(database)
    with build.open_home(tmp_path) as store:
        found = import_hermes(store, tmp_path)
        assert (found.sessions_new, found.unreadable) == (2, 1)
        assert report(store).total.turns == 2


@pytest.mark.parametrize(
    "told",
    [
        {"actual_cost_usd": 1e20},
        {"actual_cost_usd": -1.0},
        {"estimated_cost_usd": 1e12, "cost_status": "estimated"},
        {"estimated_cost_usd": float("inf"), "cost_status": "estimated"},
    ],
    ids=["huge", "negative", "huge estimate", "endless"],
)
@pytest.mark.parametrize("table", ["sessions", "session_model_usage"])
def test_a_cost_that_cannot_be_is_unknown(tmp_path: Path, told: Any, table: str) -> None:
    database = build.open_hermes(tmp_path)
    build.hermes_session(database)
    if table == "sessions":
        database.execute("delete from session_model_usage")
    changes = ", ".join(f"{column} = ?" for column in told)
    database.execute(f"update {table} set model = 'nobodys', {changes}", list(told.values()))
    with build.open_home(tmp_path) as store:
        assert import_hermes(store, tmp_path).sessions_new == 1
        total = report(store).total
        assert (total.turns, total.unpriced_turns) == (2, 2)


@pytest.mark.parametrize(
    "told",
    [
        {"usage": {"input_tokens": "many", "output_tokens": 2}},
        {"usage": {"input_tokens": -5, "output_tokens": 2}},
        {"usage": {"input_tokens": 10**30, "output_tokens": 2}},
        {"model": {"name": "gpt-5.1"}},
        {"provider": 7},
    ],
    ids=["text", "negative", "huge", "model", "provider"],
)
def test_an_adviser_that_cannot_be_costs_only_its_row(tmp_path: Path, told: Any) -> None:
    name = build.hermes_session(build.open_hermes(tmp_path))
    path = tmp_path / ".hermes" / "moa-traces" / "a.jsonl"
    path.parent.mkdir()
    row = {"session_id": name, "ts": build.stamp(1), "references": [{"model": "m", **told}]}
    path.write_bytes(build.as_lines([row]))
    with build.open_home(tmp_path) as store:
        assert import_hermes(store, tmp_path).unreadable == 1
        assert report(store).total.turns == 2


@pytest.mark.parametrize("field", ["model", "prompt", "state", "script"])
def test_a_job_that_cannot_be_costs_no_other(tmp_path: Path, field: str) -> None:
    build.hermes_session(build.open_hermes(tmp_path))
    path = tmp_path / ".hermes" / "cron" / "jobs.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"jobs": [{"id": "odd", field: {"a": 1}}, {"id": "good"}]}))
    with build.open_home(tmp_path) as store:
        assert import_hermes(store, tmp_path).unreadable == 1
        assert store.query("select key from job") == [("good",)]


@pytest.mark.parametrize(
    "start",
    [
        "2026-99-15 00:00:00,000 INFO [NAME] a.b: API call #1: model=m x latency=1.0s",
        "0000-01-15 00:00:00,000 INFO [NAME] a.b: API call #1: model=m x latency=1.0s",
        f"2026-11-15 00:00:00,000 INFO [NAME] a.b: API call #1: model=m x latency={'9' * 40}s",
        "1950-01-15 00:00:00,000 INFO [NAME] a.b: API call failed (attempt 1/3) error_type=X",
    ],
    ids=["month", "year", "latency", "before 1970"],
)
def test_a_log_line_that_cannot_be_costs_no_other(tmp_path: Path, start: str) -> None:
    name = build.hermes_session(build.open_hermes(tmp_path))
    path = tmp_path / ".hermes" / "logs" / "agent.log"
    path.parent.mkdir()
    end = "2026-11-15 00:00:01,000 INFO [NAME] a.b: API call #2: model=m x latency=2.0s"
    path.write_text(f"{start}\n{end}\n".replace("NAME", name))
    with build.open_home(tmp_path) as store:
        import_hermes(store, tmp_path)
        assert store.query("select latency_ms from call_latency") == [(2000,)]


def test_a_request_dump_that_cannot_be_costs_no_session(tmp_path: Path) -> None:
    name = build.hermes_session(build.open_hermes(tmp_path))
    path = tmp_path / ".hermes" / "sessions" / "request_dump_x.json"
    path.parent.mkdir()
    dump = {"session_id": name, "timestamp": "2026-11-15T00:00:00", "error": {"message": "no"}}
    path.write_text(json.dumps(dump | {"request": {"body": {"model": {"a": 1}}}}))
    with build.open_home(tmp_path) as store:
        assert import_hermes(store, tmp_path).unreadable == 1
        assert report(store).total.turns == 2


def test_arguments_that_are_no_text_are_read_as_their_json(tmp_path: Path) -> None:
    database = build.open_hermes(tmp_path)
    name = build.hermes_session(database)
    call = {"id": "x", "function": {"name": "terminal", "arguments": {"command": "ls"}}}
    build.insert(
        database, "messages", session_id=name, role="assistant", tool_calls=json.dumps([call]),
        timestamp=build.START / 1000 + 9,
    )  # fmt: skip
    with build.open_home(tmp_path) as store:
        assert import_hermes(store, tmp_path).unreadable == 0
        assert store.query("select arguments_bytes from tool_call order by at") == [(17,), (16,)]


def test_a_duration_that_cannot_be_costs_only_its_line(tmp_path: Path) -> None:
    call = {"call_id": "c1", "name": "shell", "arguments": "{}"}
    ran = {"type": "CommandExecution", "id": "c1", "duration": {"secs": 10**18, "nanos": 0}}
    records = [
        build.codex_meta(),
        build.codex_line("response_item", 2, type="function_call", **call),
        build.codex_line("event_msg", 3, type="item_completed", item=ran),
        build.codex_line("response_item", 4, type="function_call_output", call_id="c1", output=""),
        build.codex_count(9, build.codex_usage(1000)),
    ]
    build.write_codex(tmp_path, records)
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[1].unreadable == 1
        assert report(store).total.tool_calls == 1


def test_half_a_character_does_not_cost_its_line(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    path.write_bytes(path.read_bytes().replace(b"3 passed", b"\\ud83d 3 passed"))
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].unreadable == 0
        assert report(store).total.tool_calls == 2


def test_half_a_character_does_not_cost_a_call_of_hermes(tmp_path: Path) -> None:
    database = build.open_hermes(tmp_path)
    name = build.hermes_session(database)
    database.execute("update messages set tool_calls = replace(tool_calls, 'ls', 'ls \\ud83d')")
    with build.open_home(tmp_path) as store:
        assert import_hermes(store, tmp_path).unreadable == 0
        assert report(store).total.tool_calls == 1
        messages = read_transcript(store, find_session(store, name)).messages
        assert [one for one in messages if one.get("tool_calls")]


def test_a_result_that_comes_before_its_call_is_joined_to_it(tmp_path: Path) -> None:
    lines = [
        build.claude_result("t1", "no such file", at=1, is_error=True),
        build.claude_answer("m1", build.tool_use("t1", "Read", file_path="/x"), at=2),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert report(store).total.tool_failures == 1


def asked(number: int, result: str) -> list[dict[str, Any]]:
    function = {"name": "terminal", "arguments": json.dumps({"command": "pytest -q"})}
    return [
        {"role": "assistant", "tool_calls": [{"id": "call_0", "function": function}]},
        {"role": "tool", "tool_call_id": "call_0", "content": result},
    ]


def test_calls_that_a_server_numbers_again_are_separate_calls(tmp_path: Path) -> None:
    messages = [message for n in range(5) for message in asked(n, f"bash: x{n}: command not found")]
    with build.open_home(tmp_path) as store:
        import_chat(store, chat(tmp_path, {"id": "a", "messages": messages}))
        total = report(store).total
        assert (total.tool_calls, total.tool_failures) == (5, 5)


@pytest.mark.parametrize("number", range(8))
def test_calls_of_one_moment_keep_their_order(tmp_path: Path, number: int) -> None:
    ends = [
        {"role": "user", "content": "go"},
        *asked(1, "1 failed in 1s"),
        *asked(2, "1 passed in 1s"),
    ]
    done = {"role": "assistant", "content": "Done."}
    with build.open_home(tmp_path) as store:
        import_chat(store, chat(tmp_path, {"id": f"s{number}", "messages": [*ends, done]}))
        found = read_session(store, find_session(store, f"s{number}"))
        assert found.outcome == "success"


def test_tests_that_passed_before_the_last_word_or_change_prove_nothing(tmp_path: Path) -> None:
    passed, done = asked(1, "1 passed in 1s"), {"role": "assistant", "content": "Done."}
    person = {"role": "user", "content": "it is still broken", "timestamp": 1794700900}
    function = {"name": "write_file", "arguments": '{"path": "a.py", "content": ""}'}
    change = [
        {"role": "assistant", "tool_calls": [{"id": "w", "function": function}]},
        {"role": "tool", "tool_call_id": "w", "content": "ok"},
    ]
    begin = {"role": "user", "content": "go", "timestamp": 1794700800}
    sessions = [
        {"id": "told", "messages": [begin, *passed, person, done]},
        {"id": "changed", "messages": [begin, *passed, *change, done]},
    ]
    with build.open_home(tmp_path) as store:
        import_chat(store, chat(tmp_path, *sessions))
        for name in ("told", "changed"):
            assert read_session(store, find_session(store, name)).outcome == "unknown"


@pytest.mark.skipif(sys.platform != "linux", reason="names are text there")
def test_a_file_whose_name_is_no_text_is_reported_and_costs_no_other(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    (path.parent / os.fsdecode(b"caf\xe9.jsonl")).write_bytes(path.read_bytes())
    with build.open_home(tmp_path) as store:
        found = build.import_home(store, tmp_path)[0]
        assert (found.sessions_new, found.unreadable) == (1, 1)


def test_a_file_written_again_that_begins_alike_is_read_again(tmp_path: Path) -> None:
    system = {"role": "system", "content": "You help. " * 300}

    def session(name: str) -> dict[str, Any]:
        return {"messages": [system, {"role": "user", "content": name}], "id": name}

    with build.open_home(tmp_path) as store:
        path = chat(tmp_path, *map(session, ["a1", "a2", "a3"]))
        import_chat(store, path)
        chat(tmp_path, *map(session, ["b1", "b2", "b3", "b4", "b5"]))
        assert import_chat(store, path).sessions_new == 5


def test_a_last_line_without_its_end_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = chat(tmp_path, {"id": "a", "messages": [{"role": "user", "content": "hi"}]})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().rstrip(b"\n"))
    with build.open_home(tmp_path) as store:
        assert import_chat(store, path).sessions_new == 1
        with path.open("ab") as file:
            file.write(b'\n{"id": "b", "messages": []}')
        assert import_chat(store, path).sessions_new == 1
        assert store.query("select count(*) from unreadable") == [(0,)]


def test_what_a_reader_remembered_of_a_forgotten_session_goes_with_it(tmp_path: Path) -> None:
    open_call = build.claude_answer("m1", build.tool_use("t1", command="echo zebra"), at=1)
    path = build.write_claude(tmp_path, [build.claude_prompt("go"), open_call])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        forget(store, find_session(store, "1111"))
        assert b"zebra" not in store.path.read_bytes()
        with path.open("ab") as file:
            file.write(build.as_lines([open_call | {"uuid": "later"}]))
        build.import_home(store, tmp_path)
        store.run("pragma wal_checkpoint(truncate)")
        assert b"zebra" not in store.path.read_bytes()


def test_only_its_owner_may_read_the_store_and_its_copies(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        store.backup(tmp_path / "copy.db")
        for path in (store.path, tmp_path / "copy.db"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_can_be_read_again_is_no_longer_reported(tmp_path: Path) -> None:
    folder = tmp_path / ".hermes"
    folder.mkdir()
    (folder / "state.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[2].unreadable == 1
        (folder / "state.db").unlink()
        build.hermes_session(build.open_hermes(tmp_path))
        build.import_home(store, tmp_path)
        assert store.query("select * from unreadable") == []
