"""A scripted model behind the four formats that SDKs speak, whole and streamed.

A request's last words choose the answer, so that a program sees the same however often it runs.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from relight.chat.requests import find_format, read_parts
from scripted import Logged, Reply, Server, call, completion
from scripted_agents import google_answer, message_events

USAGE = {
    "prompt_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens": 30,
    "total_tokens": 150,
}
AGAIN = {"retry-after-ms": "1", "retry-after": "0"}
SPOKEN = "Für fünf Äpfel: done."


class SdkServer(Server):
    """Answers chat completions, Responses, Messages and generateContent.

    The last words of a request may hold `look` (a tool call), `refused` (an error), `busy` (an
    error at first, then an answer), `packed` (a compressed stream) or `broken` (one cut short).
    """

    def __init__(self) -> None:
        super().__init__([])
        self._busy: set[str] = set()

    @property
    def root_url(self) -> str:
        return self.base_url.removesuffix("/v1")

    def take(self, logged: Logged) -> Reply:
        path = urlsplit(logged.path).path
        name = find_format(path)
        if name is None:
            return super().take(logged)
        self.requests.append(logged)
        words = find_words(name, logged.body)
        if "refused" in words or ("busy" in words and words not in self._busy):
            self._busy.add(words)
            status = 400 if "refused" in words else 429
            error = {"type": "x", "code": status, "status": "X", "message": f"{words}!"}
            body = json.dumps({"type": "error", "error": error}).encode()
            return Reply(status=status, body=body, headers=AGAIN)
        calls = [call("look", "call_1", path="a.txt")] if words.endswith("look") else []
        reply = Reply(None if calls else SPOKEN, calls, usage=USAGE, piece_bytes=37)
        is_stream = logged.body.get("stream") or "stream" in path.rpartition(":")[2].lower()
        if not is_stream:
            return Reply(body=json.dumps(WHOLE[name](reply, logged.body)).encode())
        data = b"".join(EVENTS[name](reply, logged.body))
        headers = {"Content-Type": "text/event-stream"}
        if "packed" in words:
            data, headers["Content-Encoding"] = gzip.compress(data), "gzip"
        breaks_at = len(data) * 2 // 3 if "broken" in words else None
        return Reply(body=data, headers=headers, piece_bytes=37, breaks_after=breaks_at)


def find_words(name: Any, body: Mapping[str, Any]) -> str:
    """The last words of a request; `done` if they are the result of a tool."""
    items = body.get("messages") or body.get("contents") or body.get("input")
    if isinstance(items, str):
        return items
    assert items is not None
    last = read_parts(name, items[-1])[-1]
    return last.text if last.kind == "user" else "done"


def make_response(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of OpenAI's Responses."""
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    if reply.content:
        part = {"type": "output_text", "text": reply.content, "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [part]})
    for one in reply.tool_calls:
        function = {"type": "function_call", "id": "fc_1", "status": "completed"}
        output.append({**function, "call_id": one["id"], **one["function"]})
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 150,
    }
    return {
        "id": f"resp_{len(json.dumps(body))}",
        "object": "response",
        "created_at": 1_794_700_800,
        "status": "completed",
        "model": body.get("model"),
        "output": output,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def make_message(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of Anthropic's API."""
    content: list[dict[str, Any]] = []
    if reply.content:
        content.append({"type": "text", "text": reply.content})
    for one in reply.tool_calls:
        function = one["function"]
        given = {"name": function["name"], "input": json.loads(function["arguments"])}
        content.append({"type": "tool_use", "id": one["id"], **given})
    *_, last, _ = message_events(reply, body, 1)
    first = next(message_events(reply, body, 1))["message"]
    return {**first, "content": content, "usage": last["usage"], **last["delta"]}


def chat_stream(reply: Reply, body: Mapping[str, Any]) -> Iterator[bytes]:
    from scripted import chunks

    for chunk in chunks(reply, body):
        yield b"data: " + chunk + b"\n\n"


def message_stream(reply: Reply, body: Mapping[str, Any]) -> Iterator[bytes]:
    for event in message_events(reply, body, 1):
        yield _event(event)


def response_stream(reply: Reply, body: Mapping[str, Any]) -> Iterator[bytes]:
    whole = make_response(reply, body)
    begun = {**whole, "output": [], "usage": None, "status": "in_progress"}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(whole["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        empty = {**item, "content": []} if "content" in item else item
        events.append({"type": "response.output_item.added", **at, "item": empty})
        for part in item.get("content", ()):
            inner = {**at, "content_index": 0}
            blank = {**part, "text": ""}
            events.append({"type": "response.content_part.added", **inner, "part": blank})
            for start in range(0, len(part["text"]), 7):
                delta = {"delta": part["text"][start : start + 7], "logprobs": []}
                events.append({"type": "response.output_text.delta", **inner, **delta})
            events.append({"type": "response.content_part.done", **inner, "part": part})
        if "arguments" in item:
            delta = {"delta": item["arguments"]}
            events.append({"type": "response.function_call_arguments.delta", **at, **delta})
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield _event({**event, "sequence_number": number})


def gemini_stream(reply: Reply, body: Mapping[str, Any]) -> Iterator[bytes]:
    whole = google_answer(reply)
    text = reply.content or ""
    for start in range(0, len(text), 7):
        content = {"role": "model", "parts": [{"text": text[start : start + 7]}]}
        yield _data({"candidates": [{"content": content, "index": 0}]})
    if text:
        whole["candidates"][0]["content"]["parts"][0] = {"text": ""}
    yield _data(whole)


def _event(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


Answer = Callable[[Reply, Mapping[str, Any]], dict[str, Any]]
WHOLE: dict[str, Answer] = {
    "chat": completion,
    "responses": make_response,
    "messages": make_message,
    "gemini": lambda reply, _: google_answer(reply),
}
EVENTS: dict[str, Callable[[Reply, Mapping[str, Any]], Iterator[bytes]]] = {
    "chat": chat_stream,
    "responses": response_stream,
    "messages": message_stream,
    "gemini": gemini_stream,
}
