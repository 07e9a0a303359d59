"""The lines of a Claude Code transcript, as far as anything is derived from them."""

import msgspec
from msgspec import Raw, Struct

from relight.sources.reading import Count, decode_mended


class CacheCreation(Struct):
    ephemeral_1h_input_tokens: Count = 0


class OutputDetails(Struct):
    thinking_tokens: Count | None = None


class LineUsage(Struct):
    input_tokens: Count = 0
    cache_read_input_tokens: Count | None = 0
    cache_creation_input_tokens: Count | None = 0
    output_tokens: Count = 0
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None


class Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"")
    text: str = ""
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"")


class Message(Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: LineUsage | None = None


class ModelUsage(Struct):
    inputTokens: Count = 0
    outputTokens: Count = 0
    thinkingTokens: Count | None = None
    cacheReadInputTokens: Count = 0
    cacheCreationInputTokens: Count = 0
    cacheCreationEphemeral1hInputTokens: Count | None = None


class Line(Struct):
    type: str = ""
    sessionId: str | None = None
    timestamp: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    isSidechain: bool = False
    agentId: str | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    cwd: str | None = None
    version: str | None = None
    message: Message | None = None
    requestId: str | None = None
    isApiErrorMessage: bool | None = None
    apiErrorStatus: int | None = None
    attributionSkill: str | None = None
    sourceToolUseID: str | None = None
    modelUsage: dict[str, ModelUsage] | None = None


_decode = msgspec.json.Decoder(Line).decode


def decode_line(line: bytes) -> Line:
    return decode_mended(_decode, line)
