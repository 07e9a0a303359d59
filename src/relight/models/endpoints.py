"""Endpoints and requests; a request is encoded once, so a trace shows the bytes that were sent."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.errors import RelightError

OPENAI = "https://api.openai.com/v1"
# fields every request has, which options cannot override
FIXED = ("model", "messages", "stream")

Seconds = Annotated[float, Meta(gt=0)]
Messages = Sequence[Mapping[str, Any]]


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model at an address. Only the name of the key's environment variable is stored."""

    model: str
    base_url: str = OPENAI
    key_variable: str | None = None
    provider: str | None = None
    temperature: float | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    # time limit of one attempt
    timeout_seconds: Seconds = 600.0
    # attempts in all; None: the kind of failure decides
    attempts: Annotated[int, Meta(ge=1)] | None = None

    @property
    def label(self) -> str:
        return f"{self.seller}/{self.model}"

    @property
    def seller(self) -> str:
        """The company that bills: `provider` if given, else derived from the address.

        >>> Endpoint(model="m", base_url="https://api.openai.com/v1").seller
        'openai'
        """
        if self.provider:
            return self.provider
        host = self.base_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
        host = host if host.startswith("[") else host.partition(":")[0]
        labels = host.lower().split(".")
        is_named = len(labels) > 1 and not labels[-1].isdigit()
        return labels[-2] if is_named else "local"


class ChatRequest(Struct, frozen=True, kw_only=True):
    """What any model can be asked; `options` are further fields of the request."""

    messages: Messages
    tools: Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}
    # when the response must be there, by the monotonic clock, including retries and waits
    deadline: float | None = None


class EncodedRequest(Struct, frozen=True, kw_only=True):
    """A request ready to send; `messages` and `settings` are parts of the bytes in `body`."""

    endpoint: Endpoint
    body: bytes
    messages: msgspec.Raw
    settings: dict[str, msgspec.Raw]
    is_stream: bool
    deadline: float | None = None

    @property
    def url(self) -> str:
        return f"{self.endpoint.base_url.rstrip('/')}/chat/completions"

    def seconds_left(self) -> float:
        """Seconds left for the whole call."""
        if self.deadline is None:
            return float("inf")
        return max(self.deadline - time.monotonic(), 0.0)

    def attempt_deadline(self) -> float:
        """When an attempt that begins now must end, by the monotonic clock."""
        return time.monotonic() + min(self.endpoint.timeout_seconds, self.seconds_left())


def build_request(
    endpoint: Endpoint,
    chat: ChatRequest,
    *,
    messages: msgspec.Raw | None = None,
    stream: bool = False,
) -> EncodedRequest:
    """Return the encoded request; `messages` can be given if they are encoded already."""
    read_key(endpoint.key_variable)  # a missing key is reported at once, not after retries
    messages = messages or encode_json("messages", chat.messages)
    fields = _choose_settings(endpoint, chat)
    if stream:
        given = fields.get("stream_options")
        fields["stream"] = True
        fields["stream_options"] = {
            **(given if isinstance(given, Mapping) else {}),
            "include_usage": True,
        }
    settings = {name: encode_json(name, value) for name, value in fields.items()}
    body = {"model": endpoint.model, "messages": messages, **settings}
    return EncodedRequest(
        endpoint=endpoint,
        body=msgspec.json.encode(body),
        messages=messages,
        settings=settings,
        is_stream=stream,
        deadline=chat.deadline,
    )


def _choose_settings(endpoint: Endpoint, chat: ChatRequest) -> dict[str, Any]:
    """Return the fields beside model and messages; the caller's options override all others."""
    for name in FIXED:
        if name in chat.options:
            raise RelightError(
                f"{name} cannot be one of the options", f"give it as the parameter {name}"
            )
    fields: dict[str, Any] = {"tools": chat.tools} if chat.tools else {}
    if endpoint.temperature is not None:
        fields["temperature"] = endpoint.temperature
    # OpenAI's newer models reject the old name, which all others understand
    limit = "max_completion_tokens" if endpoint.base_url.startswith(OPENAI) else "max_tokens"
    if endpoint.max_tokens is not None and "max_completion_tokens" not in chat.options:
        fields[limit] = endpoint.max_tokens
    return fields | dict(chat.options)


def encode_json(name: str, value: object) -> msgspec.Raw:
    """Return a value as JSON, with lone surrogates replaced; `name` is for the error."""
    try:
        try:
            return msgspec.Raw(msgspec.json.encode(value))
        except UnicodeEncodeError:
            text = json.dumps(value, ensure_ascii=False)
            return msgspec.Raw(text.encode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise RelightError(
            f"{name} cannot be sent: {error}", "give what JSON can carry: text, numbers, lists"
        ) from error


def read_key(variable: str | None) -> str | None:
    """Return the key that an environment variable holds; a named variable must be set."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise RelightError(
            f"the variable {variable} is not set", f"export {variable}=… with the endpoint's key"
        )
    if not (key.isascii() and key.isprintable()):  # an HTTP error would show the key
        raise RelightError(
            f"the variable {variable} holds more than a key", "a key is plain letters on one line"
        )
    return key


def read_key_headers(variable: str | None) -> dict[str, str]:
    """Return the headers that carry the key, if there is one."""
    key = read_key(variable)
    return {"Authorization": f"Bearer {key}"} if key else {}
