"""Streams of chat chunks: from bytes to chunks, from chunks to the message they make."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

DONE = b"[DONE]"
TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class Splitter:
    """Cuts a stream of server-sent events into the data of each, wherever its bytes were cut.

    Lines are cut as bytes and read as text only when whole, so that a character may come in two
    pieces.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            yield from self._read_line(line.rstrip(b"\r"))

    def finish(self) -> Iterator[bytes]:
        """What was left without its end: some servers leave out the last empty line."""
        rest, self._rest = self._rest, b""
        yield from self._read_line(rest.rstrip(b"\r"))
        yield from self._read_line(b"")

    def _read_line(self, line: bytes) -> Iterator[bytes]:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            yield b"\n".join(self._data)
            self._data.clear()


class Gathering:
    """The message that chunks have made so far, with what else the stream told."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.created: int | None = None
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def add(self, chunk: Mapping[str, Any]) -> bool:
        """Add a chunk; tells whether it brought anything of the answer itself."""
        self.id = self.id or chunk.get("id")
        self.model = self.model or chunk.get("model")
        self.created = self.created or chunk.get("created")
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict) or first.get("index", 0) != 0:
            return False
        self.finish_reason = first.get("finish_reason") or self.finish_reason
        delta = first.get("delta")
        return self._add_delta(delta) if isinstance(delta, dict) else False

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        has_any = False
        for name in TEXTS:
            if isinstance(text := delta.get(name), str):
                self._texts.setdefault(name, []).append(text)
                has_any = has_any or bool(text)
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                self._add_call(call)
                has_any = True
        return has_any

    def _add_call(self, part: Mapping[str, Any]) -> None:
        place = part.get("index")
        if not isinstance(place, int):  # some servers send whole calls without a number
            place = len(self._calls) if part.get("id") or not self._calls else max(self._calls)
        call = self._calls.setdefault(
            place, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = call["id"] or part.get("id") or ""
        function = part.get("function") or {}
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        call["function"]["arguments"] += arguments or ""

    @property
    def has_any(self) -> bool:
        return bool(self._calls) or any(any(parts) for parts in self._texts.values())

    def message(self) -> dict[str, Any]:
        """The message as a whole, in the shape of an answer that was not streamed."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        message: dict[str, Any] = {"role": "assistant", "content": texts.pop("content", None)}
        message |= {name: text for name, text in texts.items() if text}
        if self._calls:
            message["tool_calls"] = [self._calls[place] for place in sorted(self._calls)]
        return message


def drop_thoughts(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as it goes back into a conversation: servers refuse their own thoughts."""
    return {k: v for k, v in message.items() if k not in ("reasoning_content", "reasoning")}


def name_calls(message: dict[str, Any]) -> dict[str, Any]:
    """The message with an id of its own for each call: some models leave them out or repeat them.

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
