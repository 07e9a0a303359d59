"""One call of a model at any OpenAI-compatible endpoint: streamed or whole, timed, tried again."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from relight.answers import (
    Answer,
    AnswerTooLarge,
    MalformedAnswer,
    StatusError,
    UpstreamError,
    check_error,
    read_completion,
    say,
    tell_failure,
)
from relight.connections import find_client, headers_of
from relight.endpoints import Endpoint, Request
from relight.failures import classify_error
from relight.model import Cost, Usage
from relight.offers import find_offer
from relight.prices import price_usage, reported_cost
from relight.retrying import OnAttempt, execute_with_retry_async
from relight.streams import DONE, Gathering, Splitter
from relight.usage import read_openai_usage

if TYPE_CHECKING:
    from httpx2 import Response

LIMIT_BYTES = 32 << 20
ERROR_BYTES = 64 << 10
REST_SECONDS = 0.2


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
        pieces = self._response.aiter_bytes()
        while not has_ended and (piece := await self._next_piece(pieces)) is not None:
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
            await _read_rest(pieces)
        for data in splitter.finish():
            if data.strip() != DONE and not has_ended:
                yield self._take(data)
        if not has_ended and self._gathered.finish_reason is None:
            if not self._gathered.has_any:
                raise MalformedAnswer(f"the answer is not a stream of chunks: {say(begin)}")
            raise MalformedAnswer("the stream broke off before its end")

    async def _next_piece(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        left = self.request.endpoint.timeout_seconds - (time.perf_counter() - self._started)
        async with asyncio.timeout(max(left, 0)):
            return await anext(pieces, None)

    def _take(self, data: bytes) -> dict[str, Any]:
        try:
            chunk = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedAnswer(f"a chunk is not JSON: {say(data[:300])}") from error
        if not isinstance(chunk, dict):
            raise MalformedAnswer(f"a chunk is not an object: {say(data[:300])}")
        check_error(chunk)
        if self._gathered.add(chunk) and self._first_token_ms is None:
            self._first_token_ms = (time.perf_counter() - self._started) * 1000
        return chunk


async def _read_rest(pieces: AsyncIterator[bytes]) -> None:
    """Read a stream to its very end, so that its connection can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_SECONDS):
            while await anext(pieces, None) is not None:
                pass


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
