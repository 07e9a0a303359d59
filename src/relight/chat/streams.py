"""Streams of chat chunks: from bytes to chunks, from chunks to the message."""

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from math import isfinite
from operator import itemgetter
from typing import Any

import msgspec

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


class Gathering:
    """The message that the chunks so far make, and the other facts of the stream."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.created: int | None = None
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self._texts: dict[str, list[str]] = {}
        self._calls: list[tuple[int, _Call]] = []

    def add(self, chunk: Mapping[str, Any]) -> bool:
        """Add a chunk; True if it has a part of the answer itself."""
        self.id = self.id or _text(chunk.get("id"))
        self.model = self.model or _text(chunk.get("model"))
        created = chunk.get("created")
        if self.created is None and isinstance(created, int | float) and isfinite(created):
            self.created = int(created)
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict) or first.get("index", 0) != 0:
            return False
        self.finish_reason = _text(first.get("finish_reason")) or self.finish_reason
        delta = first.get("delta")
        return self._add_delta(delta) if isinstance(delta, dict) else False

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        has_any = False
        for name in TEXTS:
            value = delta.get(name)
            if value is not None and (text := _join_parts(value)) is not None:
                self._texts.setdefault(name, []).append(text)
                has_any = has_any or bool(text)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
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


def _join_parts(value: object) -> str | None:
    """The text of a content, which some servers split into parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) or "" for part in value if isinstance(part, dict))
    return _text(value)


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
