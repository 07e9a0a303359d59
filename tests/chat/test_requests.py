"""Requests and answers on the wire, of four APIs: their parts, and streams that break off."""

import json
from typing import Any

import pytest

from relight.chat.answers import Gathering
from relight.chat.request_reader import read_request
from relight.chat.requests import WireFormat, WirePart, read_parts
from relight.chat.responses import read_stream, read_whole
from scripted import Reply, call
from scripted_sdks import EVENTS, USAGE, WHOLE

FORMATS: tuple[WireFormat, ...] = ("chat", "responses", "messages", "gemini")
BODY = {"model": "m", "stream_options": {"include_usage": True}}
REPLIES = {
    "words": Reply("Äpfel [DONE] are\n\ndone.", usage=USAGE),
    "calls": Reply("Let me look.", [call("look", "a", n=1), call("find", "b")], usage=USAGE),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_stream_is_read_as_the_whole_answer_is(name: WireFormat, reply: Reply) -> None:
    whole = read_whole(name, json.dumps(WHOLE[name](reply, BODY)).encode())
    data = b"".join(EVENTS[name](reply, BODY))
    stream = read_stream(name, *cut(data, 5))
    asked = [one["function"]["name"] for one in whole.message.get("tool_calls", ())]
    assert asked == [one["function"]["name"] for one in reply.tool_calls]
    assert whole.message["content"] == reply.content
    for field in ("content", "tool_calls"):
        assert strip(stream.message.get(field)) == strip(whole.message.get(field))
    assert stream.usage == whole.usage
    assert stream.is_complete
    assert stream.first_at is not None
    # no part of the answer has arrived before that
    before = read_stream(name, [0], [data[: int(stream.first_at)]])
    assert before.first_at is None
    assert not before.is_complete


def cut(data: bytes, size: int) -> tuple[list[float], list[bytes]]:
    """The pieces of a stream, and when each arrives: its first byte is its time."""
    starts = range(0, len(data), size)
    return [float(start) for start in starts], [data[at : at + size] for at in starts]


def strip(value: Any) -> Any:
    """A value without the spaces between the parts of JSON, which only arguments have."""
    return json.dumps(value).replace(" ", "")


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_that_breaks_off_at_any_byte_is_not_complete(name: WireFormat) -> None:
    data = b"".join(EVENTS[name](REPLIES["calls"], BODY))
    ends = range(0, len(data) * 3 // 4, 7)
    assert not any(read_stream(name, [0], [data[:end]]).is_complete for end in ends)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'{"error": {"message": "no"}}', b"\xff"])
def test_what_is_no_answer_is_not_complete(name: WireFormat, body: bytes) -> None:
    assert not read_whole(name, body).is_complete
    assert not read_stream(name, [0], [b"data: " + body + b"\n\n"]).is_complete


def test_the_facts_of_a_stream_may_come_after_its_first_chunk_and_words_may_be_its_end_mark() -> (
    None
):
    """Azure's first chunk has empty facts; and a model may write `[DONE]`."""
    empty: dict[str, Any] = {"id": "", "model": "", "created": 0, "choices": []}
    facts = {"id": "a", "model": "gpt-5.1", "created": 5}
    said = [
        facts | {"choices": [{"index": 0, "delta": {"content": word}}]}
        for word in ("It is [DONE]", ".")
    ]
    thought = facts | {"choices": [{"index": 0, "delta": {"reasoning": "so", "content": "!"}}]}
    other = facts | {"choices": [{"index": 1, "delta": {"content": "another choice"}}]}
    end = facts | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    chunks = [json.dumps(one) for one in (empty, *said, thought, other, end)]
    data = "".join(f"data: {one}\n\n" for one in (*chunks, "[DONE]")).encode()
    found = read_stream("chat", *cut(data, 9))
    assert (found.id, found.model, found.is_complete) == ("a", "gpt-5.1", True)
    assert found.message["content"] == "It is [DONE].!"
    assert found.message["reasoning"] == "so"
    assert found.first_at is not None
    assert data[: int(found.first_at) + 9].count(b"It is") == 1


