"""Answers of models as they come over the wire, whole or as a stream of events, of four APIs.

A stream is put together into the response that the same API gives without streaming, so that both
are read in one way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.answers import DONE, ChatChunk, Gathering, Splitter, read_answer, read_chunk
from relight.chat.requests import UNREADABLE, WireFormat

BROKEN = "the stream broke off before its end"
# what the states of a response mean that is not finished yet, or never will be
PENDING = ("queued", "in_progress")
FAILED = ("failed", "cancelled")
# stands for the mark at the end of a stream, which is no JSON
ENDED = b'{"done":true}'
# of chunks of a chat completion only a few fields are decoded
_decode_chunks = msgspec.json.Decoder(list[ChatChunk]).decode


class WireAnswer(Struct, frozen=True):
    """A model's answer; `items` have the form in which a later request repeats it."""

    message: dict[str, Any]
    items: list[Any] = []
    usage: dict[str, Any] | None = None
    model: str | None = None
    id: str | None = None
    # the API's error, if the answer is one or ended in one
    error: object = None
    is_complete: bool = True
    # True if the answer is made later and must be asked for again
    is_pending: bool = False
    # when the first part of the answer arrived, by the clock of the pieces
    first_at: float | None = None


def read_whole(name: WireFormat, body: bytes) -> WireAnswer:
    """Return the answer in a response that was not streamed."""
    try:
        response = msgspec.json.decode(body)
    except UNREADABLE:
        response = None
    if isinstance(response, list):  # a stream of Gemini's without events is a list of chunks
        return _gather(name, response)[0]
    if not isinstance(response, dict):
        return WireAnswer({}, error="the answer is not a JSON object", is_complete=False)
    return _read_response(name, response, error=response.get("error"))


def read_stream(name: WireFormat, times: Sequence[float], pieces: Sequence[bytes]) -> WireAnswer:
    """Return the answer that the pieces of a stream make; `times` is when each arrived."""
    stream = b"".join(pieces)
    data, events = _decode_events(name, stream)
    answer, first = _gather(name, events)
    if first is None:
        return answer
    end = stream.find(data[first]) + len(data[first])
    arrived = zip(times, accumulate(map(len, pieces)), strict=True)
    first_at = next((at for at, size in arrived if size >= end), None)
    return msgspec.structs.replace(answer, first_at=first_at)


def _decode_events(name: WireFormat, stream: bytes) -> tuple[list[bytes], Sequence[object]]:
    """The data of a stream's events, and what each says; nearly always the data is one line."""
    decode: Callable[[bytes], Sequence[object]] = msgspec.json.decode
    if name == "chat":
        decode = _decode_chunks
    for split in (_split_plain, _split_lines):
        data = split(stream)
        known = [*data[:-1], ENDED] if data[-1:] == [DONE] else data
        with suppress(*UNREADABLE):
            return data, decode(b"[%b]" % b",".join(known))
    splitter, data, events = Splitter(), [], []
    for one in (*splitter.feed(stream), *splitter.finish()):
        with suppress(*UNREADABLE):
            events.append(msgspec.json.decode(ENDED if one.strip() == DONE else one))
            data.append(one)
    return data, events


def _split_plain(stream: bytes) -> list[bytes]:
    """The data of events that have nothing else, as most servers write them."""
    return stream.strip().removeprefix(b"data: ").split(b"\n\ndata: ")


def _split_lines(stream: bytes) -> list[bytes]:
    return [line[5:].strip() for line in stream.split(b"\n") if line.startswith(b"data:")]


def _gather(name: WireFormat, events: Iterable[object]) -> tuple[WireAnswer, int | None]:
    """The answer that events make, and the number of the first with a part of it."""
    made = GATHERERS[name]()
    first = made.add_all(events)
    answer = _read_response(name, made.whole(), error=made.error)
    is_complete = answer.is_complete and made.is_complete
    return msgspec.structs.replace(answer, is_complete=is_complete), first


def _read_response(name: WireFormat, response: dict[str, Any], *, error: object) -> WireAnswer:
    items = _list_items(name, response)
    state = response.get("status") if name == "responses" else None
    if state in FAILED and error is None:
        error = f"the response is {state}"
    usage = response.get("usageMetadata" if name == "gemini" else "usage")
    found = read_answer(_find_said(name, items))
    return WireAnswer(
        message=found or {"role": "assistant", "content": None},
        items=items,
        usage=usage if isinstance(usage, dict) else None,
        model=_text(response.get("modelVersion" if name == "gemini" else "model")),
        id=_text(response.get("id", response.get("responseId"))),
        error=error,
        is_complete=error is None,
        is_pending=state in PENDING,
    )


def _list_items(name: WireFormat, response: Mapping[str, Any]) -> list[Any]:
    match name:
        case "chat":
            first = _first(response.get("choices"))
            message = first.get("message")
            return [{"role": "assistant", **message}] if isinstance(message, dict) else []
        case "messages":
            return [{"role": "assistant", "content": response.get("content") or []}]
        case "gemini":
            content = _first(response.get("candidates")).get("content")
            parts = content.get("parts") if isinstance(content, dict) else None
            return [{"role": "model", "parts": parts or []}]
    output = response.get("output")
    return output if isinstance(output, list) else []


def _find_said(name: WireFormat, items: list[Any]) -> object:
    """The part of an answer's items that holds its words and calls."""
    match name:
        case "responses":
            return items
        case "messages":
            return items[0]["content"]
        case "gemini":
            return items[0]["parts"]
    return items[0] if items else None


