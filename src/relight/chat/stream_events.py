"""The events of a stream, decoded all at once where their data are lines, as nearly always."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from relight.chat.answers import DONE, ChatChunk, Splitter, StreamChoice, StreamDelta
from relight.chat.requests import UNREADABLE, WireFormat

# stands for the mark at the end of a stream, which is no JSON
ENDED = b'{"done":true}'
# how many chunks at either end of a stream may have other things than words
EDGE = 3


class WordsDelta(Struct):
    """The change in a chunk that has words and nothing else."""

    content: str
    refusal: None = None
    reasoning_content: None = None
    reasoning: None = None
    tool_calls: None = None


class WordsChoice(Struct):
    delta: WordsDelta
    index: Literal[0] = 0
    finish_reason: None = None


class WordsChunk(Struct):
    choices: tuple[WordsChoice]
    usage: None = None
    error: None = None


_decode_texts = msgspec.json.Decoder(list[WordsChunk]).decode
# the formats of which only a few fields are decoded
DECODERS: dict[WireFormat, Callable[[bytes], Sequence[Any]]] = {
    "chat": msgspec.json.Decoder(list[ChatChunk]).decode
}

# the data of events, what it says, and the numbers of these data if some are taken together
Events: TypeAlias = tuple[list[bytes], Sequence[object], list[int] | None]


def decode_events(name: WireFormat, stream: bytes) -> Events:
    """The events of a stream. Nearly always the data of an event is one line."""
    decode: Callable[[bytes], Sequence[object]] = DECODERS.get(name, msgspec.json.decode)
    data = _split_plain(stream)
    if name == "chat" and len(data) > 2 * EDGE:
        with suppress(*UNREADABLE):
            return data, *_decode_words(_mark_end(data))
    for split in (_split_plain, _split_lines):
        data = split(stream)
        with suppress(*UNREADABLE):
            return data, decode(b"[%b]" % b",".join(_mark_end(data))), None
    splitter, data, events = Splitter(), [], []
    for one in (*splitter.feed(stream), *splitter.finish()):
        with suppress(*UNREADABLE):
            events.append(msgspec.json.decode(ENDED if one.strip() == DONE else one))
            data.append(one)
    return data, events, None


def _decode_words(data: list[bytes]) -> tuple[list[ChatChunk], list[int]]:
    """The chunks of an answer in words, those in the middle as one chunk, and their numbers.

    Raise if there is anything but words between the first and the last chunks.
    """
    decode = DECODERS["chat"]
    begin, end = data[:EDGE], data[-EDGE:]
    texts = _decode_texts(b"[%b]" % b",".join(data[EDGE:-EDGE]))
    words = [one.choices[0].delta.content for one in texts]
    chunks = decode(b"[%b]" % b",".join(begin))
    if len(words) != len(data) - 2 * EDGE or not any(one.id and one.model for one in chunks):
        raise msgspec.ValidationError("the facts come later")
    first = next((place for place, text in enumerate(words) if text), 0)
    middle = ChatChunk(choices=[StreamChoice(delta=StreamDelta("".join(words)))])
    numbers = [*range(EDGE), EDGE + first, *range(len(data) - EDGE, len(data))]
    return [*chunks, middle, *decode(b"[%b]" % b",".join(end))], numbers


def _mark_end(data: list[bytes]) -> list[bytes]:
    return [*data[:-1], ENDED] if data and data[-1] == DONE else data


def _split_plain(stream: bytes) -> list[bytes]:
    """The data of events that have nothing else, as most servers write them."""
    return stream.strip().removeprefix(b"data: ").split(b"\n\ndata: ")


def _split_lines(stream: bytes) -> list[bytes]:
    return [line[5:].strip() for line in stream.split(b"\n") if line.startswith(b"data:")]
