"""Model responses, and the errors of a call that gave none."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.broken_json import decode_mended
from relight.chat.streams import Gathering
from relight.errors import RelightError
from relight.model import Cost, Failure, Usage

HINTS = {
    "auth": "check the key: it is read from the variable that --key-variable names",
    "connection": "check the address, and that a server is running there",
    "timeout": "try again, or allow more time",
    "model_not_found": "the endpoint's /models lists the names it knows",
    "not_found": "a base URL usually ends in /v1",
    "malformed_response": "check that the address is that of an OpenAI-compatible endpoint",
}


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
