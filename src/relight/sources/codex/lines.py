"""The lines of a Codex rollout, and what each one means by itself."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.chat.broken_json import decode_mended
from relight.model import Count
from relight.sources.reading import find_texts, write_value

CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
# what the client itself puts in front of a person's words
HARNESS = ("<", "# AGENTS.md")
RESULTS = ("function_call_output", "custom_tool_call_output")


class TokenUsage(Struct):
    input_tokens: Count = 0
    cached_input_tokens: Count | None = 0
    cache_write_input_tokens: Count | None = 0
    output_tokens: Count = 0
    reasoning_output_tokens: Count | None = None
    total_tokens: Count | None = None


class TokenInfo(Struct):
    total_token_usage: TokenUsage | None = None
    last_token_usage: TokenUsage | None = None


class ItemDuration(Struct):
    secs: Annotated[int, Meta(ge=0, le=10**9)] = 0
    nanos: Count = 0


class CompletedItem(Struct):
    type: str = ""
    id: str = ""
    exit_code: int | None = None
    duration: ItemDuration | None = None


class ContentPart(Struct):
    text: str | None = None


class Payload(Struct):
    type: str = ""
    id: str | None = None
    turn_id: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    model_provider: str | None = None
    source: Any = None
    forked_from_id: str | None = None
    model: str | None = None
    info: TokenInfo | None = None
    response_id: str | None = None
    usage: TokenUsage | None = None
    name: str | None = None
    arguments: str | None = None
    input: Any = None
    action: Any = None
    call_id: str | None = None
    output: Any = None
    status: str | None = None
    role: str | None = None
    content: list[ContentPart] | None = None
    message: str | None = None
    item: CompletedItem | None = None
    duration_ms: int | None = None
    reason: str | None = None


class RolloutLine(Struct):
    type: str = ""
    timestamp: str | None = None
    payload: Payload | None = None


_decode = msgspec.json.Decoder(RolloutLine).decode


def decode_line(line: bytes) -> RolloutLine:
    return decode_mended(_decode, line)


def find_spawner(payload: Payload) -> str | None:
    """The thread that spawned a session, if its `source` names a sub-agent."""
    try:
        spawner = payload.source["subagent"]["thread_spawn"]["parent_thread_id"]
    except (KeyError, TypeError):
        return None
    return spawner if isinstance(spawner, str) else None


def find_arguments(payload: Payload) -> str | None:
    """A call's arguments: the text that a model wrote, else JSON."""
    if payload.arguments is not None:
        return payload.arguments
    return as_text(payload.input if payload.input is not None else payload.action)


def as_text(value: Any) -> str | None:
    if isinstance(value, list) and (texts := find_texts(value)):
        return "\n".join(texts)
    return write_value(value)
