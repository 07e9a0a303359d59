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
# stands between the data of two events
BETWEEN = b"\n\ndata: "


class WordsDelta(Struct, gc=False):
    """The change in a chunk that has words and nothing else."""

    content: str
    refusal: None = None
    reasoning_content: None = None
    reasoning: None = None
    tool_calls: None = None


class WordsChoice(Struct, gc=False):
    delta: WordsDelta
    index: Literal[0] = 0
    finish_reason: None = None


class WordsChunk(Struct, gc=False):
    choices: tuple[WordsChoice]
    usage: None = None
    error: None = None


_decode_texts = msgspec.json.Decoder(list[WordsChunk]).decode
# the formats of which only a few fields are decoded
DECODERS: dict[WireFormat, Callable[[bytes], Sequence[Any]]] = {
    "chat": msgspec.json.Decoder(list[ChatChunk]).decode
}

# the data of events, and what each says; chunks of words alone count as one, with the first's data
Events: TypeAlias = tuple[list[bytes], Sequence[object]]


def decode_events(name: WireFormat, stream: bytes) -> Events:
    """The events of a stream. Nearly always the data of an event is one line."""
    decode: Callable[[bytes], Sequence[object]] = DECODERS.get(name, msgspec.json.decode)
    if name == "chat":
        with suppress(*UNREADABLE):
            return _decode_words(stream)
    for split in (_split_plain, _split_lines):
        data = split(stream)
        with suppress(*UNREADABLE):
            return data, decode(b"[%b]" % b",".join(_mark_end(data)))
    splitter, data, events = Splitter(), [], []
    for one in (*splitter.feed(stream), *splitter.finish()):
        with suppress(*UNREADABLE):
            events.append(msgspec.json.decode(ENDED if one.strip() == DONE else one))
            data.append(one)
    return data, events


def _decode_words(stream: bytes) -> Events:
    """The chunks of an answer in words.

    Raise if there is anything but words between the first and the last chunks.
    """
    data = _split_plain(stream)
    begin, middle, end = data[:EDGE], data[EDGE:-EDGE], data[-EDGE:]
    words = [one.choices[0].delta.content for one in _decode_texts(b"[%b]" % b",".join(middle))]
    if not words or len(words) != len(middle):
        raise msgspec.ValidationError("there are too few chunks of words")
    decode = DECODERS["chat"]
    chunks = decode(b"[%b]" % b",".join(begin))
    if not any(one.id and one.model for one in chunks):
        raise msgspec.ValidationError("the facts come later")
    # one chunk of all words, with the data of the first that has any
    joined = ChatChunk(choices=[StreamChoice(delta=StreamDelta("".join(words)))])
    first = next((data for data, text in zip(middle, words, strict=True) if text), middle[0])
    last = decode(b"[%b]" % b",".join(_mark_end(end)))
    return [*begin, first, *end], [*chunks, joined, *last]


def _mark_end(data: list[bytes]) -> list[bytes]:
    return [*data[:-1], ENDED] if data and data[-1] == DONE else data


def _split_plain(stream: bytes) -> list[bytes]:
    """The data of events that have nothing else, as most servers write them."""
    return stream.strip().removeprefix(b"data: ").split(BETWEEN)


def _split_lines(stream: bytes) -> list[bytes]:
    return [line[5:].strip() for line in stream.split(b"\n") if line.startswith(b"data:")]
