"""One call of a model at any OpenAI-compatible endpoint: streamed or whole, timed, tried again.

What is sent is encoded once, and those bytes are what a trace shows.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from relight.connections import find_client, headers_of
from relight.errors import RelightError
from relight.failures import classify_error
from relight.model import Cost, Failure, Usage
from relight.offers import find_offer
from relight.prices import price_usage, reported_cost
from relight.retrying import execute_with_retry_async
from relight.streams import DONE, Gathering, Splitter
from relight.usage import read_openai_usage

if TYPE_CHECKING:
    from httpx2 import Response

OPENAI = "https://api.openai.com/v1"
LIMIT_BYTES = 32 << 20
ERROR_BYTES = 64 << 10
HINTS = {
    "auth": "check the key: it is read from the variable that --key-variable names",
    "connection": "check the address, and that a server is running there",
    "timeout": "try again, or allow it more time",
    "model_not_found": "ask the endpoint's /models for the names it knows",
    "not_found": "a base URL usually ends in /v1",
    "malformed_response": "check that the address is that of an OpenAI-compatible endpoint",
}

OnAttempt = Callable[[int, Failure, float | None], object]


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
        super().__init__(f"HTTP {status}: {_say(body)}")
        self.status_code, self.headers, self.body = status, headers, body


class MalformedAnswer(Exception):
    """The endpoint answered something that is no chat completion, or broke off."""


class AnswerTooLarge(Exception):
    """The endpoint sent more than any answer may be."""


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
        import json

        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


async def ask(
    request: Request,
    *,
    on_attempt: OnAttempt | None = None,
    sleep: Callable[[float], None] | None = None,
) -> Answer:
    """The whole answer to a request, tried again where that can help."""
    attempts = request.endpoint.attempts
    try:
        return await execute_with_retry_async(
            _ask_once, request, attempts=attempts, on_attempt=on_attempt, sleep=sleep
        )
    except Exception as error:
        raise tell_failure(error) from error


async def open_stream(request: Request, *, on_attempt: OnAttempt | None = None) -> "AnswerStream":
    """A stream that has begun; what fails before its first chunk is tried again."""
    try:
        return await execute_with_retry_async(
            AnswerStream.open, request, attempts=request.endpoint.attempts, on_attempt=on_attempt
        )
    except Exception as error:
        raise tell_failure(error) from error


def tell_failure(error: Exception) -> UpstreamError:
    if isinstance(error, UpstreamError):
        return error
    return UpstreamError(classify_error(error), partial=getattr(error, "partial", None))


async def _ask_once(request: Request) -> Answer:
    if not request.is_stream:
        return await _ask_whole(request)
    stream = await AnswerStream.open(request)
    try:
        async for _ in stream.chunks():
            pass
    except UpstreamError as error:
        # judged anew by whoever tries again; what had arrived goes along
        cause = error.__cause__ or error
        cause.partial = error.partial  # type: ignore[attr-defined]
        raise cause from None
    return stream.answer


async def _ask_whole(request: Request) -> Answer:
    started = time.perf_counter()
    async with asyncio.timeout(request.endpoint.timeout_seconds), AsyncExitStack() as stack:
        response = await _send(request, stack)
        data = await _read_all(response, LIMIT_BYTES)
    duration_ms = (time.perf_counter() - started) * 1000
    return await finish(request, read_completion(data), duration_ms=duration_ms)


async def _send(request: Request, stack: AsyncExitStack) -> "Response":
    headers = {"Content-Type": "application/json", **headers_of(request.endpoint.key_variable)}
    sent = find_client().stream("POST", request.url, headers=headers, content=request.body)
    response = await stack.enter_async_context(sent)
    if response.status_code != 200:
        body = (await _read_all(response, ERROR_BYTES, is_cut=True)).decode("utf-8", "replace")
        raise StatusError(response.status_code, body, dict(response.headers))
    return response


async def _read_all(response: "Response", limit: int, *, is_cut: bool = False) -> bytes:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            if is_cut:
                break
            raise AnswerTooLarge(f"the answer is larger than {limit >> 20} MB")
    return b"".join(pieces)


def read_completion(data: bytes) -> Gathering:
    """What a whole answer says; an error page with status 200 is none."""
    try:
        told = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswer(f"the answer is not JSON: {_say(data[:300])}") from error
    if not isinstance(told, dict):
        raise MalformedAnswer(f"the answer is not an object: {_say(data[:300])}")
    _check_error(told)
    choices = told.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswer(f"the answer has no choices: {_say(data[:300])}")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer(f"the answer has no message: {_say(data[:300])}")
    gathered = Gathering()
    gathered.add({**told, "choices": [{**choices[0], "delta": message}]})
    gathered.finish_reason = gathered.finish_reason or "stop"
    return gathered


def _check_error(told: Mapping[str, Any]) -> None:
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


async def finish(
    request: Request,
    gathered: Gathering,
    *,
    duration_ms: float,
    first_token_ms: float | None = None,
) -> Answer:
    """The answer with its usage and, where the endpoint names a price, its cost."""
    raw = gathered.usage
    usage = read_openai_usage(raw) if raw else Usage()
    return Answer(
        message=gathered.message(),
        finish_reason=gathered.finish_reason,
        id=gathered.id,
        model=gathered.model,
        created=gathered.created,
        raw_usage=raw,
        usage=usage,
        cost=await _find_cost(request.endpoint, raw, usage),
        duration_ms=duration_ms,
        first_token_ms=first_token_ms,
    )


async def _find_cost(
    endpoint: Endpoint, raw: Mapping[str, Any] | None, usage: Usage
) -> Cost | None:
    """What the endpoint says the call cost, else its own price for these tokens."""
    if raw and isinstance(raw.get("cost"), int | float | str):
        told = reported_cost(raw["cost"])
        if told.nanos is not None:
            return told
    if usage.output is None:
        return None
    name = {"key_variable": endpoint.key_variable}
    prices = await find_offer(endpoint.base_url, endpoint.model, **name)
    if prices is None:
        return None
    cost = price_usage(usage, prices, at=int(time.time() * 1000))
    return cost if cost.nanos is not None else None


class AnswerStream:
    """Chunks as they come; when it has ended, `answer` is the whole.

    Closing it, or being cancelled while reading it, closes the connection.
    """

    def __init__(self, request: Request, response: "Response", stack: AsyncExitStack) -> None:
        self.request = request
        self.answer = Answer(message={"role": "assistant", "content": None})
        self._stack = stack
        self._response = response
        self._gathered = Gathering()
        self._started = time.perf_counter()
        self._first_token_ms: float | None = None
        self._first: dict[str, Any] | None = None
        self._chunks = self._read()

    @classmethod
    async def open(cls, request: Request) -> "AnswerStream":
        stack = AsyncExitStack()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(request.endpoint.timeout_seconds):
                response = await _send(request, stack)
                stream = cls(request, response, stack)
                stream._started = started
                stream._first = await anext(stream._chunks, None)
        except BaseException:
            await stack.aclose()
            raise
        return stream

    async def chunks(self) -> AsyncGenerator[dict[str, Any], None]:
        """The chunks as they come; what breaks it off is raised with what had arrived."""
        try:
            if self._first is not None:
                yield self._first
                async for chunk in self._chunks:
                    yield chunk
        except Exception as error:
            await self._finish()
            raise UpstreamError(classify_error(error), partial=self.answer) from error
        finally:
            await self.close()
        await self._finish()

    async def close(self) -> None:
        """Close the connection; `answer` is then what had arrived."""
        await self._chunks.aclose()
        await self._stack.aclose()
        if not self.answer.duration_ms:
            self.answer.message = self._gathered.message()
            self.answer.raw_usage = self._gathered.usage

    async def _finish(self) -> None:
        elapsed = (time.perf_counter() - self._started) * 1000
        first = self._first_token_ms
        self.answer = await finish(
            self.request, self._gathered, duration_ms=elapsed, first_token_ms=first
        )

    async def _read(self) -> AsyncGenerator[dict[str, Any], None]:
        kind = self._response.headers.get("content-type", "")
        if "json" in kind and "event-stream" not in kind:
            yield _as_chunk(read_completion(await _read_all(self._response, LIMIT_BYTES)), self)
            return
        splitter, size, has_ended = Splitter(), 0, False
        begin = b""
        async for piece in self._pieces():
            size += len(piece)
            begin = begin or piece[:300]
            if size > LIMIT_BYTES:
                raise AnswerTooLarge(f"the stream is larger than {LIMIT_BYTES >> 20} MB")
            for data in splitter.feed(piece):
                if data.strip() == DONE:
                    has_ended = True
                elif not has_ended:
                    yield self._take(data)
            if has_ended:
                break
        for data in splitter.finish():
            if data.strip() != DONE and not has_ended:
                yield self._take(data)
        if not has_ended and self._gathered.finish_reason is None:
            if not self._gathered.has_any:
                raise MalformedAnswer(f"the answer is not a stream of chunks: {_say(begin)}")
            raise MalformedAnswer("the stream broke off before its end")

    async def _pieces(self) -> AsyncIterator[bytes]:
        pieces = self._response.aiter_bytes()
        limit = self.request.endpoint.timeout_seconds
        while True:
            left = limit - (time.perf_counter() - self._started)
            async with asyncio.timeout(max(left, 0)):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    def _take(self, data: bytes) -> dict[str, Any]:
        try:
            chunk = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedAnswer(f"a chunk is not JSON: {_say(data[:300])}") from error
        if not isinstance(chunk, dict):
            raise MalformedAnswer(f"a chunk is not an object: {_say(data[:300])}")
        _check_error(chunk)
        if self._gathered.add(chunk) and self._first_token_ms is None:
            self._first_token_ms = (time.perf_counter() - self._started) * 1000
        return chunk


def _as_chunk(whole: Gathering, stream: AnswerStream) -> dict[str, Any]:
    """A whole answer, from a server that does not stream, as the one chunk of a stream."""
    message = whole.message()
    for place, call in enumerate(message.get("tool_calls") or ()):
        call["index"] = place
    choice = {"index": 0, "delta": message, "finish_reason": whole.finish_reason}
    chunk = {
        "id": whole.id,
        "object": "chat.completion.chunk",
        "created": whole.created,
        "model": whole.model,
        "choices": [choice],
        "usage": whole.usage,
    }
    stream._gathered.add(chunk)
    return chunk


def _say(text: str | bytes) -> str:
    """An error's own words: out of its JSON, else its first line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        told = msgspec.json.decode(text)
        inner = told.get("error", told) if isinstance(told, dict) else told
        said = inner.get("message") if isinstance(inner, dict) else inner
        return str(said or told)[:500]
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return " ".join(text.split())[:200] or "no words"
