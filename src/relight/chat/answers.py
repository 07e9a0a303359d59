"""A model's answer as a chat message, from the plain data of any SDK's response or from a stream.

A response may be the whole of it, one message, or a list of items or blocks. Text and calls become
`content` and `tool_calls`; thoughts are left out, since no API takes them back.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

# the places of the answer inside a whole response
WRAPPERS: tuple[tuple[str | int, ...], ...] = (
    ("choices", 0, "message"),  # OpenAI chat completions, LiteLLM
    ("candidates", 0, "content"),  # Gemini
    ("output", "message"),  # Bedrock Converse
    ("output",),  # OpenAI Responses
    ("message",),
)
# the item types of a call, and the fields that hold a call in an item without a type
CALL_TYPES = ("function_call", "custom_tool_call", "tool_use", "tool_call")
CALL_FIELDS = ("toolUse", "functionCall", "function_call")
ID_FIELDS = ("call_id", "toolUseId", "id")
ARGUMENT_FIELDS = ("arguments", "input", "args")
THOUGHTS = ("reasoning", "thinking", "redacted_thinking")


def read_answer(given: object) -> dict[str, Any] | None:
    """Return the message that plain data holds; None if it holds neither text nor calls.

    A message in the format of OpenAI's chat API is returned as it is, with a role.

    >>> read_answer([{"type": "tool_use", "id": "a", "name": "ls", "input": {}}])["tool_calls"]
    [{'id': 'a', 'type': 'function', 'function': {'name': 'ls', 'arguments': '{}'}}]
    """
    answer = _unwrap(given)
    if isinstance(answer, str):
        return {"role": "assistant", "content": answer}
    if isinstance(answer, list):
        return _join(answer)
    if not isinstance(answer, dict):
        return None
    content = answer.get("content", answer.get("parts"))
    if isinstance(content, list) and (joined := _join(content)):
        if "tool_calls" not in joined and "content" in answer:
            return {"role": "assistant", **answer}
        fields = {"role", "content", "parts", "tool_calls"}
        return {**{k: v for k, v in answer.items() if k not in fields}, **joined}
    called = answer.get("tool_calls")
    if isinstance(called, list) and any(map(_read_call, called)):
        answer = {**answer, "tool_calls": [_read_call(one) or one for one in called]}
    is_message = answer.keys() & {"role", "content", "tool_calls"}
    return {"role": "assistant", **answer} if is_message else None


def _unwrap(given: object) -> object:
    """Return the part of a response that is the answer; the response itself if it is that."""
    if not isinstance(given, dict) or "role" in given or "content" in given:
        return given
    for path in WRAPPERS:
        found: Any = given
        for name in path:
            try:
                found = found[name]
            except (KeyError, IndexError, TypeError):
                found = None
                break
        if found is not None:
            return _unwrap(found)
    return given


def _join(items: Sequence[object]) -> dict[str, Any] | None:
    """Return one message of all text and calls in a list of items; None if it has none."""
    parts = list(_flatten(items))
    calls = [call for part in parts if (call := _read_call(part))]
    texts = [text for part in parts if (text := _read_part(part)) is not None]
    if not calls and not texts and not any(_is_thought(part) for part in parts):
        return None
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) or None}
    return message | ({"tool_calls": calls} if calls else {})


def _flatten(items: Sequence[object]) -> Iterator[object]:
    for item in items:
        inner = item.get("content") if isinstance(item, dict) else None
        if isinstance(inner, list) and not _is_thought(item):
            yield from inner
        else:
            yield item


def _is_thought(part: object) -> bool:
    return isinstance(part, dict) and (part.get("type") in THOUGHTS or part.get("thought") is True)


def _read_part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or _is_thought(part):
        return None
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else None


def _read_call(part: object) -> dict[str, Any] | None:
    """Return a call in OpenAI's chat format; None for other items."""
    if not isinstance(part, dict):
        return None
    if isinstance(part.get("function"), Mapping):
        return part
    holder = next((part[name] for name in CALL_FIELDS if isinstance(part.get(name), dict)), None)
    body = holder or (part if part.get("type") in CALL_TYPES else {})
    if not isinstance(name := body.get("name"), str):
        return None
    key = next((body[one] for one in ID_FIELDS if body.get(one) is not None), "")
    arguments: object = next(
        (body[one] for one in ARGUMENT_FIELDS if body.get(one) is not None), {}
    )
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"id": str(key), "type": "function", "function": {"name": name, "arguments": arguments}}


DONE = b"[DONE]"
TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class Splitter:
    """Splits a stream of server-sent events into the data of each event.

    Lines are split as bytes and decoded only when complete, so that a character may arrive in two
    pieces.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        if b"\n" not in piece:  # joined once: a line may be as long as an answer
            self._rest.append(piece)
            return
        *lines, rest = b"".join([*self._rest, piece]).split(b"\n")
        self._rest = [rest]
        for line in lines:
            line = line.rstrip(b"\r").removeprefix(BOM_UTF8)
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data.clear()

    def finish(self) -> Iterator[bytes]:
        """Return the data of an unfinished last event: some servers omit the last empty line."""
        return self.feed(b"\n\n")


class _Call:
    """The parts of a call so far."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


class StreamDelta(Struct):
    """A part of a message; servers put many kinds of values into it."""

    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class StreamChoice(Struct):
    index: Any = 0
    delta: StreamDelta | None = None
    finish_reason: Any = None


