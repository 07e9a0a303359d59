"""The lines of a session of OpenCode: its row, and each message with its parts."""

from typing import Any

import msgspec
from msgspec import Struct, field

from relight.chat.usage import counted_usage
from relight.model import Count, Moment, Usage


class CacheTokens(Struct):
    read: Count | None = None
    write: Count | None = None


class Tokens(Struct):
    input: Count | None = None
    output: Count | None = None
    reasoning: Count | None = None
    cache: CacheTokens = field(default_factory=CacheTokens)

    def read(self) -> Usage:
        reasoning = self.reasoning or 0
        return counted_usage(
            Usage(
                input=self.input,
                cache_read=self.cache.read or 0,
                cache_write=self.cache.write or 0,
                output=None if self.output is None else self.output + reasoning,
                reasoning=self.reasoning,
            )
        )


class Times(Struct):
    created: Moment | None = None
    completed: Moment | None = None
    start: Moment | None = None
    end: Moment | None = None


class ErrorFields(Struct):
    message: str | None = None
    statusCode: int | None = None


class MessageError(Struct):
    name: str = ""
    data: ErrorFields = field(default_factory=ErrorFields)


class MessageData(Struct):
    role: str = ""
    time: Times = field(default_factory=Times)
    modelID: str | None = None
    providerID: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    error: MessageError | None = None
    # of a user's message it is an object, of an answer True if that is a compaction's summary
    summary: Any = None


class CallState(Struct):
    status: str = ""
    input: Any = None
    output: str | None = None
    error: str | None = None
    metadata: dict[str, Any] | None = None
    time: Times = field(default_factory=Times)


class PartData(Struct):
    type: str = ""
    text: str | None = None
    synthetic: bool = False
    ignored: bool = False
    tool: str | None = None
    callID: str | None = None
    state: CallState | None = None
    tokens: Tokens | None = None
    cost: float | None = None


class Part(Struct):
    id: str
    data: PartData


class OpenCodeMessage(Struct, tag_field="table", tag="message"):
    id: str
    session_id: str
    time_created: Moment
    # True if nothing of it will change
    is_done: bool
    data: MessageData
    parts: list[Part] = []


class OpenCodeSession(Struct, tag_field="table", tag="session"):
    id: str
    parent_id: str | None = None
    directory: str | None = None
    version: str | None = None
    time_created: Moment | None = None


decode_line = msgspec.json.Decoder(OpenCodeSession | OpenCodeMessage).decode
