"""Damaged requests and answers: a program sees what it would see without recording."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from relight.intake.auto import recording
from relight.intake.auto.clients import watch_httpx
from relight.store import open_store
from scripted import Reply, call
from scripted_sdks import EVENTS, USAGE, WHOLE

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
JUNK: list[Any] = [None, True, -1, 2**70, "", "\ud800", [], {}, [None], [[[]]], {"type": "text"}]
ASKED: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "c", "content": 3},
    ],
    "responses": [{"type": "function_call_output", "call_id": "c", "output": "1"}],
    "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}],
    "gemini": [{"role": "user", "parts": [{"functionResponse": {"name": "l", "response": 1}}]}],
}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A copy of httpx2 that is watched, with a store of its own."""
    monkeypatch.setenv("RELIGHT_HOME", str(tmp_path / "home"))
    recorder = recording.AutoRecorder()
    monkeypatch.setattr(recording, "_recorder", recorder)
    own = SimpleNamespace(**vars(httpx2))
    own.Client = type("Client", (httpx2.Client,), {})
    own.AsyncClient = type("AsyncClient", (httpx2.AsyncClient,), {})
    watch_httpx(own)  # type: ignore[arg-type]
    yield own
    recorder.close()


def damage(value: Any, dice: random.Random) -> Any:
    if dice.random() < 0.08:
        return dice.choice(JUNK)
    if isinstance(value, dict):
        return {name: damage(one, dice) for name, one in value.items()}
    return [damage(one, dice) for one in value] if isinstance(value, list) else value


def write(value: Any) -> bytes:
    return json.dumps(value).encode()


def make_answer(name: str, dice: random.Random, *, is_stream: bool) -> bytes:
    calls = [call("look", "call_1", path="a")] if dice.random() < 0.5 else []
    reply = Reply("words", calls, usage=USAGE)
    if not is_stream:
        data = write(damage(WHOLE[name](reply, {"model": "m"}), dice))
        return data[: dice.randrange(len(data))] if dice.random() < 0.2 else data
    events = []
    for event in EVENTS[name](reply, {"model": "m"}):
        head, mark, data = event.partition(b"data: {")
        events.append(head + b"data: " + write(damage(json.loads(b"{" + data), dice)) + b"\n\n"
                      if mark else event)  # fmt: skip
    return b"".join(events)


def ask(client: httpx2.Client, url: str, body: bytes, *, is_stream: bool) -> tuple[object, ...]:
    try:
        response = client.send(client.build_request("POST", url, content=body), stream=is_stream)
        return response.status_code, b"".join(response.iter_bytes())
    except Exception as error:  # noqa: BLE001 - whatever the library raises
        return type(error), str(error)


def test_damaged_requests_and_answers_change_nothing_for_the_program(library: Any) -> None:
    dice = random.Random(5)
    for number in range(250):
        name = dice.choice(list(PATHS))
        is_stream = dice.random() < 0.5
        body = {
            "model": "m",
            "messages": ASKED[name],
            "contents": ASKED[name],
            "input": ASKED[name],
        }
        sent = write(damage(body, dice))
        data = make_answer(name, dice, is_stream=is_stream)
        headers = {"content-type": "text/event-stream" if is_stream else "application/json"}
        if dice.random() < 0.2:
            headers["content-encoding"] = "gzip"
            data = gzip.compress(data) if dice.random() < 0.5 else data
        status = dice.choice([200, 200, 200, 204, 302, 400, 429, 500])
        pieces = [data[start : start + 37] for start in range(0, len(data), 37)]

        def answer(
            _: Any, status: int = status, headers: Any = headers, pieces: Any = pieces
        ) -> Any:
            return httpx2.Response(status, headers=headers, content=iter(pieces))

        transport = httpx2.MockTransport(answer)
        seen = [
            ask(kind(transport=transport), f"http://h{PATHS[name]}", sent, is_stream=is_stream)
            for kind in (httpx2.Client, library.Client)
        ]
        assert seen[0] == seen[1], (number, name)
    with open_store() as store:
        ((turns, failed),) = store.query("select count(*), sum(failure is not null) from turn")
    assert turns > 100
    assert failed > 50


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_that_cannot_be_unpacked_is_a_failed_call(library: Any, is_stream: bool) -> None:
    kind = "text/event-stream" if is_stream else "application/json"
    headers = {"content-type": kind, "content-encoding": "gzip"}
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers=headers, content=iter([b"no gzip"]))
    )
    body = write({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    error, _ = ask(
        library.Client(transport=transport), "http://h/v1/messages", body, is_stream=is_stream
    )
    assert error is httpx2.DecodingError
    with open_store() as store:
        assert store.query("select calls, failure is not null from turn") == [(0, 1)]
