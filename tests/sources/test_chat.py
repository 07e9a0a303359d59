import json
from pathlib import Path
from typing import Any

import build
from relight.intake.importing import import_all
from relight.reports.totals import report
from relight.store import Store

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "What is in the folder?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
    {"role": "assistant", "content": "a.txt"},
]
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 200},
}


def import_chat(store: Store, path: Path) -> Any:
    return import_all(store, sources=["chat"], folder=path).sources[0]


def write(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_bare_list_of_messages_is_a_session(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        import_chat(store, write(tmp_path, MESSAGES))
        (row,) = report(store, ("session",)).rows
        assert (row.turns, row.tool_calls, row.cost_usd) == (2, 1, None)
        assert row.title == "What is in the folder?"
        assert row.input_tokens is None


def test_an_object_may_say_more(tmp_path: Path) -> None:
    session = {
        "messages": MESSAGES,
        "id": "run-7",
        "model": "gpt-5.1",
        "provider": "openai",
        "started_at": "2026-11-15T00:00:00Z",
        "project": "shop",
        "usage": USAGE,
        "calls": [{"call_id": "call_1", "exit_code": 2}],
    }
    with build.open_home(tmp_path) as store:
        import_chat(store, write(tmp_path, session))
        (row,) = report(store, ("session", "day", "project")).rows
        assert row.session == "chat:run-7"
        assert (row.day, row.project) == ("2026-11-15", "shop")
        assert (row.input_tokens, row.cache_read_tokens) == (1000, 200)
        assert row.turns == 2
        assert row.cost_usd is not None
        assert store.query("select exit_code from tool_call") == [(2,)]


def test_usage_of_a_session_that_is_not_understood_is_partial(tmp_path: Path) -> None:
    session = {"messages": MESSAGES, "model": "gpt-5.1", "usage": {"foo": 1}}
    with build.open_home(tmp_path) as store:
        import_chat(store, write(tmp_path, session))
        assert report(store, ("session",)).total.partial_turns == 2
        statuses = store.query("select usage_status from turn where usage_status = 'reconciled'")
        assert statuses == []


def test_lines_are_sessions_with_tapes_of_their_own(tmp_path: Path) -> None:
    first, second = {"id": "a", "messages": MESSAGES}, {"id": "b", "messages": MESSAGES}
    path = write(tmp_path, first, second)
    with build.open_home(tmp_path) as store:
        assert import_chat(store, path).sessions_new == 2
        assert store.query("select count(distinct session_id) from tape_part") == [(2,)]
        with path.open("a") as file:
            file.write(json.dumps({"id": "c", "messages": MESSAGES}) + "\n")
        assert import_chat(store, path).sessions_new == 1
        assert import_chat(store, path).files == 0


def test_equal_call_ids_in_two_sessions_are_two_calls(tmp_path: Path) -> None:
    first, second = {"id": "a", "messages": MESSAGES}, {"id": "b", "messages": MESSAGES}
    with build.open_home(tmp_path) as store:
        import_chat(store, write(tmp_path, first, second))
        assert report(store, ("tool",)).total.tool_calls == 2


def test_a_folder_of_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", {"id": "a", "messages": MESSAGES})
    with build.open_home(tmp_path) as store:
        assert import_chat(store, tmp_path / "in").sessions_new == 1


def test_a_line_that_is_no_session_is_unreadable_and_the_next_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, {"hello": 1}, {"id": "a", "messages": MESSAGES})
    with build.open_home(tmp_path) as store:
        found = import_chat(store, path)
        assert (found.unreadable, found.sessions_new) == (1, 1)
