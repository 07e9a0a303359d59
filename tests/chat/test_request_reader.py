"""Conversations that were read before: what is remembered changes nothing about what is read."""

import json
import random
import threading
from typing import Any

import pytest

from relight.chat import request_reader
from relight.chat.request_reader import RequestReader
from relight.chat.requests import WirePart, WireRequest
from relight.chat.responses import read_stream

PATH = "/v1/chat/completions"


def list_parts(request: WireRequest | None) -> list[list[WirePart]]:
    assert request is not None
    parts, item = [], request.last
    while item is not None:
        parts.append(request.read_item(item))
        item = item.previous
    return parts[::-1]


def make_item(chance: random.Random) -> Any:
    text = chance.choice(["a", "ä]},{", '"', "\\", "x" * 40, "[{"]) * chance.randint(0, 3)
    role = chance.choice(["user", "assistant", "system", "tool"])
    message = {"role": role, "content": text}
    kinds: list[Any] = [*[message] * 8, {"role": role}, 1, 12, "text", None, []]
    return chance.choice(kinds)


def make_body(chance: random.Random, items: list[Any]) -> bytes:
    """A body whose fields and spaces vary; `twin` repeats an item outside of the conversation."""
    fields: dict[str, Any] = {"messages": items, "model": "m"}
    if chance.random() < 0.3:
        fields = {"twin": items[:1], "twins": {"messages": items[:2]}, **fields}
    if chance.random() < 0.5:
        fields = dict(reversed(fields.items()))
    separators = (", ", ": ") if chance.random() < 0.5 else (",", ":")
    return json.dumps(fields, separators=separators, indent=chance.choice([None, 1])).encode()


@pytest.mark.parametrize("seed", range(40))
def test_a_remembered_conversation_is_read_as_a_new_one_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(request_reader, "BLOCK_BYTES", chance.choice([1, 200, 16 << 10]))
    monkeypatch.setattr(request_reader, "MOST_BRANCHES", chance.choice([1, 2, 32]))
    monkeypatch.setattr(request_reader, "REMEMBERED_BYTES", chance.choice([300, 32 << 20]))
    reader = RequestReader()
    talks: list[list[Any]] = [[]]
    for _ in range(60):
        known = chance.choice(talks)
        grown = [make_item(chance) for _ in range(chance.randint(0, 3))]
        items = [*known[: chance.randint(0, len(known) + 1)], *grown]
        talks.append(items)
        body = make_body(chance, items)
        found, fresh = reader.read(PATH, body), RequestReader().read(PATH, body)
        assert list_parts(found) == list_parts(fresh)
        assert len(list_parts(found)) == len(items)
        assert found is not None
        assert found.model == "m"


def test_requests_that_begin_alike_share_their_items() -> None:
    reader = RequestReader()
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    requests = [
        reader.read(PATH, json.dumps({"messages": items, "n": len(items)}).encode())
        for items in (said[:3], said, [*said[:2], said[4]], said)
    ]
    listed = []
    for request in requests:
        items, item = [], request.last if request else None
        while item is not None:
            items.append(item)
            item = item.previous
        listed.append(items[::-1])
    short, long, branch, again = listed
    assert all(a is b for a, b in zip(short, long, strict=False))
    assert all(a is b for a, b in zip(long, again, strict=True))
    assert [a is b for a, b in zip(branch, long, strict=False)] == [True, True, False]


def test_a_reader_in_use_does_not_make_another_thread_wait() -> None:
    reader = RequestReader()
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
    with reader._lock:
        found: list[WireRequest | None] = []
        thread = threading.Thread(target=lambda: found.append(reader.read(PATH, body)))
        thread.start()
        thread.join(60)
    assert list_parts(found[0]) == [[WirePart("user", "Hi")]]


@pytest.mark.parametrize("seed", range(40))
def test_a_stream_of_words_is_read_as_one_with_comments_between_its_events(seed: int) -> None:
    """Streams of words alone take a shorter way; comments make them take the long one."""
    chance = random.Random(seed)
    events = [json.dumps(make_chunk(chance)).encode() for _ in range(chance.randint(0, 30))]
    events.append(b"[DONE]")
    plain = [b"data: " + event + b"\n\n" for event in events]
    noted = [b": note\n\n" + event for event in plain]
    times = [float(number) for number in range(len(plain))]
    assert read_stream("chat", times, plain) == read_stream("chat", times, noted)


def make_chunk(chance: random.Random) -> dict[str, Any]:
    delta: dict[str, Any] = {"content": chance.choice(["", "a", "ü\n\ndata: ", '"}'])}
    rare: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": None}
    chunk: dict[str, Any] = {"id": "c", "model": "m", "choices": [rare], "usage": None}
    match chance.randint(0, 120):
        case 0:
            delta["reasoning"] = "so"
        case 1:
            delta["tool_calls"] = [{"index": 0, "id": "a", "function": {"name": "ls"}}]
        case 2:
            rare["index"] = 1
        case 3:
            rare["finish_reason"] = "stop"
        case 4:
            chunk["usage"] = {"prompt_tokens": 3}
        case 5:
            chunk["error"] = {"message": "no"}
        case 6:
            chunk["choices"] = []
        case 7:
            delta["content"] = None
        case 8:
            chunk["choices"] = [rare, {"index": 1, "delta": {"content": "b"}}]
        case 9 | 10:
            chunk["id"] = chunk["model"] = ""
    return chunk
