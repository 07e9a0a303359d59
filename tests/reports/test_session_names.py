"""Names of sessions as people type them: `last`, short ids, unique beginnings."""

import json
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import MissingError
from relight.intake.importing import import_all
from relight.reports.labels import label_session
from relight.reports.sessions import find_session, read_session, shorten_names
from relight.reports.trace import read_trace
from relight.store import Store
from relight.store.queries.sessions import read_name

KEYS = ["20261115_030929_ab12cd", "20261115_030929_ab9999", "20261115_040000_000000", "s1", "s10"]


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    for at, key in enumerate(KEYS):
        lines = [
            build.claude_prompt("Look", at=at * 1000, sessionId=key),
            build.claude_answer(f"m_{key}", at=at * 1000 + 5, sessionId=key),
        ]
        build.write_claude(tmp_path, lines, name=key)
    child = [
        build.claude_prompt("Within", at=9000, sessionId="s1", agentId="a1", isSidechain=True),
        build.claude_answer("m9", at=9001, sessionId="s1", agentId="a1", isSidechain=True),
    ]
    build.write_claude(tmp_path, child, name="s1/subagents/agent-a1")
    build.import_home(store, tmp_path)
    return store


def name(store: Store, typed: str) -> str:
    return read_name(store, find_session(store, typed)).session


def test_last_counts_back_from_the_newest_session_without_sub_agents(store: Store) -> None:
    names = [f"claude-code:{key}" for key in reversed(KEYS)]
    assert name(store, "last") == name(store, "last~0") == names[0]
    assert [name(store, f"last~{place}") for place in range(len(KEYS))] == names
    with pytest.raises(MissingError, match="'last~5'"):
        find_session(store, "last~5")
    for typed in ("last~", "last~x", "last~-1", "last~9999999999", "LAST"):
        with pytest.raises(MissingError):
            find_session(store, typed)


def test_a_short_name_has_eight_characters_or_as_many_as_it_needs(store: Store) -> None:
    names = [f"claude-code:{key}" for key in KEYS]
    short = shorten_names(store, names)
    assert list(short.values()) == [
        "claude-code:2026..ab12cd",
        "claude-code:2026..ab9999",
        "claude-code:20261115_04",
        "claude-code:s1",
        "claude-code:s10",
    ]
    assert [name(store, one) for one in short.values()] == names
    assert [name(store, one.partition(":")[2]) for one in short.values()] == names
    assert shorten_names(store, ["gone:x"]) == {"gone:x": "gone:x"}
    assert shorten_names(store, []) == {}


def test_a_sub_agent_is_named_by_both_ends_of_a_long_id(tmp_path: Path, store: Store) -> None:
    ids = ["aec6d52d932c22b14", "aaa715c9b1e3c22b14"]
    for one in ids:
        own: dict[str, Any] = {"sessionId": KEYS[0], "agentId": one, "isSidechain": True}
        lines = [
            build.claude_prompt("In", at=9000, **own),
            build.claude_answer(f"m{one}", at=9001, **own),
        ]
        build.write_claude(tmp_path, lines, name=f"{KEYS[0]}/subagents/agent-{one}")
    build.import_home(store, tmp_path)
    names = [f"claude-code:{KEYS[0]}/{one}" for one in ids]
    short = shorten_names(store, [*names, "claude-code:s1/a1"])
    assert list(short.values()) == [
        "claude-code:2026..2c22b14",
        "claude-code:2026..3c22b14",
        "claude-code:s1/a1",
    ]
    for whole, few in short.items():
        assert name(store, few) == name(store, few.partition(":")[2]) == whole
        assert name(store, whole) == whole


def test_the_name_of_a_source_stands_for_its_sessions(store: Store) -> None:
    for typed in ("claude-code:", "claude-code", "cl"):
        with pytest.raises(MissingError, match=f"'{typed}' could be claude-code:2026"):
            find_session(store, typed)


def test_an_id_with_slashes_that_is_no_sub_agents_is_shortened_too(
    tmp_path: Path, store: Store
) -> None:
    keys = [f"runs/task-{number:02}/model-of-a-long-name/0" for number in range(12)]
    keys.append("runs/task-01")
    file = tmp_path / "chat.jsonl"
    chats = ({"id": key, "messages": [{"role": "user", "content": "Hi"}]} for key in keys)
    file.write_text("".join(f"{json.dumps(one)}\n" for one in chats))
    import_all(store, sources=["chat"], folder=file, environment={}, workers=1)
    names = [f"chat:{key}" for key in keys]
    short = shorten_names(store, names)
    assert short[names[0]] == "chat:runs/task-00"
    assert short[names[1]] == "chat:runs/task-01/"
    assert short[names[-1]] == "chat:runs/task-01"
    assert [name(store, short[one]) for one in names] == names


def test_an_ambiguous_beginning_lists_the_sessions_by_their_short_names(store: Store) -> None:
    with pytest.raises(MissingError) as raised:
        find_session(store, "20261115_03")
    assert raised.value.message == (
        "'20261115_03' could be claude-code:2026..ab12cd, claude-code:2026..ab9999"
    )


def test_runs_of_one_job_are_named_by_both_ends(tmp_path: Path, store: Store) -> None:
    days = [f"cron_4d9a61c07b3e_202611{day:02}_081500" for day in range(1, 29)]
    hours = [f"cron_4d9a61c07b3e_20261128_{hour:02}1500" for hour in range(9, 20)]
    for key in [*days, *hours]:
        build.write_claude(
            tmp_path,
            [
                build.claude_prompt("Look", sessionId=key),
                build.claude_answer(f"m_{key}", sessionId=key),
            ],
            name=key,
        )
    build.import_home(store, tmp_path)
    names = [f"claude-code:{key}" for key in [*days, *hours]]
    short = shorten_names(store, names)
    assert short[names[0]] == "claude-code:cron..01_081500"
    assert short[names[-1]] == "claude-code:cron..191500"
    assert len({*short.values()}) == len(names)
    assert [name(store, short[one]) for one in names] == names
    assert [name(store, short[one].partition(":")[2]) for one in names] == names
    with pytest.raises(MissingError, match=r"could be claude-code:cron\.\.01_081500, .* more"):
        find_session(store, "cron_4d9..1500")


def test_a_name_of_thousands_of_characters_is_not_repeated_whole(store: Store) -> None:
    with pytest.raises(MissingError) as raised:
        find_session(store, "x" * 10_240)
    assert len(raised.value.message) < 150


def test_ends_that_fit_no_session_are_refused(store: Store) -> None:
    for typed in ("2026..zz", "..", "gone:2026..0000"):
        with pytest.raises(MissingError):
            find_session(store, typed)


def test_what_reads_or_labels_a_session_takes_its_name(store: Store) -> None:
    label_session(store, "claude-code:s10", "success")
    assert read_session(store, "last").outcome == "success"
    assert read_trace(store, "last") == read_trace(store, find_session(store, "last"))
    with pytest.raises(MissingError, match="there is no session 'nowhere'"):
        label_session(store, "nowhere", "success")
