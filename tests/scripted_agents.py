"""The scripted model behind the other protocols that agents speak, as streams of events."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from scripted import Logged, Reply, Server

Script = Callable[[dict[str, Any]], Reply]


class AgentServer(Server):
    """Answers Anthropic's `/v1/messages` and OpenAI's `/v1/responses` with what `script` says.

    The figures of a reply's usage are those of a chat answer; either protocol has its own names
    for them.
    """

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.agent_script = script

    @property
    def root_url(self) -> str:
        return self.base_url.removesuffix("/v1")

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests for an answer, in the order they came."""
        paths = ("/v1/messages", "/v1/responses")
        return [one.body for one in list(self.requests) if urlsplit(one.path).path in paths]

    def take(self, logged: Logged) -> Reply:
        events = {"/v1/messages": message_events, "/v1/responses": response_events}
        path = urlsplit(logged.path).path
        if path not in events:
            return super().take(logged)
        self.requests.append(logged)
        reply = self.agent_script(logged.body)
        if reply.status != 200 or reply.body is not None:
            return reply
        number = len(self.requests)
        told = [
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            for event in events[path](reply, logged.body, number)
        ]
        return Reply(
            body="".join(told).encode(),
            headers={**reply.headers, "Content-Type": "text/event-stream"},
            delay_seconds=reply.delay_seconds,
        )


def has_tool_results(body: Mapping[str, Any]) -> bool:
    """Whether a tool has answered in a request of either protocol."""
    said = json.dumps(body.get("messages") or body.get("input"))
    return '"tool_result"' in said or '_call_output"' in said


def message_events(reply: Reply, body: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """An answer as Anthropic streams it."""
    usage = reply.usage or {}
    read = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    counted = {
        "input_tokens": usage.get("prompt_tokens", 0) - read,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": 0,
    }
    message: dict[str, Any] = {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**counted, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if reply.content:
        delta = {"type": "text_delta", "text": reply.content}
        blocks.append(({"type": "text", "text": ""}, delta))
    for call in reply.tool_calls:
        function = call["function"]
        start = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": function["arguments"]}
        blocks.append((start, delta))
    for index, (start, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if reply.tool_calls else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {**counted, "output_tokens": usage.get("completion_tokens", 0)},
    }
    yield {"type": "message_stop"}


def response_events(reply: Reply, body: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """An answer as OpenAI's Responses are streamed."""
    usage = reply.usage or {}
    name = f"resp_{number:04}"
    yield {"type": "response.created", "response": {"id": name}}
    items: list[dict[str, Any]] = []
    if reply.content:
        part = {"type": "output_text", "text": reply.content, "annotations": []}
        items.append({"type": "message", "role": "assistant", "id": "m", "content": [part]})
    items += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": call["id"],
            **call["function"],
        }
        for place, call in enumerate(reply.tool_calls)
    ]
    for item in items:
        yield {"type": "response.output_item.done", "item": item}
    asked, told = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    figures = {
        "input_tokens": asked,
        "input_tokens_details": usage.get("prompt_tokens_details") or {"cached_tokens": 0},
        "output_tokens": told,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + told,
    }
    yield {"type": "response.completed", "response": {"id": name, "usage": figures}}


class GoogleServer(Server):
    """Answers Google's `models/…:streamGenerateContent` with what `script` says."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.agent_script = script

    @property
    def root_url(self) -> str:
        return self.base_url.removesuffix("/v1")

    def take(self, logged: Logged) -> Reply:
        action = urlsplit(logged.path).path.rpartition(":")[2]
        if action not in ("streamGenerateContent", "generateContent"):
            return super().take(logged)
        self.requests.append(logged)
        told = json.dumps(google_answer(self.agent_script(logged.body)))
        if action == "generateContent":
            return Reply(body=told.encode())
        return Reply(
            body=f"data: {told}\r\n\r\n".encode(), headers={"Content-Type": "text/event-stream"}
        )


def google_answer(reply: Reply) -> dict[str, Any]:
    """An answer as Google's API has it; the figures of a chat answer under its names."""
    usage = reply.usage or {}
    parts: list[dict[str, Any]] = [{"text": reply.content}] if reply.content else []
    for call in reply.tool_calls:
        function = call["function"]
        given = {"name": function["name"], "args": json.loads(function["arguments"])}
        parts.append({"functionCall": {"id": call["id"], **given}})
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0)
    asked, told = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    counted = {
        "promptTokenCount": asked,
        "cachedContentTokenCount": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        "candidatesTokenCount": told - thought,
        "thoughtsTokenCount": thought,
        "totalTokenCount": asked + told,
    }
    content = {"role": "model", "parts": parts}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": counted,
        "modelVersion": "gemini-2.5-pro",
    }