class ChatChunk(Struct):
    """The fields of a chat completion's chunk that are read; nothing else of it is decoded."""

    id: Any = None
    model: Any = None
    created: Any = None
    usage: Any = None
    choices: list[StreamChoice] | None = None
    error: Any = None
    # True for the mark at the end of a stream
    done: bool = False


DELTA_FIELDS = frozenset(StreamDelta.__struct_fields__)


def read_chunk(given: object) -> ChatChunk:
    """Return a chunk of any shape; only the parts of a chunk are kept."""
    if isinstance(given, ChatChunk):
        return given
    if not isinstance(given, Mapping):
        return ChatChunk()
    choices = given.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    made = []
    if isinstance(first, dict):
        delta = first.get("delta")
        known = delta if isinstance(delta, dict) else {}
        parts = {name: value for name, value in known.items() if name in DELTA_FIELDS}
        made = [
            StreamChoice(first.get("index", 0), StreamDelta(**parts), first.get("finish_reason"))
        ]
    return ChatChunk(
        id=given.get("id"),
        model=given.get("model"),
        created=given.get("created"),
        usage=given.get("usage"),
        choices=made,
        error=given.get("error"),
        done="done" in given,
    )


class Gathering:
    """The message that the chunks so far make, and the other facts of the stream."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.created: int | None = None
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self.error: object = None
        # True after the mark at the end of a stream
        self.is_done = False
        self._texts: dict[str, list[str]] = {}
        self._calls: list[tuple[int, _Call]] = []

    def add(self, given: ChatChunk | Mapping[str, Any]) -> bool:
        """Add a chunk; True if it has a part of the answer itself."""
        chunk = read_chunk(given)
        self.error = chunk.error or self.error
        self.is_done = chunk.done or self.is_done
        if not (self.id and self.model and self.created):  # Azure's first chunk has empty ones
            self._add_facts(chunk)
        if isinstance(chunk.usage, dict):
            self.usage = chunk.usage
        if not chunk.choices or chunk.choices[0].index != 0:
            return False
        first = chunk.choices[0]
        if first.finish_reason is not None:
            self.finish_reason = _text(first.finish_reason) or self.finish_reason
        return self._add_delta(first.delta) if first.delta else False

    def _add_facts(self, chunk: ChatChunk) -> None:
        self.id = self.id or _text(chunk.id)
        self.model = self.model or _text(chunk.model)
        created = chunk.created
        if not self.created and isinstance(created, int | float) and isfinite(created):
            self.created = int(created)

    def _add_delta(self, delta: StreamDelta) -> bool:
        has_any = False
        for name in TEXTS:
            if (value := getattr(delta, name)) is None:
                continue
            text = _text(value)
            if isinstance(value, list):  # some servers split it into parts
                parts = (part.get("text") for part in value if isinstance(part, dict))
                text = "".join(_text(part) or "" for part in parts)
            if text is not None:
                self._texts.setdefault(name, []).append(text)
                has_any = has_any or bool(text)
        for call in delta.tool_calls if isinstance(delta.tool_calls, list) else ():
            if isinstance(call, dict):
                self._add_call(call)
                has_any = True
        return has_any

    def _add_call(self, part: Mapping[str, Any]) -> None:
        body = part.get("function")
        function = body if isinstance(body, dict) else {}
        key, name = _text(part.get("id")) or "", _text(function.get("name")) or ""
        call = self._find_call(part.get("index"), key, name)
        call.id, call.name = call.id or key, call.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = msgspec.json.encode(arguments).decode()
        if isinstance(arguments, str):
            call.arguments.append(arguments)

    def _find_call(self, place: object, key: str, name: str) -> _Call:
        """The call that a part continues, or a new one.

        Some servers send whole calls without an index, some give all of them the same, and some
        send a new id with every part: a new call begins with an id and a name that are both new.
        """
        if not isinstance(place, int):
            place = len(self._calls) if key or not self._calls else self._calls[-1][0]
        call = next((one for at, one in reversed(self._calls) if at == place), None)
        if call is None or (key and name and call.id not in ("", key)):
            call = _Call()
            self._calls.append((place, call))
        return call

    @property
    def has_any(self) -> bool:
        return bool(self._calls) or any(any(parts) for parts in self._texts.values())

    def message(self) -> dict[str, Any]:
        """Return the complete message, in the shape of an answer that was not streamed."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        message: dict[str, Any] = {"role": "assistant", "content": texts.pop("content", None)}
        message |= {name: text for name, text in texts.items() if text}
        if self._calls:
            calls = sorted(self._calls, key=itemgetter(0))
            message["tool_calls"] = [call.whole() for _, call in calls]
        return message


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def drop_thoughts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message as it goes back into a conversation: servers refuse their thoughts."""
    return {k: v for k, v in message.items() if k not in ("reasoning_content", "reasoning")}


def name_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with a unique id for each call: some models omit or repeat them.

    >>> twins = {"tool_calls": [{"id": "a", "function": {}}, {"id": "a", "function": {}}]}
    >>> [call["id"] for call in name_calls(twins)["tool_calls"]]
    ['a', 'a-2']
    """
    if not message.get("tool_calls"):
        return {name: value for name, value in message.items() if name != "tool_calls"}
    named, used = [], set()
    for place, call in enumerate(message["tool_calls"], start=1):
        name = str(call.get("id") or f"call-{place}")
        name = name if name not in used else f"{name}-{place}"
        used.add(name)
        named.append({**call, "id": name, "type": "function"})
    return {**message, "tool_calls": named}
