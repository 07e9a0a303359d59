"""What came back from an endpoint: an answer, or what was wrong with it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from relight.endpoints import encode
from relight.errors import RelightError
from relight.failures import classify_error
from relight.model import Cost, Failure, Usage
from relight.streams import Gathering

HINTS = {
    "auth": "check the key: it is read from the variable that --key-variable names",
    "connection": "check the address, and that a server is running there",
    "timeout": "try again, or allow it more time",
    "model_not_found": "ask the endpoint's /models for the names it knows",
    "not_found": "a base URL usually ends in /v1",
    "malformed_response": "check that the address is that of an OpenAI-compatible endpoint",
}


class Answer(Struct, kw_only=True):
    """What a model answered, how long it took, and what it cost where the endpoint says so."""

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
        content = self.message.get("content")
        return content if isinstance(content, str) else ""


class UpstreamError(RelightError):
    """A model call that failed for good: of which kind, and what had arrived until then."""

    def __init__(self, failure: Failure, *, partial: Answer | None = None) -> None:
        super().__init__(failure.reason, HINTS.get(failure.kind))
        self.failure = failure
        self.partial = partial


class StatusError(Exception):
    """The endpoint answered with an error."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"HTTP {status}: {say(body)}")
        self.status_code, self.headers, self.body = status, headers, body


class MalformedAnswer(Exception):
    """The endpoint answered something that is no chat completion, or broke off."""


class AnswerTooLarge(Exception):
    """The endpoint sent more than any answer may be."""


def tell_failure(error: Exception) -> UpstreamError:
    if isinstance(error, UpstreamError):
        return error
    return UpstreamError(classify_error(error), partial=getattr(error, "partial", None))


def read_completion(data: bytes) -> Gathering:
    """What a whole answer says; an error page with status 200 is none."""
    try:
        told = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedAnswer(f"the answer is not JSON: {say(data[:300])}") from error
    if not isinstance(told, dict):
        raise MalformedAnswer(f"the answer is not an object: {say(data[:300])}")
    check_error(told)
    choices = told.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswer(f"the answer has no choices: {say(data[:300])}")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer(f"the answer has no message: {say(data[:300])}")
    gathered = Gathering()
    gathered.add({**told, "choices": [{**choices[0], "delta": message}]})
    gathered.finish_reason = gathered.finish_reason or "stop"
    return gathered


def check_error(told: Mapping[str, Any]) -> None:
    """Gateways send errors inside of answers, also in the middle of a stream."""
    error = told.get("error")
    if not error:
        return
    fields = error if isinstance(error, dict) else {"message": str(error)}
    code = fields.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    if status:
        raise StatusError(status, encode(fields).decode(), {})
    raise MalformedAnswer(f"the endpoint tells an error: {fields.get('message') or fields}")


def say(text: str | bytes) -> str:
    """An error's own words: out of its JSON, else its first line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        told = msgspec.json.decode(text)
        inner = told.get("error", told) if isinstance(told, dict) else told
        said = inner.get("message") if isinstance(inner, dict) else inner
        return str(said or told)[:500]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
        return " ".join(text.split())[:200] or "no words"
