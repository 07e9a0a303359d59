"""Where a model is asked, and the request: encoded once, so that a trace shows what was sent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from relight.connections import read_key

OPENAI = "https://api.openai.com/v1"


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model at an address; the key is named by its variable, and never kept."""

    model: str
    base_url: str = OPENAI
    key_variable: str | None = None
    provider: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    timeout_seconds: float = 600.0
    # how often a call is tried in all; None: as its kind of failure says
    attempts: int | None = None

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


class Request(Struct, frozen=True):
    """A call ready to be sent; `messages` are the bytes of them that are in `body`."""

    endpoint: Endpoint
    body: bytes
    messages: msgspec.Raw
    is_stream: bool

    @property
    def url(self) -> str:
        return f"{self.endpoint.base_url.rstrip('/')}/chat/completions"


def build_request(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, Any]] | msgspec.Raw,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    stream: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Request:
    """The request for these messages; `options` are further fields of its body."""
    read_key(endpoint.key_variable)  # told at once, not after trying again
    told = messages if isinstance(messages, msgspec.Raw) else msgspec.Raw(encode(messages))
    body: dict[str, Any] = {"model": endpoint.model, "messages": told}
    if tools:
        body["tools"] = tools
    if endpoint.temperature is not None:
        body["temperature"] = endpoint.temperature
    if endpoint.max_tokens is not None:
        body["max_tokens"] = endpoint.max_tokens
    body |= options or {}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return Request(endpoint, msgspec.json.encode(body), told, stream)


def encode(value: object) -> bytes:
    """JSON, with lone surrogates mended: no request can carry them."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
