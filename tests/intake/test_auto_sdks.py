"""Real SDKs against a scripted server: a program sees the same with and without recording."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from relight.chat.messages import read_text
from relight.reports.transcript import read_transcript
from relight.store import Store, open_store
from scripted_sdks import SPOKEN, SdkServer

PROGRAM = Path(__file__).parents[1] / "sdk_program.py"
SDKS = ("openai", "anthropic", "google")


class Ran(Struct):
    """All that a program saw of its SDKs, by SDK, and what the server answered."""

    seen: dict[str, list[Any]]
    answered: int
    errors: str


def run(home: Path, *, is_recorded: bool) -> Ran:
    words = [sys.executable, str(PROGRAM)]
    if is_recorded:
        words = [sys.executable, "-m", "relight", "--home", str(home), "exec", "--", *words]
    with SdkServer() as server:
        done = subprocess.run(
            [*words, server.root_url],
            env={**os.environ, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        # the time and the address of the server are others each time
        shown = re.sub(r"\w+, \d+ \w+ \d+ [\d:]+ GMT", "", done.stdout)
        seen = json.loads(shown.replace(server.root_url, "URL"))
        return Ran(seen, len(server.requests), done.stderr)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("auto") / "home"


@pytest.fixture(scope="module")
def plain(home: Path) -> Ran:
    return run(home, is_recorded=False)


@pytest.fixture(scope="module")
def recorded(home: Path) -> Ran:
    return run(home, is_recorded=True)


@pytest.fixture
def store(home: Path, recorded: Ran) -> Iterator[Store]:
    with open_store(home) as store:
        yield store


@pytest.mark.parametrize("sdk", SDKS)
def test_a_program_sees_every_chunk_and_error_as_without_recording(
    sdk: str, plain: Ran, recorded: Ran
) -> None:
    assert len(plain.seen[sdk]) > 15
    assert recorded.seen[sdk] == plain.seen[sdk]
    assert recorded.errors == plain.errors


def test_every_request_is_recorded_once(store: Store, recorded: Ran) -> None:
    ((calls, turns),) = store.query("select count(*), sum(calls) from turn")
    assert calls == recorded.answered
    failed = store.query("select failure, count(*) from turn where calls = 0 group by 1 order by 1")
    assert dict(failed) == {
        "bad_request": 6,
        "interrupted": 2,  # the streams that the program left
        "rate_limit": 2,
        "server_error": 1,  # the stream that the server broke off
    }
    assert turns == calls - 11
    assert store.query("select distinct source from session") == [("relight",)]


def test_tokens_are_those_of_the_server_in_disjoint_buckets(store: Store) -> None:
    found = store.query(
        "select distinct usage_status, input_tokens, cache_read_tokens, output_tokens from turn"
        " where calls = 1 order by 1"
    )
    # OpenAI's streams have no usage unless the program asks for it
    assert found == [("final", 100, 20, 30), ("partial", None, None, None)]
    ((unknown,),) = store.query("select count(*) from turn where usage_status = 'partial'")
    assert unknown > 0


def test_streams_have_a_time_to_the_first_token_and_all_calls_a_duration(store: Store) -> None:
    assert store.query("select count(*) from turn where duration_ms is null") == [(0,)]
    rows = store.query("select first_token_ms, duration_ms from turn where first_token_ms > -1")
    assert len(rows) > 12
    assert all(first <= whole for first, whole in rows)


def read_one(store: Store, title: str) -> dict[str, Any]:
    """The only session that begins with these words."""
    ((session,),) = store.query("select id from session where title = :title", {"title": title})
    values = {"session": session}
    return {
        "turns": store.query(
            "select sum(calls), count(*) from turn where session_id = :session", values
        )[0],
        "calls": store.query(
            "select tool, label from tool_call where session_id = :session", values
        ),
        "said": [
            (one["role"], read_text(one.get("content")))
            for one in read_transcript(store, session).messages
        ],
    }


@pytest.mark.parametrize(
    ("title", "turns", "label", "result"),
    [
        ("responses look", 2, "ok", "3 apples"),
        ("messages look", 2, "error", "none"),
        ("gemini chat look", 3, "error", '{"error":"no apples"}'),
    ],
)
def test_results_of_calls_come_from_the_next_request(
    store: Store, title: str, turns: int, label: str, result: str
) -> None:
    found = read_one(store, title)
    assert found["turns"] == (turns, turns)
    assert found["calls"] == [("look", label)]
    assert ("tool", result) in found["said"]
    assert found["said"][-1] == ("assistant", SPOKEN)


def test_a_conversation_is_one_session_and_a_stream_of_it_too(store: Store) -> None:
    assert read_one(store, "responses stream")["turns"] == (2, 2)
    rows = store.query("select count(*) from session where title = 'chat look'")
    assert rows == [(2,)]  # asked twice, each time from the beginning


def test_a_refused_try_is_a_failed_call_of_the_session_that_its_retry_continues(
    store: Store,
) -> None:
    for title in ("chat busy", "messages busy"):
        found = read_one(store, title)
        assert found["turns"] == (1, 2)
        assert found["said"][-2:] == [("user", title), ("assistant", SPOKEN)]
        assert [role for role, _ in found["said"]].count("user") == 1


def test_the_words_of_a_compressed_stream_are_read(store: Store) -> None:
    for title in ("chat packed", "messages packed"):
        assert ("assistant", SPOKEN) in read_one(store, title)["said"]


def test_a_system_prompt_is_recorded(store: Store) -> None:
    assert ("system", "Be brief.") in read_one(store, "messages look")["said"]