ODD_CHUNKS: dict[str, dict[str, Any]] = {
    "none": {},
    "another end": {"obfuscation": "x7"},
    "a count": {"usage": USAGE},
    "an error": {"error": {"message": "no"}},
    "no choice": {"choices": []},
    "another choice": {"choices": [{"index": 1, "delta": {"content": "of two"}}]},
    "a refusal": {"choices": [{"index": 0, "delta": {"content": "", "refusal": "No."}}]},
    "no words": {"choices": [{"index": 0, "delta": {"content": None}}]},
    "parts": {"choices": [{"index": 0, "delta": {"content": [{"text": "a part"}]}}]},
    "a call": {"choices": [{"index": 0, "delta": {"tool_calls": [{"id": "a", "index": 0}]}}]},
    "an end": {"choices": [{"index": 0, "delta": {"content": "."}, "finish_reason": "stop"}]},
    "another place": {"content": "?", "choices": [{"index": 0, "delta": {"role": "assistant"}}]},
}


@pytest.mark.parametrize("odd", ODD_CHUNKS.values(), ids=ODD_CHUNKS)
@pytest.mark.parametrize("place", [0, 3, 4, 8, 10])
def test_chunks_that_are_read_at_once_say_what_each_of_them_says(
    place: int, odd: dict[str, Any]
) -> None:
    words = [
        "",
        "",
        "",
        "",
        "",
        'A "word"',
        "\n\ndata: x",
        "}}]}",
        "Ä\\",
        ",",
        '"content": "?"',
        "!",
    ]
    facts = {"id": "a", "model": "m", "created": 5}
    chunks = [facts | {"choices": [{"index": 0, "delta": {"content": one}}]} for one in words]
    chunks[place] |= odd
    events = [f"data: {json.dumps(one)}\n\n".encode() for one in chunks]
    made, firsts = Gathering(), []
    for number, one in enumerate(chunks):
        if made.add(one):
            firsts.append(float(number))
    found = read_stream("chat", [*map(float, range(len(events)))], events)
    assert found.message == made.message()
    assert (found.usage, found.error) == (made.usage, made.error)
    assert (found.first_at, found.is_complete) == (firsts[0], bool(made.finish_reason))


def test_data_of_an_event_may_have_several_lines() -> None:
    event = b'data: {"choices": [{"delta": {"content": "Hi"},\r\ndata: "finish_reason": "stop"}]}'
    found = read_stream("chat", [1, 2], [event, b"\r\n\r\ndata: [DONE]\r\n\r\n"])
    assert (found.message["content"], found.is_complete) == ("Hi", True)


@pytest.mark.parametrize(
    ("name", "item", "parts"),
    [
        ("chat", {"role": "developer", "content": "Be"}, [WirePart("system", "Be")]),
        (
            "chat",
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:…"}}]},
            [WirePart("user", "[image_url]")],
        ),
        (
            "messages",
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"text": "no"}]},
                    {"type": "text", "text": "Go on."},
                ],
            },
            [WirePart("result", "no", call="a"), WirePart("user", "Go on.")],
        ),
        ("responses", {"type": "reasoning", "summary": []}, []),
        (
            "responses",
            {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"},
            [WirePart("result", "ok", call="a")],
        ),
        (
            "gemini",
            {"role": "model", "parts": [{"thought": True, "text": "hm"}, {"text": "Yes"}]},
            [WirePart("text", "Yes")],
        ),
        ("gemini", {"parts": None}, []),
        ("chat", None, []),
        ("messages", {"role": "user"}, [WirePart("user", "")]),
    ],
)
def test_the_parts_of_an_item(name: WireFormat, item: object, parts: list[WirePart]) -> None:
    assert read_parts(name, item) == parts


@pytest.mark.parametrize(
    ("path", "body", "model", "system"),
    [
        ("/v1/chat/completions", {"model": "m", "messages": []}, "m", ""),
        ("/v1/messages?beta=true", {"messages": [], "system": [{"text": "Be"}]}, None, "Be"),
        ("/v1/responses/", {"model": "m", "input": "Hi", "instructions": "Be"}, "m", "Be"),
        (
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            {"contents": [], "systemInstruction": {"parts": [{"text": "Be"}]}},
            "gemini-2.5-pro",
            "Be",
        ),
    ],
)
def test_the_facts_of_a_request(
    path: str, body: dict[str, Any], model: str | None, system: str
) -> None:
    found = read_request(path, json.dumps(body).encode())
    assert found is not None
    assert (found.model, found.system) == (model, system)


@pytest.mark.parametrize("body", [b"", b"null", b'{"messages": 1}', b'{"model": "m"}', b"\xff{}"])
def test_another_body_is_no_request(body: bytes) -> None:
    assert read_request("/v1/chat/completions", body) is None
