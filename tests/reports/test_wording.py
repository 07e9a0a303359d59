"""What was said beside the steps: found by what calls ask, in the order of their times."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import MissingError
from relight.intake.recorder import record
from relight.reports.sessions import find_session
from relight.reports.steps import read_placed_steps
from relight.reports.transcript import read_wording, read_words
from relight.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "relight") as store:
        yield store


def ask(name: str, command: str) -> dict[str, Any]:
    function = {"name": "terminal", "arguments": json.dumps({"command": command})}
    return {"id": name, "type": "function", "function": function}


def tell_all(store: Store, session: str) -> list[tuple[str, str]]:
    """The session as a page shows it: who said what, in the order of its steps."""
    found = find_session(store, session)
    wording = read_wording(store, found)
    told = []
    page, rows = read_placed_steps(store, found)
    for step, row in zip(page.steps, rows, strict=True):
        place = (step.step, row)
        told += [(text.role, text.text) for text in wording.before.get(place, [])]
        if step.step == "turn":
            told += [("said", text.text) for text in wording.turns.get(row, [])]
        elif words := wording.calls.get(row):
            told += [("said", words.said.text)] if words.said else []
            asked = json.loads(words.arguments.text)["command"]
            told.append(("call", f"{asked} -> {words.result.text if words.result else None}"))
    return told + [(f"rest {text.role}", text.text) for text in wording.rest]


def write_session(store: Store) -> None:
    now = iter(range(1_794_700_800, 1_794_800_000))
    with record(store, "one", model="m", clock=lambda: float(next(now))) as rec:
        rec.message("user", "first")
        calls = [ask("a", "ls"), ask("b", "ls")]
        message = {"role": "assistant", "content": "looking", "tool_calls": calls}
        rec.turn(message=message, output_tokens=1)
        rec.tool_call("terminal", calls[0]["function"]["arguments"], "one", call_id="a")
        rec.tool_call("terminal", calls[1]["function"]["arguments"], "two", call_id="b")
        rec.turn(message={"role": "assistant", "content": "answer 1"}, output_tokens=1)
        rec.message("user", "second")
        rec.turn(message={"role": "assistant", "content": "answer 2"}, output_tokens=1)
        rec.message("user", "third")
        last = {"role": "assistant", "content": "again", "tool_calls": [ask("c", "pwd")]}
        rec.turn(message=last, output_tokens=1)


def test_words_stand_where_they_were_said(store: Store) -> None:
    write_session(store)
    assert tell_all(store, "relight:one") == [
        ("user", "first"),
        ("said", "looking"),
        ("call", "ls -> one"),
        ("call", "ls -> two"),
        ("said", "answer 1"),
        ("user", "second"),
        ("said", "answer 2"),
        ("user", "third"),
        ("said", "again"),
        ("call", "pwd -> None"),
    ]


def test_a_text_is_found_again_by_its_name(store: Store) -> None:
    write_session(store)
    found = find_session(store, "relight:one")
    texts = [text for some in read_wording(store, found).before.values() for text in some]
    calls = read_wording(store, found).calls.values()
    texts += [text for call in calls for text in (call.arguments, call.result) if text]
    assert len(texts) >= 5
    for text in texts:
        assert read_words(store, found, text.name) == text.text


@pytest.mark.parametrize("name", ["99", "x", "1.9.result", "1.0.nothing", "1.0", "-99", ""])
def test_a_name_that_is_none_is_missing(store: Store, name: str) -> None:
    write_session(store)
    with pytest.raises(MissingError):
        read_words(store, find_session(store, "relight:one"), name)


def test_prompts_answers_and_results_of_claude_code_are_joined(
    store: Store, tmp_path: Path
) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "terminal", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    lines = [
        build.claude_prompt("What is here?", 0),
        build.claude_answer("m1", {"type": "text", "text": "Let me see."}, call, at=1),
        build.claude_line("user", 2, message={"role": "user", "content": [result]}),
        build.claude_answer("m2", {"type": "text", "text": "One file."}, at=3),
    ]
    folder = tmp_path / "claude" / "projects" / "shop"
    folder.mkdir(parents=True)
    path = folder / f"{build.CLAUDE_SESSION}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    from relight.intake.importing import import_all

    import_all(store, sources=["claude-code"], folder=tmp_path / "claude", workers=1)
    assert tell_all(store, f"claude-code:{build.CLAUDE_SESSION}") == [
        ("user", "What is here?"),
        ("said", "Let me see."),
        ("call", "ls -> a.txt"),
        ("said", "One file."),
    ]
