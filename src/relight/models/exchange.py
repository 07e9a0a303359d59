"""One try at a model call: a request goes out, the answer comes back, whole or bit by bit."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from relight.chat.streams import DONE, Gathering, Splitter
from relight.chat.usage import read_openai_usage
from relight.judging.failures import classify_error
from relight.model import Cost, Usage
from relight.models.connections import find_client, headers_of, read_url
from relight.models.endpoints import Request
from relight.models.offers import WAIT_SECONDS, expect_offer, find_offer
from relight.models.responses import (
    Answer,
    AnswerTooLarge,
    MalformedAnswer,
    StatusError,
    UpstreamError,
    read_completion,
    read_object,
    say,
)
from relight.prices import price_usage, reported_cost

if TYPE_CHECKING:
    from httpx2 import Response

LIMIT_BYTES = 32 << 20
ERROR_BYTES = 64 << 10
REST_SECONDS = 0.2


async def ask_once(request: Request) -> Answer:
    """The whole answer, in whichever way it comes."""
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
    started = time.monotonic()
    async with _until(request.find_end(), started), AsyncExitStack() as stack:
        response = await _send(request, stack)
        data = await _read_all(response, LIMIT_BYTES)
    return await _finish(request, read_completion(data), started)


@asynccontextmanager
async def _until(end: float, started: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(max(end - time.monotonic(), 0)):
            yield
    except TimeoutError:
        raise TimeoutError(f"no answer within {end - started:.3g} seconds") from None


async def _send(request: Request, stack: AsyncExitStack) -> "Response":
    endpoint = request.endpoint
    expect_offer(endpoint.base_url, key_variable=endpoint.key_variable)
    headers = {"Content-Type": "application/json", **headers_of(endpoint.key_variable)}
    url = read_url(request.url)
    sent = find_client().stream("POST", url, headers=headers, content=request.body)
    response = await stack.enter_async_context(sent)
    if response.status_code != 200:
        body = (await _read_all(response, ERROR_BYTES, is_cut=True)).decode("utf-8", "replace")
        if response.has_redirect_location:  # not followed: the key is for this address only
            body = f"the address leads on to {response.headers['location']}"
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


async def _finish(
    request: Request, gathered: Gathering, started: float, *, first_token_ms: float | None = None
) -> Answer:
    """The answer with its usage and, where the endpoint names a price, its cost."""
    duration_ms = (time.monotonic() - started) * 1000
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
        cost=await _find_cost(request, raw, usage),
        duration_ms=duration_ms,
        first_token_ms=first_token_ms,
    )


async def _find_cost(request: Request, raw: Mapping[str, Any] | None, usage: Usage) -> Cost | None:
    """What the endpoint says the call cost, else its own price for these tokens."""
    told = raw.get("cost") if raw else None
    if isinstance(told, int | float | str) and not isinstance(told, bool):
        cost = reported_cost(told)
        if cost.nanos is not None:
            return cost
    if usage.output is None:
        return None
    endpoint, prices = request.endpoint, None
    with suppress(TimeoutError):  # an answer that is there must not wait for its price
        async with asyncio.timeout(min(request.seconds_left(), WAIT_SECONDS)):
            prices = await find_offer(
                endpoint.base_url, endpoint.model, key_variable=endpoint.key_variable
            )
    if prices is None:
        return None
    cost = price_usage(usage, prices, at=int(time.time() * 1000))
    return cost if cost.nanos is not None else None


class AnswerStream:
    """Chunks as they come; when it has ended, `answer` is the whole.

    Closing it, or being cancelled while reading it, closes the connection.
    """

    def __init__(self, request: Request, stack: AsyncExitStack) -> None:
        self.request = request
        self.answer = Answer(message={"role": "assistant", "content": None})
        self._stack = stack
        self._response: Response
        self._gathered = Gathering()
        self._started, self._end = time.monotonic(), request.find_end()
        self._first_token_ms: float | None = None
        self._first: dict[str, Any] | None = None
        self._chunks = self._read()

    @classmethod
    async def open(cls, request: Request) -> "AnswerStream":
        stack = AsyncExitStack()
        stream = cls(request, stack)
        try:
            async with _until(stream._end, stream._started):
                stream._response = await _send(request, stack)
                stream._first = await anext(stream._chunks, None)
        except BaseException:  # being cancelled among them: the connection must not stay open
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
        except Exception as error:  # whatever breaks it off, what had arrived is told with it
            await self._note_answer()
            raise UpstreamError(classify_error(error), partial=self.answer) from error
        finally:
            await self.close()
        await self._note_answer()

    async def close(self) -> None:
        """Close the connection; `answer` is then what had arrived."""
        await self._chunks.aclose()
        await self._stack.aclose()
        if not self.answer.duration_ms:
            self.answer.message = self._gathered.message()
            self.answer.raw_usage = self._gathered.usage

    async def _note_answer(self) -> None:
        self.answer = await _finish(
            self.request, self._gathered, self._started, first_token_ms=self._first_token_ms
        )

    async def _read(self) -> AsyncGenerator[dict[str, Any], None]:
        kind = self._response.headers.get("content-type", "")
        if "json" in kind and "event-stream" not in kind:
            yield self._take(as_chunk(read_completion(await self._read_whole())))
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
                    yield self._take(read_object(data, "a chunk"))
        if has_ended:
            await _read_rest(pieces)
        for data in splitter.finish():
            if data.strip() != DONE and not has_ended:
                yield self._take(read_object(data, "a chunk"))
        if self._gathered.finish_reason is None:
            if not self._gathered.has_any:
                raise MalformedAnswer(f"the answer is not a stream of chunks: {say(begin)}")
            if not has_ended:
                raise MalformedAnswer("the stream broke off before its end")

    async def _read_whole(self) -> bytes:
        async with _until(self._end, self._started):
            return await _read_all(self._response, LIMIT_BYTES)

    async def _next_piece(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        async with _until(self._end, self._started):
            return await anext(pieces, None)

    def _take(self, chunk: dict[str, Any]) -> dict[str, Any]:
        if self._gathered.add(chunk) and self._first_token_ms is None:
            self._first_token_ms = (time.monotonic() - self._started) * 1000
        return chunk


async def _read_rest(pieces: AsyncIterator[bytes]) -> None:
    """Read a stream to its very end, so that its connection can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_SECONDS):
            while await anext(pieces, None) is not None:
                pass


def as_chunk(whole: Gathering) -> dict[str, Any]:
    """A whole answer, from a server that does not stream, as the one chunk of a stream."""
    message = whole.message()
    for place, call in enumerate(message.get("tool_calls") or ()):
        call["index"] = place
    choice = {"index": 0, "delta": message, "finish_reason": whole.finish_reason}
    return {
        "id": whole.id,
        "object": "chat.completion.chunk",
        "created": whole.created,
        "model": whole.model,
        "choices": [choice],
        "usage": whole.usage,
    }
