"""Requests to models as they go over the wire, in the formats of four APIs.

A request holds its whole conversation, which grows with every call. So a `RequestReader` remembers
the bytes of conversations, and reads only what follows them.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from relight.chat.answers import CALL_TYPES, read_answer
from relight.chat.messages import read_calls, read_text

# OpenAI's chat completions and Responses, Anthropic's Messages, Gemini's generateContent
WireFormat: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
ENDINGS: tuple[tuple[str, WireFormat], ...] = (
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/messages", "messages"),
    (":rawPredict", "messages"),  # Anthropic's models at Google
    (":streamRawPredict", "messages"),
    (":generateContent", "gemini"),
    (":streamGenerateContent", "gemini"),
)
SPACE = b" \t\r\n"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WirePart(Struct, frozen=True):
    """One part of a conversation: words, a call by a model, or the result of one."""

    kind: Literal["system", "user", "text", "call", "result"]
    text: str = ""
    # of a call or a result: the id, which some APIs omit, and the name
    call: str = ""
    tool: str = ""
    is_error: bool | None = None


class WireItem(Struct, eq=False):
    """One item of a conversation; requests that begin alike share their first items."""

    previous: "WireItem | None"
    # where its JSON ends, counted from the begin of the conversation
    end: int
    # the state of whatever reads conversations item by item, after this one
    note: Any = None


class WireRequest(Struct, frozen=True):
    """A request for an answer of a model; `last` is the last item of its conversation."""

    format: WireFormat
    model: str | None
    last: WireItem | None
    # bytes that hold the conversation, and where it begins in them
    data: bytes
    start: int
    system: str = ""
    # the ids of an earlier answer or conversation that the server continues
    follows: tuple[str, ...] = ()

    def read_item(self, item: WireItem) -> list[WirePart]:
        """Return the parts of an item; none if it cannot be read."""
        start = self.start + (item.previous.end if item.previous else 0)
        data = self.data[start : self.start + item.end].lstrip(b"," + SPACE)
        try:
            return read_parts(self.format, msgspec.json.decode(data))
        except UNREADABLE:
            return []


@lru_cache(maxsize=64)
def find_format(path: str) -> WireFormat | None:
    """Return the format of requests to an address, by its path; None for other addresses.

    >>> find_format("/v1/chat/completions"), find_format("/v1/embeddings")
    ('chat', None)
    """
    path = path.partition("?")[0].rstrip("/")
    return next((name for ending, name in ENDINGS if path.endswith(ending)), None)


def read_parts(name: WireFormat, item: object) -> list[WirePart]:
    """Return the parts of one item of a conversation or of an answer; none if it is not known.

    >>> read_parts("chat", {"role": "tool", "tool_call_id": "a", "content": "3 passed"})
    [WirePart(kind='result', text='3 passed', call='a', tool='', is_error=None)]
    """
    if not isinstance(item, Mapping):
        return []
    role = item.get("role")
    if name == "responses":
        return _read_response_item(item)
    if role in ("assistant", "model"):
        return _read_answered(item)
    if role in ("system", "developer"):
        return [WirePart("system", read_text(item.get("content")))]
    match name:
        case "chat":
            return [_read_chat_message(item)]
        case "messages":
            return list(_read_blocks(item.get("content")))
    return list(_read_gemini_parts(item.get("parts")))


def _read_answered(item: Mapping[str, Any]) -> list[WirePart]:
    """The words and calls of a model, in any format, without its thoughts."""
    content = item.get("content", item.get("parts"))
    is_list = isinstance(content, list) and "tool_calls" not in item
    message = read_answer(content if is_list else item) or {}
    text = read_text(message.get("content"))
    calls = [WirePart("call", call=call.key, tool=call.tool) for call in read_calls(message)]
    return [WirePart("text", text), *calls] if text else calls


def _read_chat_message(item: Mapping[str, Any]) -> WirePart:
    text = read_text(item.get("content"))
    if item.get("role") not in ("tool", "function"):
        return WirePart("user", text)
    key, tool = item.get("tool_call_id"), item.get("name")
    return WirePart("result", text, call=str(key or ""), tool=str(tool or ""))


def _read_blocks(content: object) -> Iterator[WirePart]:
    """The results and the words in a user's message to Anthropic's API."""
    words: list[object] = []
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            failed = block.get("is_error")
            yield WirePart(
                "result",
                read_text(block.get("content")),
                call=str(block.get("tool_use_id") or ""),
                is_error=failed if isinstance(failed, bool) else None,
            )
        else:
            words.append(block)
    if words:
        yield WirePart("user", read_text(words))


def _read_response_item(item: Mapping[str, Any]) -> list[WirePart]:
    kind = str(item.get("type") or "message")
    if kind.endswith("_output"):
        text = read_text(item.get("output"))
        return [WirePart("result", text, call=str(item.get("call_id") or ""))]
    if kind in CALL_TYPES:
        return _read_answered({"content": [item]})
    if kind != "message":
        return []  # reasoning, references, the calls of tools that the server runs
    match item.get("role"):
        case "assistant":
            return _read_answered(item)
        case "system" | "developer":
            return [WirePart("system", read_text(item.get("content")))]
    return [WirePart("user", read_text(item.get("content")))]


def _read_gemini_parts(parts: object) -> Iterator[WirePart]:
    words: list[object] = []
    for part in parts if isinstance(parts, list) else [parts]:
        found = part if isinstance(part, Mapping) else {}
        returned = found.get("functionResponse", found.get("function_response"))
        if isinstance(returned, Mapping):
            answer = returned.get("response")
            # the key `error` is the API's own way to say that a function failed
            has_failed = isinstance(answer, Mapping) and "error" in answer
            yield WirePart(
                "result",
                answer if isinstance(answer, str) else msgspec.json.encode(answer).decode(),
                call=str(returned.get("id") or ""),
                tool=str(returned.get("name") or ""),
                is_error=True if has_failed else None,
            )
        elif part is not None:
            words.append(part)
    if words:
        yield WirePart("user", read_text(words))
