"""Sessions as chat messages, from the tape, and their scores in the index."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
import build_warm
from relight.chat.validity import validate_messages
from relight.cli.demo import write_demo
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.judging.features import HINTS, read_pattern, says
from relight.judging.scoring import score_session
from relight.reports.labels import label_session, read_fitted_weights
from relight.reports.transcript import read_transcript
from relight.store import Store

NOW = datetime(2026, 11, 15, 18, tzinfo=UTC)


def read(store: Store, key: str) -> Any:
    (row,) = store.query("select id from session where key = ?", (key,))
    return read_transcript(store, row[0])


def roles(talk: Any) -> list[str]:
    return [message["role"] for message in talk.messages]


def test_claude_codes_lines_become_messages_with_what_is_known_of_calls(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        talk = read(store, build.CLAUDE_SESSION)
    assert roles(talk) == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert talk.messages[1]["tool_calls"][0]["function"]["name"] == "Bash"
    assert talk.messages[2] == {
        "role": "tool",
        "tool_call_id": "toolu_1",
        "content": "3 passed in 0.10s",
    }
    assert talk.calls == [
        {"call_id": "toolu_1", "is_error": False},
        {"call_id": "toolu_2", "is_error": True},
    ]


def test_blocks_of_one_answer_are_one_message_and_a_sub_agent_is_apart(tmp_path: Path) -> None:
    lines = [
        build.claude_prompt("Go"),
        build.claude_answer("m1", {"type": "text", "text": "Two at once."}, at=1, stop=None),
        build.claude_answer("m1", build.tool_use("t1", command="ls"), at=2, stop=None),
        build.claude_answer("m1", build.tool_use("t2", command="pwd"), at=3),
        build.claude_prompt("Help them", at=3.5, isSidechain=True, uuid="side-1", parentUuid=None),
        build.claude_result("t2", "/", at=4),
        build.claude_result("t1", "a.txt", at=5),
        build.claude_answer("m2", at=6),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        talk = read(store, build.CLAUDE_SESSION)
        side = read(store, f"{build.CLAUDE_SESSION}/sidechain-side-1")
    assert roles(talk) == ["user", "assistant", "tool", "tool", "assistant"]
    assert talk.messages[1]["content"] == "Two at once."
    assert [call["id"] for call in talk.messages[1]["tool_calls"]] == ["t1", "t2"]
    assert validate_messages(talk.messages) == []
    assert side.messages == [{"role": "user", "content": "Help them"}]


def test_codex_calls_and_their_exit_codes_become_messages(tmp_path: Path) -> None:
    def item(at: float, **payload: Any) -> dict[str, Any]:
        return build.codex_line("response_item", at, **payload)

    text = {"type": "input_text", "text": "List the files"}
    done = {"type": "CommandExecution", "id": "c1", "exit_code": 2}
    lines = [
        build.codex_meta(),
        item(1, type="message", role="user", content=[{"type": "x", "text": "<harness>"}]),
        item(1, type="message", role="user", content=[text]),
        item(2, type="function_call", name="exec_command", arguments="{}", call_id="c1"),
        build.codex_line("event_msg", 3, type="item_completed", item=done),
        item(4, type="function_call_output", call_id="c1", output="no such file"),
        item(5, type="message", role="assistant", content=[{"type": "y", "text": "None."}]),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        talk = read(store, build.CODEX_SESSION)
    assert roles(talk) == ["user", "assistant", "tool", "assistant"]
    assert talk.messages[0]["content"] == "List the files"
    assert talk.calls == [{"call_id": "c1", "exit_code": 2}]


def test_hermes_rows_that_were_rewound_are_gone_and_compacted_ones_stay(tmp_path: Path) -> None:
    database = build.open_hermes(tmp_path)
    name = build.hermes_session(database)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert roles(read(store, name)) == ["user", "assistant", "tool", "assistant"]
        database.execute("update messages set active = 0, compacted = 1 where role <> 'assistant'")
        database.execute("update messages set active = 0 where content = 'There is a.txt'")
        new = {"role": "user", "content": "And now?", "timestamp": build.START / 1000 + 9}
        build.insert(database, "messages", session_id=name, **new)
        build.import_home(store, tmp_path)
        talk = read(store, name)
    assert roles(talk) == ["user", "assistant", "tool", "user"]
    assert talk.messages[-1]["content"] == "And now?"


def test_a_chat_line_that_had_to_be_mended_is_found_again_as_messages(tmp_path: Path) -> None:
    line = rb'[{"role": "user", "content": "half \ud83d a smile"}]'
    path = tmp_path / "chats.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\n")
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        ((key,),) = store.query("select key from session")
        talk = read(store, key)
    assert talk.messages == [{"role": "user", "content": "half \ufffd a smile"}]


def test_every_recorded_session_has_the_kind_and_score_of_its_messages(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        import_all(store, environment=write_demo(tmp_path / "demo", now=NOW), workers=1)
        rows = store.query(
            "select id, source, task_type, category, score from session where score is not null"
        )
        assert {source for _, source, *_ in rows} >= {"claude-code", "codex", "hermes"}
        before = build.dump(store)["session"]
        for session_id, _, task_type, category, score in rows:
            talk = read_transcript(store, session_id)
            told = score_session(talk.messages, calls=talk.calls)
            assert (told.task_type, told.category) == (task_type, category)
            assert told.score == pytest.approx(score)
        rebuild(store, workers=1)
        assert build.dump(store)["session"] == before


def test_fifty_labels_teach_the_store_weights_of_its_own(tmp_path: Path) -> None:
    lines = []
    for number in range(60):
        is_good = number % 2 == 0
        messages = build_warm.session(f"Task {number}", ("make", "cargo"))
        if not is_good:  # here only long sessions fail
            messages[2:2] = build_warm.session("More", ("sed", "awk"))[2:-1]
        outcome = "success" if is_good else "failure"
        lines.append({"id": f"s{number}", "messages": messages, "outcome": outcome})
    lines[-1].pop("outcome")
    (tmp_path / "chats.jsonl").write_bytes(build.as_lines(lines[:49]))
    (tmp_path / "more.jsonl").write_bytes(build.as_lines(lines[49:]))
    with build.open_home(tmp_path) as store:
        chat = {"sources": ["chat"]}
        build.import_home(store, tmp_path, folder=tmp_path / "chats.jsonl", **chat)
        assert read_fitted_weights(store) is None
        build.import_home(store, tmp_path, folder=tmp_path / "more.jsonl", **chat)
        rows = store.query("select id, key, score from session")
        (last,) = [found for found, key, _ in rows if key == "s59"]
        label_session(store, last, "failure")
        weights = read_fitted_weights(store)
        scores = {key: score for _, key, score in store.query("select id, key, score from session")}
    if weights is not None:  # kept only if it ranks better than the weights shipped
        assert weights.examples >= 50
    assert scores["s0"] > scores["s1"]


@pytest.mark.parametrize("name", HINTS)
def test_no_pattern_matches_without_one_of_its_hints(name: str) -> None:
    @given(st.from_regex(read_pattern(name)))
    def check(text: str) -> None:
        text = text[:2000]
        if read_pattern(name).search(text) and text.isascii():
            assert says(name, text)

    check()


def test_a_score_is_in_the_json_of_a_session_and_not_in_its_text(tmp_path: Path) -> None:
    line = {"id": "plain", "messages": build_warm.session("Tidy up")}
    (tmp_path / "chats.jsonl").write_text(json.dumps(line) + "\n")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path, sources=["chat"], folder=tmp_path / "chats.jsonl")
    command = [
        sys.executable,
        "-m",
        "relight",
        "show",
        "plain",
        "--home",
        str(tmp_path / "relight"),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "score" not in shown
    asked = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    assert 0 < json.loads(asked)["score"] < 1