def _first(listed: object) -> Mapping[str, Any]:
    first = listed[0] if isinstance(listed, list) and listed else None
    return first if isinstance(first, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class Gatherer(ABC):
    """Puts the events of a stream together."""

    def __init__(self) -> None:
        self.error: object = None
        self.is_complete = False

    def add_all(self, events: Iterable[object]) -> int | None:
        """Add events; return the number of the first that has a part of the answer itself."""
        first = None
        for number, event in enumerate(events):
            if isinstance(event, dict) and self.add(event) and first is None:
                first = number
        return first

    def add(self, event: dict[str, Any]) -> bool:
        """Add an event; True if it has a part of the answer itself."""
        return False

    @abstractmethod
    def whole(self) -> dict[str, Any]:
        """Return the response so far, as it is without streaming."""


class ChatGatherer(Gatherer):
    """Chunks of a chat completion."""

    def __init__(self) -> None:
        super().__init__()
        self._gathered = Gathering()

    def add_all(self, events: Iterable[object]) -> int | None:
        made = self._gathered
        has_answer = [made.add(read_chunk(event)) for event in events]
        self.error = made.error
        self.is_complete = made.is_done or made.finish_reason is not None
        return has_answer.index(True) if True in has_answer else None

    def whole(self) -> dict[str, Any]:
        made = self._gathered
        choices = [{"message": made.message()}]
        return {"id": made.id, "model": made.model, "usage": made.usage, "choices": choices}


class MessagesGatherer(Gatherer):
    """Events of Anthropic's API: a message, its blocks, and their parts."""

    def __init__(self) -> None:
        super().__init__()
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}

    def add(self, event: dict[str, Any]) -> bool:
        match event:
            case {"type": "content_block_delta", "index": int(place), "delta": dict(delta)}:
                words = delta.get("text", delta.get("partial_json", delta.get("thinking")))
                if isinstance(words, str):
                    self._texts.setdefault(place, []).append(words)
                return bool(words)
            case {"type": "content_block_start", "index": int(place), "content_block": dict(block)}:
                self._blocks[place] = block
                return block.get("type") == "tool_use"
            case {"type": "message_start", "message": dict(message)}:
                self._message = message
                self._count(message.get("usage"))
            case {"type": "message_delta"}:
                self._count(event.get("usage"))
                ended = event.get("delta")
                # the last event, `message_stop`, has nothing new: some clients do not wait for it
                self.is_complete = isinstance(ended, dict) and bool(ended.get("stop_reason"))
            case {"type": "message_stop"}:
                self.is_complete = True
            case {"type": "error"}:
                self.error = event.get("error") or event
        return False

    def _count(self, usage: object) -> None:
        """Take the figures of an event: they are totals so far, and a later event has fewer."""
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def whole(self) -> dict[str, Any]:
        content = [self._finish(place, block) for place, block in sorted(self._blocks.items())]
        return {**self._message, "content": content, "usage": self._usage or None}

    def _finish(self, place: int, block: dict[str, Any]) -> dict[str, Any]:
        words = "".join(self._texts.get(place, ()))
        if block.get("type") == "text":
            return {**block, "text": f"{block.get('text') or ''}{words}"}
        return {**block, "input": words} if words and "input" in block else block


class ResponsesGatherer(Gatherer):
    """Events of OpenAI's Responses; the last of them has the whole response."""

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._items: list[Any] = []
        self._texts: list[str] = []

    def add(self, event: dict[str, Any]) -> bool:
        kind = str(event.get("type") or "")
        if kind.endswith(".delta"):
            words = event.get("delta")
            if kind == "response.output_text.delta" and isinstance(words, str):
                self._texts.append(words)
            return bool(words)
        if kind == "response.output_item.done":
            self._items.append(event.get("item"))
            self._texts.clear()
        elif kind == "error":
            self.error = event.get("error") or event
        elif isinstance(found := event.get("response"), dict):
            self._response = found
            self.is_complete = kind in ("response.completed", "response.incomplete")
            self.error = found.get("error") or self.error
        return False

    def whole(self) -> dict[str, Any]:
        if self._response.get("output"):
            return self._response
        begun = [{"type": "output_text", "text": "".join(self._texts)}] if self._texts else []
        message = [{"type": "message", "role": "assistant", "content": begun}] if begun else []
        return {**self._response, "output": [*self._items, *message]}


class GeminiGatherer(Gatherer):
    """Chunks of Gemini's API: each is a response with some more parts."""

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._parts: list[Any] = []

    def add(self, event: dict[str, Any]) -> bool:
        self.error = event.get("error") or self.error
        self._response |= event
        first = _first(event.get("candidates"))
        blocked = event.get("promptFeedback")
        is_blocked = isinstance(blocked, dict) and "blockReason" in blocked
        self.is_complete = self.is_complete or is_blocked or "finishReason" in first
        content = first.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            self._add_part(part)
        return bool(parts)

    def _add_part(self, part: Any) -> None:
        """Join a text with the text before it: the pieces of a stream are no paragraphs."""
        last = self._parts[-1] if self._parts else None
        is_text = isinstance(part, dict) and set(part) == {"text"}
        if is_text and isinstance(last, dict) and set(last) == {"text"}:
            self._parts[-1] = {"text": f"{last['text']}{part['text']}"}
        else:
            self._parts.append(part)

    def whole(self) -> dict[str, Any]:
        return {**self._response, "candidates": [{"content": {"parts": self._parts}}]}


GATHERERS: dict[WireFormat, type[Gatherer]] = {
    "chat": ChatGatherer,
    "responses": ResponsesGatherer,
    "messages": MessagesGatherer,
    "gemini": GeminiGatherer,
}
