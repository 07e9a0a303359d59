"""What came back from an endpoint: an answer, or what was wrong with it."""

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
        """What was said, be it that it will not be answered."""
        return self.message.get("content") or self.message.get("refusal") or ""


class UpstreamError(RelightError):
    """A model call that failed for good: of which kind, and what had arrived until then.

    `is_out_of_time`: it might have been tried again, had there been time.
    """

    def __init__(
        self, failure: Failure, *, partial: Answer | None = None, is_out_of_time: bool = False
    ) -> None:
        super().__init__(failure.reason, HINTS.get(failure.kind))
        self.failure = failure
        self.partial = partial
        self.is_out_of_time = is_out_of_time


class StatusError(Exception):
    """The endpoint answered with an error."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"HTTP {status}: {say(body)}")
        self.status_code, self.headers, self.body = status, headers, body


class ToldError(Exception):
    """The endpoint tells an error inside of an answer, maybe in the middle of a stream."""

    def __init__(self, error: object) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        super().__init__(str(fields.get("message") or fields))
        self.code, self.type, self.body = fields.get("code"), fields.get("type"), fields


class MalformedAnswer(Exception):
    """The endpoint answered something that is no chat completion, or broke off."""


class AnswerTooLarge(Exception):
    """The endpoint sent more than any answer may be."""


def read_completion(data: bytes) -> Gathering:
    """What a whole answer says; an error page with status 200 is none."""
    told = read_object(data, "the answer")
    choices = told.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswer(f"the answer has no choices: {say(data[:300])}")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer(f"the answer has no message: {say(data[:300])}")
    calls = message.get("tool_calls")
    parts = [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    numbered = [{**one, "index": place} for place, one in enumerate(parts)]
    whole = {**choices[0], "index": 0, "delta": {**message, "tool_calls": numbered}}
    gathered = Gathering()
    gathered.add({**told, "choices": [whole]})
    gathered.finish_reason = gathered.finish_reason or "stop"
    return gathered


def read_object(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object that an endpoint sent, unless it tells an error."""
    try:
        told = decode_mended(msgspec.json.decode, data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedAnswer(f"{what} is not JSON: {say(data[:300])}") from error
    if not isinstance(told, dict):
        raise MalformedAnswer(f"{what} is not an object: {say(data[:300])}")
    if told.get("error"):
        raise ToldError(told["error"])
    return told


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
