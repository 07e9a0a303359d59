"""The conversation in the attributes of a call: messages with text, tool calls and their results.

Exporters write messages as JSON text, as structured values, or as one attribute for each part.
Every request repeats the conversation so far: only the end of it is new.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from relight.sources.otlp.names import find_value, read_table

FLAT_NAME = re.compile(r"(\d{1,6})\.(.+)")
FLAT_CALL = re.compile(
    r"(?:message\.)?tool_calls\.(\d{1,6})\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)"
)
FLAT_TEXT = re.compile(r"(?:message\.)?contents\.(\d{1,6})\.message_content\.text")
ANSWERS = ("assistant", "model", "ai")


class AskedTool(Struct, frozen=True, omit_defaults=True):
    """A tool call that a message asks for."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class ToolAnswer(Struct, frozen=True, omit_defaults=True):
    """The result of a tool call in a message."""

    id: str = ""
    text: str = ""


class TelemetryMessage(Struct, frozen=True, omit_defaults=True):
    """A message of a conversation; the results of tools may be in one of a user."""

    role: str
    text: str = ""
    calls: list[AskedTool] = []
    results: list[ToolAnswer] = []

    @property
    def is_answer(self) -> bool:
        return self.role in ANSWERS


def find_messages(
    attributes: Mapping[str, Any],
) -> tuple[list[TelemetryMessage], list[TelemetryMessage]]:
    """Return the messages of a request and those of its response."""
    asked = read_message_list(find_value(attributes, "input_messages"))
    answered = read_message_list(find_value(attributes, "output_messages"))
    if asked or answered:
        return asked, answered
    for flat in read_table().flat_messages:
        asked = _read_flat(attributes, f"{flat.input}.")
        answered = _read_flat(attributes, f"{flat.output}.")
        if asked or answered:
            return asked, answered
    return [], []


def read_message_list(value: Any) -> list[TelemetryMessage]:
    """Return messages from a list or its JSON text."""
    value = _read_json(value)
    return [read_message(one) for one in value or () if isinstance(one, dict)]


def _read_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value if isinstance(value, list) else None
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def read_message(message: Mapping[str, Any], role: str = "") -> TelemetryMessage:
    """Return a message of the conventions (`parts`) or of a chat API (`content`, `tool_calls`)."""
    role = str(message.get("role") or role)
    texts: list[str] = []
    calls: list[AskedTool] = []
    results: list[ToolAnswer] = []
    for part in (*_list(message.get("parts")), *_list(message.get("content"))):
        _read_part(part, texts, calls, results)
    content = message.get("content")
    if isinstance(content, str):
        texts.append(content)
    for one in _list(message.get("tool_calls")):
        if isinstance(one, dict):
            function = one.get("function")
            held = function if isinstance(function, dict) else one
            calls.append(_make_call(one.get("id"), held.get("name"), held.get("arguments")))
    if role == "tool" and not results:
        found = message.get("tool_call_id") or message.get("id")
        results.append(ToolAnswer(_text(found), "\n".join(texts)))
        texts = []
    return TelemetryMessage(role, "\n".join(text for text in texts if text), calls, results)


def _read_part(
    part: Any, texts: list[str], calls: list[AskedTool], results: list[ToolAnswer]
) -> None:
    if not isinstance(part, dict):
        return
    match part.get("type"):
        case "text":
            texts.append(_text(part.get("content") or part.get("text")))
        case "tool_call" | "tool_use" | "function_call":
            given = part.get("arguments") if "arguments" in part else part.get("input")
            calls.append(_make_call(part.get("id"), part.get("name"), given))
        case "tool_call_response" | "tool_result":
            given = next(
                (part[name] for name in ("response", "result", "content") if name in part), ""
            )
            found = part.get("id") or part.get("tool_use_id") or part.get("tool_call_id")
            results.append(ToolAnswer(_text(found), _text(given)))
        case _:
            pass  # reasoning, images and files


def _make_call(call_id: Any, name: Any, arguments: Any) -> AskedTool:
    return AskedTool(_text(call_id), _text(name), _text(arguments))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Text as it is, a list of text parts joined, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(one, dict) and "text" in one for one in value):
        return "\n".join(_text(one["text"]) for one in value)
    return msgspec.json.encode(value).decode()


def _read_flat(attributes: Mapping[str, Any], prefix: str) -> list[TelemetryMessage]:
    """Messages whose parts are attributes: `<prefix>0.message.role` and so on."""
    found: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        if name.startswith(prefix) and (place := FLAT_NAME.fullmatch(name, len(prefix))):
            found.setdefault(int(place[1]), {})[place[2]] = value
    return [_read_flat_message(parts) for _, parts in sorted(found.items())]


def _read_flat_message(parts: Mapping[str, Any]) -> TelemetryMessage:
    calls: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    for name, value in parts.items():
        if place := FLAT_CALL.fullmatch(name):
            calls.setdefault(int(place[1]), {})[place[2]] = value
        elif place := FLAT_TEXT.fullmatch(name):
            texts[int(place[1])] = _text(value)
    short = {name.removeprefix("message."): value for name, value in parts.items()}
    content = short.get("content") or "\n".join(text for _, text in sorted(texts.items()))
    message = {
        "role": short.get("role"),
        "content": content,
        "tool_call_id": short.get("tool_call_id"),
        "tool_calls": [call for _, call in sorted(calls.items())],
    }
    return read_message(message)


def find_new(messages: list[TelemetryMessage]) -> list[TelemetryMessage]:
    """Return the messages that an earlier request had not: the last answer and all after it.

    The answer itself is not new, but has the calls whose results follow it.
    """
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].is_answer:
            return messages[place:]
    return messages


def name_conversation(
    service: str, asked: Iterable[TelemetryMessage], answered: Iterable[TelemetryMessage]
) -> str | None:
    """Return the name of a conversation: a hash of its first prompt and the first answer to it.

    All requests of a conversation contain both, so each names it alike, in whatever order they
    arrive. A tool call's id says more about an answer than its words. None without an answer.
    """
    prompts = [service]
    for message in (*asked, *answered):
        if message.is_answer:
            ids = sorted(call.id for call in message.calls if call.id)
            return _hash("\0".join(prompts), *(ids or [message.text.strip()]))
        prompts.append(f"{message.role}\1{message.text.strip()}")
    return None


def _hash(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "replace")
    return blake2b(text, digest_size=12).hexdigest()
