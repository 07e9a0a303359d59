"""Whatever stands in whatever place of a record, it costs that record at most."""

import copy
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import build
from relight.model import Mark, Piece
from relight.sources import find_source
from relight.sources.files import look_at
from relight.sources.hermes.reader import HermesReader
from relight.store.write.record import Recorder
from relight.store.write.seal import seal
from relight.store.write.sealed import Sealed

SESSION = "20261115_000000_abc123"
NOW = build.START
STRANGE: list[Any] = [
    None, True, 7, -1, 10**30, -(10**30), 1.5, 1e300, "", "x", "\ud800", [], {}, [None], ["x"],
    [[]], [{}], {"a": 1}, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
]  # fmt: skip

OF_SESSION = {"session_id": SESSION, "at": NOW, "model": "m"}
USED = {"input_tokens": 5, "output_tokens": 6, "cache_read_tokens": 0}
ADVISER = {"model": "m", "provider": "p", "usage": USED, "cost_usd": "0.1", "cost_status": "actual"}
CALL = {"id": "c", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
ASKED = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c", "content": "a.txt"}
HERMES: list[dict[str, Any]] = [
    {"table": "event", "event": "answered", "id": "1", "usage": USED, **OF_SESSION},
    {"table": "event", "event": "failed", "id": "2", "message": "no", "status": 500, **OF_SESSION},
    {"table": "event", "event": "called", "call_id": "c", "tool": "t", **OF_SESSION},
    {"table": "event", "event": "skill", "name": "tidy", "version": "1", **OF_SESSION},
    {"table": "moa", "ts": NOW / 1000, "references": [ADVISER, ADVISER], **OF_SESSION},
    {"table": "log", "event": "answered", "seconds": "1.5", **OF_SESSION},
    {"table": "log", "event": "failed", "text": "no", **OF_SESSION},
    {"table": "log", "event": "interrupted", **OF_SESSION},
    {"table": "request_dump", "reason": "no", "error": {"message": "no"}, **OF_SESSION},
    {"table": "jobs", "id": "j", "schedule": {"expr": "0 9 * * *"}, "skills": ["tidy"]},
    {"table": "executions", "id": "e", "job_id": "j", "status": "failed", "claimed_at": NOW / 1000},
]
CODEX = [
    build.codex_meta(),
    build.codex_line("turn_context", 1, turn_id="t", model="gpt-5.2-codex"),
    build.codex_line(
        "response_item", 2, type="message", role="user", content=[{"type": "text", "text": "Go"}]
    ),
    build.codex_line(
        "response_item", 3, type="function_call", call_id="c", name="shell", arguments="{}"
    ),
    build.codex_line(
        "event_msg",
        4,
        type="item_completed",
        item={"type": "CommandExecution", "id": "c", "duration": {"secs": 1, "nanos": 2}},
    ),
    build.codex_line("response_item", 5, type="function_call_output", call_id="c", output="ok"),
    build.codex_count(6, build.codex_usage(1000), build.codex_usage(1000)),
    build.codex_line("event_msg", 7, type="error", message="no"),
]
CHAT = {
    "id": "a",
    "model": "m",
    "started_at": NOW / 1000,
    "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1}},
    "calls": [{"call_id": "c", "exit_code": 1}],
    "outcome": "success",
    "messages": [{"role": "user", "content": "Go", "timestamp": NOW / 1000}, ASKED, TOLD],
}
OWN: dict[str, Any] = {"session": "s", "at": NOW}
RELIGHT = [
    {"type": "session", "model": "m", "title": "t", **OWN},
    {"type": "message", "message": {"role": "user", "content": "Go"}, **OWN},
    {"type": "turn", "id": "1", "usage": {"input": 5}, "duration_ms": 5, "message": ASKED, **OWN},
    {"type": "call", "id": "1:0", "tool": "t", "exit_code": 1, "call_id": "c", **OWN},
    {"type": "end", "how": "told", "outcome": "success", **OWN},
]


def database_rows(tmp_path: Path) -> list[dict[str, Any]]:
    build.hermes_session(build.open_hermes(tmp_path))
    origin = look_at(tmp_path / ".hermes" / "state.db")
    assert origin is not None
    pieces = list(HermesReader.fetch(origin, {}))
    return [json.loads(line) for piece in pieces for line in piece.raw.splitlines()]


def places(record: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a record something stands, the inner places as well."""
    parts = record.items() if isinstance(record, dict) else enumerate(record)
    for key, part in parts:
        yield (*place, key)
        if isinstance(part, dict | list):
            yield from places(part, (*place, key))


def put(record: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = inner = copy.deepcopy(record)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = copy.deepcopy(value)
    return changed


def seal_records(source: str, records: list[Any], *, name: str) -> tuple[list[bytes], Sealed]:
    lines = [json.dumps(record).encode() for record in records]
    before = Mark(path=name)
    after = Mark(path=name, offset=sum(map(len, lines)))
    piece = Piece(source=source, raw=b"\n".join(lines), before=before, after=after)
    return lines, seal(piece, find_source(source).read, key=b"k" * 32, timezone="UTC")


@pytest.fixture(params=["claude-code", "codex", "hermes", "chat", "relight"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def records(source: str, tmp_path: Path) -> list[Any]:
    if source == "hermes":
        return [*database_rows(tmp_path), *HERMES]
    found = {"codex": CODEX, "chat": [CHAT], "relight": RELIGHT}
    return found.get(source) or build.claude_session()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_strange_value_in_any_place_costs_its_record_at_most(
    tmp_path: Path, source: str, records: list[Any], data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(records) - 1))
    place = data.draw(st.sampled_from(list(places(records[number]))))
    value = data.draw(st.sampled_from(STRANGE))
    strange = put(records[number], place, value)
    told = [*records[:number], strange, *records[number + 1 :]]
    lines, sealed = seal_records(source, told, name=ascii((number, place, value)))
    assert len(sealed.unreadable) <= 1
    for _, session in sealed.sessions:
        find_source(source).read_messages(lines, session.key)
    with build.open_home(tmp_path) as store:
        Recorder(store).record([sealed])


def test_sealing_leaves_nothing_that_only_the_garbage_collector_would_free(
    source: str, records: list[Any]
) -> None:
    # workers run without it: what refers to itself in a circle would stay until they end
    seal_records(source, records, name="first")  # what stays loaded
    gc.collect()
    gc.disable()
    try:
        seal_records(source, records, name="second")
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = {type(one).__qualname__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left & {"Collector", "CheckedCollector", "Turn", "ToolCall", "Parsed"}
    assert not {name for name in left if name.endswith("Reader")}
