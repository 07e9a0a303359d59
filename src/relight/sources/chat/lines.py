"""The lines of chat files: sessions of OpenAI messages, as far as anything is read from them."""

from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.broken_json import decode_mended
from relight.chat.usage import exclusive_usage
from relight.model import Count, Usage
from relight.sources.files import BOM


class PromptDetails(Struct):
    cached_tokens: Count | None = None


class CompletionDetails(Struct):
    reasoning_tokens: Count | None = None


class ChatUsage(Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Function(Struct):
    name: str = ""
    arguments: Any = None


class Call(Struct):
    id: str = ""
    function: Function = msgspec.field(default_factory=Function)


class ChatMessage(Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    model: str | None = None
    usage: ChatUsage | None = None
    timestamp: Any = None


class Known(Struct):
    """What is known of a call beside its text."""

    call_id: str
    exit_code: int | None = None
    timed_out: bool | None = None
    is_error: bool | None = None


class ChatSession(Struct):
    messages: list[ChatMessage]
    id: str | int | None = None
    model: str | None = None
    provider: str | None = None
    started_at: Any = None
    project: str | None = None
    usage: ChatUsage | None = None
    calls: list[Known] | None = None
    outcome: Any = None


_decode = msgspec.json.Decoder(list[ChatMessage] | ChatSession).decode


def decode_session(line: bytes) -> ChatSession:
    decoded = decode_mended(_decode, line.removeprefix(BOM))
    return decoded if isinstance(decoded, ChatSession) else ChatSession(messages=decoded)


def read_usage(usage: ChatUsage) -> Usage:
    prompt = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    output = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    details = usage.completion_tokens_details
    return exclusive_usage(
        prompt, cached, output, reasoning=details.reasoning_tokens if details else None
    )
