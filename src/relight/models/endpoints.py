"""Endpoints, requests to them and their responses.

A request is encoded once, so that a trace shows the bytes that were sent.
"""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.chat.answers import Gathering
from relight.chat.messages import decode_mended
from relight.errors import RelightError
from relight.model import Cost, Failure, Usage
from relight.models.retrying import RetryBudget

OPENAI = "https://api.openai.com/v1"
# fields every request has, which options cannot override
FIXED = ("model", "messages", "stream")

HINTS = {
    # settings by their names: not every command has them as options
    "auth": "check the key: it is read from the variable that key_variable names",
    "connection": "check the address, and that a server is running there",
    "unknown_host": "check the address: base_url sets it (an option or in config.toml), or the"
    " variable OPENAI_BASE_URL",
    "timeout": "try again, or allow more time",
    "model_not_found": "the endpoint's /models lists the names it knows",
    "not_found": "a base URL usually ends in /v1",
    "malformed_response": "check that the address is that of an OpenAI-compatible endpoint",
}

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
        >>> Endpoint(model="m", base_url="http://localhost:11434/v1").seller
        'local'
        """
        if self.provider:
            return self.provider
        from relight.prices import is_local_address

        host = self.base_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
        if not host or is_local_address(self.base_url):
            return "local"
        host = host if host.startswith("[") else host.partition(":")[0]
        labels = host.lower().split(".")
        is_named = len(labels) > 1 and not labels[-1].isdigit()
        return labels[-2] if is_named else host


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A request to any model; `options` are further fields of it."""

    messages: Messages
    tools: Sequence[Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = {}
    # when the response must be there, by the monotonic clock, including retries and waits
    deadline: float | None = None
    # the attempts of the whole run; None: the kind of failure decides for each call
    retries: RetryBudget | None = None


class EncodedRequest(Struct, frozen=True, kw_only=True):
    """A request ready to send; `messages` and `settings` are parts of the bytes in `body`."""

    endpoint: Endpoint
    body: bytes
    messages: msgspec.Raw
    settings: dict[str, msgspec.Raw]
    is_stream: bool
    deadline: float | None = None
    retries: RetryBudget | None = None

    @property
    def url(self) -> str:
        return f"{self.endpoint.base_url.rstrip('/')}/chat/completions"

    def seconds_left(self) -> float:
        """Seconds left for the whole call."""
        if self.deadline is None:
            return float("inf")
        return max(self.deadline - time.monotonic(), 0.0)

    def attempt_deadline(self) -> float:
        """The deadline of an attempt that begins now, by the monotonic clock."""
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
        retries=chat.retries,
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


class ModelResponse(Struct, kw_only=True):
    """A model's message with usage and times, and its cost if the endpoint reports one."""

    message: dict[str, Any]
    finish_reason: str | None = None
    id: str | None = None
    model: str | None = None
    created: int | None = None
    raw_usage: dict[str, Any] | None = None
    usage: Usage = Usage()
    cost: Cost | None = None
    duration_ms: float = 0.0
    first_token_ms: float | None = None

    @property
    def text(self) -> str:
        """The message's text, which may be a refusal."""
        return self.message.get("content") or self.message.get("refusal") or ""


class UpstreamError(RelightError):
    """A model call that failed after all retries, with its failure and the partial response.

    `is_out_of_time`: another attempt would have followed if there had been time.
    """

    def __init__(
        self,
        failure: Failure,
        *,
        partial: ModelResponse | None = None,
        is_out_of_time: bool = False,
    ) -> None:
        super().__init__(failure.reason, HINTS.get(failure.kind))
        self.failure = failure
        self.partial = partial
        self.is_out_of_time = is_out_of_time


class StatusError(Exception):
    """An HTTP status other than 200."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"HTTP {status}: {read_error_text(body)}")
        self.status_code, self.headers, self.body = status, headers, body


class ReportedError(Exception):
    """An error object inside a response, perhaps in the middle of a stream."""

    def __init__(self, error: object) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        super().__init__(str(fields.get("message") or fields))
        self.code, self.type, self.body = fields.get("code"), fields.get("type"), fields


class HostNotFound(ConnectionError):
    """A host whose name does not resolve; a person who waits gets it at once, without retries."""


def find_connect_error(error: BaseException | None) -> OSError | None:
    """Return what caused an error before a request was sent: an unknown name, or a refusal."""
    while error is not None and not isinstance(error, (socket.gaierror, ConnectionRefusedError)):
        error = error.__cause__ or error.__context__
    return error


def make_connect_error(request: EncodedRequest, cause: OSError) -> ConnectionError:
    """Return the error of a request that found no server, which names the address.

    A run in the background retries a name that is not found: a machine that just woke up knows
    none for a while.
    """
    from urllib.request import getproxies  # takes long to load, and the HTTP client has it

    address = request.endpoint.base_url
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    named = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    if os.environ.get("OPENAI_BASE_URL") == address:
        named += " (the value of OPENAI_BASE_URL)"
    if getproxies().keys() & {scheme, "all"}:
        named += ", or the proxy to it,"
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionRefusedError(f"{named} refuses connections")
    text = f"{named} does not resolve"
    is_temporary = cause.errno == socket.EAI_AGAIN or request.retries is not None
    return ConnectionError(text) if is_temporary else HostNotFound(text)


class MalformedAnswer(Exception):
    """A response that is not a chat completion, or that broke off."""


class AnswerTooLarge(Exception):
    """A response over the size limit."""


def decode_completion(data: bytes) -> Gathering:
    """Return a whole response; raise MalformedAnswer for an error page with status 200."""
    body = decode_object(data, "the answer")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswer(f"the answer has no choices: {read_error_text(data[:300])}")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer(f"the answer has no message: {read_error_text(data[:300])}")
    calls = message.get("tool_calls")
    parts = [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    numbered = [{**one, "index": place} for place, one in enumerate(parts)]
    whole = {**choices[0], "index": 0, "delta": {**message, "tool_calls": numbered}}
    gathered = Gathering()
    gathered.add({**body, "choices": [whole]})
    gathered.finish_reason = gathered.finish_reason or "stop"
    return gathered


def decode_object(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that an endpoint sent; raise ReportedError if it is an error."""
    try:
        body = decode_mended(msgspec.json.decode, data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedAnswer(f"{what} is not JSON: {read_error_text(data[:300])}") from error
    if not isinstance(body, dict):
        raise MalformedAnswer(f"{what} is not an object: {read_error_text(data[:300])}")
    if body.get("error"):
        raise ReportedError(body["error"])
    return body


def read_error_text(text: str | bytes) -> str:
    """Return an error's message: from its JSON if it has one, else its first line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        body = msgspec.json.decode(text)
        inner = body.get("error", body) if isinstance(body, dict) else body
        message = inner.get("message") if isinstance(inner, dict) else inner
        return str(message or body)[:500]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
        return " ".join(text.split())[:200] or "no words"
