"""Answers in the shape of the OpenAI SDK's, so that programs written for it read them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct


class Shape(Struct, kw_only=True):
    """A value with attributes, that can be turned into plain data as the SDK's can."""

    def model_dump(self, *, exclude_none: bool = False, exclude_unset: bool = False) -> Any:
        plain = msgspec.to_builtins(self)
        return _drop_none(plain) if exclude_none or exclude_unset else plain

    def model_dump_json(self, *, exclude_none: bool = False) -> str:
        return msgspec.json.encode(self.model_dump(exclude_none=exclude_none)).decode()

    def to_dict(self) -> Any:
        return self.model_dump(exclude_none=True)


class Function(Shape):
    name: str | None = None
    arguments: str | None = None


class Call(Shape):
    id: str | None = None
    function: Function = msgspec.field(default_factory=Function)
    type: str | None = "function"


class CallPart(Call):
    index: int = 0
    type: str | None = None


class Message(Shape):
    role: str | None = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    reasoning_content: str | None = None


class Delta(Shape):
    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPart] | None = None
    reasoning_content: str | None = None


class Choice(Shape):
    index: int = 0
    message: Message = msgspec.field(default_factory=Message)
    finish_reason: str | None = None
    logprobs: Any = None


class ChunkChoice(Shape):
    index: int = 0
    delta: Delta = msgspec.field(default_factory=Delta)
    finish_reason: str | None = None
    logprobs: Any = None


class PromptDetails(Shape):
    cached_tokens: int | None = None


class CompletionDetails(Shape):
    reasoning_tokens: int | None = None


class CompletionUsage(Shape):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class ChatCompletion(Shape):
    id: str = ""
    object: str = "chat.completion"
    created: int = 0
    model: str = ""
    choices: list[Choice] = []
    usage: CompletionUsage | None = None
    # what is ours: the advisers, and the cost of the turn as a whole
    moa: dict[str, Any] | None = None


class ChatCompletionChunk(Shape):
    id: str = ""
    object: str = "chat.completion.chunk"
    created: int = 0
    model: str = ""
    choices: list[ChunkChoice] = []
    usage: CompletionUsage | None = None


def shape_completion(fields: Mapping[str, Any]) -> ChatCompletion:
    return msgspec.convert(_drop_none(fields), ChatCompletion, strict=False)


def shape_chunk(fields: Mapping[str, Any]) -> ChatCompletionChunk:
    return msgspec.convert(_drop_none(fields), ChatCompletionChunk, strict=False)


def _drop_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _drop_none(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_drop_none(one) for one in value]
    return value
