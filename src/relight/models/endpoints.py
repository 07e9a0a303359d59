"""Where a model is asked, and the request: encoded once, so that a trace shows what was sent."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.errors import RelightError
from relight.models.connections import read_key

OPENAI = "https://api.openai.com/v1"
# what a request says in any case, so that nobody can say otherwise beside it
FIXED = ("model", "messages", "stream")

Seconds = Annotated[float, Meta(gt=0)]
Messages = Sequence[Mapping[str, Any]]


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model at an address; the key is named by its variable, and never kept."""

    model: str
    base_url: str = OPENAI
    key_variable: str | None = None
    provider: str | None = None
    temperature: float | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    # how long one try may take
    timeout_seconds: Seconds = 600.0
    # how often a call is tried in all; None: as its kind of failure says
    attempts: Annotated[int, Meta(ge=1)] | None = None

    @property
    def label(self) -> str:
        return f"{self.seller}/{self.model}"

    @property
    def seller(self) -> str:
        """Who is paid: as told, else by the address.

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


class Asked(Struct, frozen=True, kw_only=True):
    """What a model is asked, whichever it is; `options` are further fields of the request."""

    messages: Messages
    tools: Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}
    # the moment, by the steady clock, when the answer must be there, retries and waits included
    deadline: float | None = None


class Request(Struct, frozen=True, kw_only=True):
    """A call ready to be sent; `messages` and `settings` are the bytes of them in `body`."""

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
        """How long it may still take in all."""
        if self.deadline is None:
            return float("inf")
        return max(self.deadline - time.monotonic(), 0.0)

    def find_end(self) -> float:
        """When a try that begins now must be over, by the steady clock."""
        return time.monotonic() + min(self.endpoint.timeout_seconds, self.seconds_left())


def build_request(
    endpoint: Endpoint,
    asked: Asked,
    *,
    messages: msgspec.Raw | None = None,
    stream: bool = False,
) -> Request:
    """The request that asks an endpoint this; `messages`, where they are encoded already."""
    read_key(endpoint.key_variable)  # told at once, not after trying again
    messages = messages or encode("messages", asked.messages)
    fields = _choose_settings(endpoint, asked)
    if stream:
        told = fields.get("stream_options")
        fields["stream"] = True
        fields["stream_options"] = {
            **(told if isinstance(told, Mapping) else {}),
            "include_usage": True,
        }
    settings = {name: encode(name, value) for name, value in fields.items()}
    body = {"model": endpoint.model, "messages": messages, **settings}
    return Request(
        endpoint=endpoint,
        body=msgspec.json.encode(body),
        messages=messages,
        settings=settings,
        is_stream=stream,
        deadline=asked.deadline,
    )


def _choose_settings(endpoint: Endpoint, asked: Asked) -> dict[str, Any]:
    """The fields beside model and messages: whoever asks has the last word on them."""
    for name in FIXED:
        if name in asked.options:
            raise RelightError(
                f"{name} cannot be one of the options", f"give it as the parameter {name}"
            )
    fields: dict[str, Any] = {"tools": asked.tools} if asked.tools else {}
    if endpoint.temperature is not None:
        fields["temperature"] = endpoint.temperature
    # OpenAI's newer models refuse the old name, which all others understand
    limit = "max_completion_tokens" if endpoint.base_url.startswith(OPENAI) else "max_tokens"
    if endpoint.max_tokens is not None and "max_completion_tokens" not in asked.options:
        fields[limit] = endpoint.max_tokens
    return fields | dict(asked.options)


def encode(name: str, value: object) -> msgspec.Raw:
    """JSON of what is called so, with lone surrogates mended: no request can carry them."""
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
