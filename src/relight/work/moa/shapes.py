"""Completions in the shape of the OpenAI SDK's, for programs written for it."""

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from relight.errors import RelightError, describe


class Shape(Struct, kw_only=True):
    """A value with attributes that converts to plain data as the SDK's values do."""

    def model_dump(self, *, exclude_none: bool = False, exclude_unset: bool = False) -> Any:
        plain = msgspec.to_builtins(self)
        return _drop_none(plain) if exclude_none or exclude_unset else plain

    def model_dump_json(self, *, exclude_none: bool = False) -> str:
        return msgspec.json.encode(self.model_dump(exclude_none=exclude_none)).decode()

    def to_dict(self) -> Any:
        return self.model_dump(exclude_none=True)


class FunctionCall(Shape):
    name: str | None = None
    arguments: str | None = None


class ChatToolCall(Shape):
    id: str | None = None
    function: FunctionCall = msgspec.field(default_factory=FunctionCall)
    type: str | None = "function"


class ChatToolCallDelta(ChatToolCall):
    index: int = 0
    type: str | None = None


class CompletionMessage(Shape):
    role: str | None = "assistant"
    content: Any = None  # text, or what the server sends instead
    refusal: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    reasoning_content: str | None = None


class MessageDelta(Shape):
    role: str | None = None
    content: Any = None
    refusal: str | None = None
    tool_calls: list[ChatToolCallDelta] | None = None
    reasoning_content: str | None = None


class CompletionChoice(Shape):
    index: int = 0
    message: CompletionMessage = msgspec.field(default_factory=CompletionMessage)
    finish_reason: str | None = None
    logprobs: Any = None


class ChunkChoice(Shape):
    index: int = 0
    delta: MessageDelta = msgspec.field(default_factory=MessageDelta)
    finish_reason: str | None = None
    logprobs: Any = None


class PromptTokensDetails(Shape):
    cached_tokens: int | None = None


class CompletionTokensDetails(Shape):
    reasoning_tokens: int | None = None


class CompletionUsage(Shape):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class ChatCompletion(Shape):
    id: str = ""
    object: str = "chat.completion"
    created: int = 0
    model: str = ""
    choices: list[CompletionChoice] = []
    usage: CompletionUsage | None = None
    # added by Relight: the advisers
    moa: dict[str, Any] | None = None


class ChatCompletionChunk(Shape):
    id: str = ""
    object: str = "chat.completion.chunk"
    created: int = 0
    model: str = ""
    choices: list[ChunkChoice] = []
    usage: CompletionUsage | None = None


def shape_completion(fields: Mapping[str, Any]) -> ChatCompletion:
    shaped: ChatCompletion = _fit(_drop_none(fields), ChatCompletion)
    return shaped


def shape_chunk(fields: Mapping[str, Any]) -> ChatCompletionChunk:
    shaped: ChatCompletionChunk = _fit(_drop_none(fields), ChatCompletionChunk)
    return shaped


def _fit(value: Any, kind: Any) -> Any:
    """Return the value as this type, without the parts that do not fit.

    A server that writes a time as a fraction must not make its whole answer unreadable.
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        pass
    if get_origin(kind) is UnionType:  # a type or None
        return _fit(value, next(one for one in get_args(kind) if one is not type(None)))
    if get_origin(kind) is list:
        items = value if isinstance(value, list) else []
        return [one for item in items if (one := _fit(item, get_args(kind)[0])) is not None]
    if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, Struct):
        types = {one.name: one.type for one in msgspec.structs.fields(kind)}
        return kind(**_drop_none({k: _fit(v, types[k]) for k, v in value.items() if k in types}))
    return None


def plain_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return a copy of the messages as plain data; they may be ours or objects of the SDK.

    Programs append an answer's message to the conversation as they got it, with its calls.
    """
    plain = []
    for number, message in enumerate(messages):
        try:
            fields = msgspec.to_builtins(message, enc_hook=_dump)
        except (TypeError, RecursionError) as error:
            raise RelightError(f"message {number} cannot be sent: {error}") from error
        if not isinstance(fields, dict):
            raise RelightError(
                f"message {number} must be a mapping, not {describe(message)}",
                'as {"role": "user", "content": "…"}',
            )
        if not isinstance(message, Mapping):  # fields that an object leaves open are not sent
            fields = {"content": None} | {k: v for k, v in fields.items() if v is not None}
            fields.pop("reasoning_content", None)  # servers reject their own reasoning
        plain.append(fields)
    return plain


def _dump(value: Any) -> Any:
    """Return the data of an SDK object."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(exclude_none=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not data")


def _drop_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _drop_none(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_drop_none(one) for one in value]
    return value
