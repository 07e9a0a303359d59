"""Model calls at any OpenAI-compatible endpoint, whole or streamed, with retries."""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from relight.chat.answers import DONE, Gathering, Splitter
from relight.chat.usage import read_usage
from relight.errors import RelightError
from relight.judging.failures import classify_error
from relight.model import Cost, Failure, Usage
from relight.models import endpoints
from relight.models.background import find_client, parse_url
from relight.models.endpoints import EncodedRequest, ModelResponse, UpstreamError
from relight.models.offers import WAIT_SECONDS, find_offer, request_offer
from relight.models.retrying import OnAttempt, RetryPlan, Sleep, retry_by_plan
from relight.prices import price_usage, reported_cost

if TYPE_CHECKING:
    from httpx2 import Response

LIMIT_BYTES = 32 << 20
ERROR_BYTES = 64 << 10
REST_SECONDS = 0.2

T = TypeVar("T")


async def complete(
    request: EncodedRequest, *, on_attempt: OnAttempt | None = None, sleep: Sleep | None = None
) -> ModelResponse:
    """Return the whole response to a request."""
    return await _retry(_complete_once, request, on_attempt=on_attempt, sleep=sleep)


async def open_stream(request: EncodedRequest) -> "ResponseStream":
    """Return a stream that has begun; failures before its first chunk are retried."""
    return await _retry(ResponseStream.open, request)


async def _retry(
    once: Callable[[EncodedRequest], Awaitable[T]],
    request: EncodedRequest,
    *,
    on_attempt: OnAttempt | None = None,
    sleep: Sleep | None = None,
) -> T:
    """Return what `once` returns, retried while the request's time allows it."""
    latest: list[Exception] = []
    is_cut_short, budget = False, request.retries

    async def attempt() -> T:
        try:
            return await once(request)
        except Exception as error:  # raised again: only the last one is kept
            latest[:] = [error]
            raise

    def report(number: int, failure: Failure | None, wait_seconds: float | None) -> None:
        nonlocal is_cut_short
        is_cut_short = wait_seconds is not None and wait_seconds >= request.seconds_left()
        if budget is not None and failure is not None and wait_seconds and not is_cut_short:
            budget.note_wait(failure.reason, wait_seconds)
        if on_attempt is not None:
            on_attempt(number, failure, None if is_cut_short else wait_seconds)

    async def pause(seconds: float) -> None:
        if is_cut_short:
            raise latest[0]
        slept = (sleep or (budget and budget.sleep) or asyncio.sleep)(seconds)
        if inspect.isawaitable(slept):
            await slept

    try:
        place = f"{request.url} {request.endpoint.model}"
        plan = RetryPlan(request.endpoint.attempts, report, budget=budget, place=place)
        return await retry_by_plan(attempt, plan, sleep=pause)
    except Exception as error:  # every error becomes one that says whether a retry can help
        cause = latest[0] if latest else error
        failure = classify_error(cause)
        if isinstance(error, RelightError):  # the endpoint asked for minutes: it says until when
            failure = replace(failure, reason=error.message)
        raise UpstreamError(
            failure,
            partial=getattr(cause, "partial", None),
            # a run that is tried again later does not lack time: it was asked to wait
            is_out_of_time=(is_cut_short and not (budget and failure.asked_seconds))
            or not request.seconds_left(),
        ) from error


async def _complete_once(request: EncodedRequest) -> ModelResponse:
    """Return the whole response of one attempt, streamed or not."""
    if not request.is_stream:
        return await _complete_whole(request)
    stream = await ResponseStream.open(request)
    try:
        async for _ in stream.chunks():
            pass
    except UpstreamError as error:
        # the retry classifies the cause again; the partial response goes along
        cause = error.__cause__ or error
        cause.partial = error.partial  # type: ignore[attr-defined]
        raise cause from None
    return stream.response


async def _complete_whole(request: EncodedRequest) -> ModelResponse:
    started = time.monotonic()
    async with _until(request.attempt_deadline(), started), AsyncExitStack() as stack:
        http = await _send(request, stack)
        data = await _read_body(http, LIMIT_BYTES)
    return await _make_response(request, endpoints.decode_completion(data), started)


@asynccontextmanager
async def _until(end: float, started: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(max(end - time.monotonic(), 0)):
            yield
    except TimeoutError:
        raise TimeoutError(f"no answer within {end - started:.3g} seconds") from None


async def _send(request: EncodedRequest, stack: AsyncExitStack) -> "Response":
    endpoint = request.endpoint
    request_offer(endpoint.base_url, key_variable=endpoint.key_variable)
    headers = {
        "Content-Type": "application/json",
        **endpoints.read_key_headers(endpoint.key_variable),
    }
    url = parse_url(request.url)
    sent = find_client().stream("POST", url, headers=headers, content=request.body)
    try:
        http = await stack.enter_async_context(sent)
    except Exception as error:  # raised again: each HTTP library has its own
        if (cause := endpoints.find_connect_error(error)) is not None:
            raise endpoints.make_connect_error(request, cause) from error
        raise
    if http.status_code != 200:
        body = (await _read_body(http, ERROR_BYTES, may_cut=True)).decode("utf-8", "replace")
        if http.has_redirect_location:  # not followed: the key is for this address only
            body = f"the address redirects to {http.headers['location']}"
        raise endpoints.StatusError(http.status_code, body, dict(http.headers))
    return http


async def _read_body(http: "Response", limit: int, *, may_cut: bool = False) -> bytes:
    pieces, size = [], 0
    async for piece in http.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            if may_cut:
                break
            raise endpoints.AnswerTooLarge(f"the answer is larger than {limit >> 20} MB")
    return b"".join(pieces)


async def _make_response(
    request: EncodedRequest,
    gathered: Gathering,
    started: float,
    *,
    first_token_ms: float | None = None,
) -> ModelResponse:
    """Return the response with its usage and, if the endpoint names a price, its cost."""
    duration_ms = (time.monotonic() - started) * 1000
    raw = gathered.usage
    usage = read_usage(raw).usage if raw else Usage()
    return ModelResponse(
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


async def _find_cost(
    request: EncodedRequest, raw: Mapping[str, Any] | None, usage: Usage
) -> Cost | None:
    """Return the cost that the endpoint reports, else its list price of these tokens."""
    reported = raw.get("cost") if raw else None
    if isinstance(reported, int | float | str) and not isinstance(reported, bool):
        cost = reported_cost(reported)
        if cost.nanos is not None:
            return cost
    if usage.output is None:
        return None
    endpoint, prices = request.endpoint, None
    with suppress(TimeoutError):  # a complete response must not wait for its price
        async with asyncio.timeout(min(request.seconds_left(), WAIT_SECONDS)):
            prices = await find_offer(
                endpoint.base_url, endpoint.model, key_variable=endpoint.key_variable
            )
    if prices is None:
        return None
    cost = price_usage(usage, prices, at=int(time.time() * 1000))
    return cost if cost.nanos is not None else None


class ResponseStream:
    """Chunks as they arrive; at the end, `response` is the whole.

    Closing it, or cancelling its reader, closes the connection.
    """

    def __init__(self, request: EncodedRequest, stack: AsyncExitStack) -> None:
        self.request = request
        self.response = ModelResponse(message={"role": "assistant", "content": None})
        self._stack = stack
        self._http: Response
        self._gathered = Gathering()
        self._started, self._end = time.monotonic(), request.attempt_deadline()
        self._first_token_ms: float | None = None
        self._first: dict[str, Any] | None = None
        self._chunks = self._read()

    @classmethod
    async def open(cls, request: EncodedRequest) -> "ResponseStream":
        stack = AsyncExitStack()
        stream = cls(request, stack)
        try:
            async with _until(stream._end, stream._started):
                stream._http = await _send(request, stack)
                stream._first = await anext(stream._chunks, None)
        except BaseException:  # also when cancelled: the connection must not stay open
            await stack.aclose()
            raise
        return stream

    async def chunks(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the chunks; an error is raised with the partial response."""
        try:
            if self._first is not None:
                yield self._first
                async for chunk in self._chunks:
                    yield chunk
        except Exception as error:  # every error is raised with what arrived before it
            await self._note_response()
            raise UpstreamError(classify_error(error), partial=self.response) from error
        finally:
            await self.close()
        await self._note_response()

    async def close(self) -> None:
        """Close the connection; `response` then holds what has arrived."""
        await self._chunks.aclose()
        await self._stack.aclose()
        if not self.response.duration_ms:
            self.response.message = self._gathered.message()
            self.response.raw_usage = self._gathered.usage

    async def _note_response(self) -> None:
        self.response = await _make_response(
            self.request, self._gathered, self._started, first_token_ms=self._first_token_ms
        )

    async def _read(self) -> AsyncGenerator[dict[str, Any], None]:
        kind = self._http.headers.get("content-type", "")
        if "json" in kind and "event-stream" not in kind:
            async with _until(self._end, self._started):
                data = await _read_body(self._http, LIMIT_BYTES)
            yield self._take(as_chunk(endpoints.decode_completion(data)))
            return
        splitter, size, has_ended = Splitter(), 0, False
        begin = b""
        pieces = self._http.aiter_bytes()
        while not has_ended and (piece := await self._next_piece(pieces)) is not None:
            size += len(piece)
            begin = begin or piece[:300]
            if size > LIMIT_BYTES:
                raise endpoints.AnswerTooLarge(f"the stream is larger than {LIMIT_BYTES >> 20} MB")
            for data in splitter.feed(piece):
                if data.strip() == DONE:
                    has_ended = True
                elif not has_ended:
                    yield self._take(endpoints.decode_object(data, "a chunk"))
        if has_ended:
            await _read_rest(pieces)
        for data in splitter.finish():
            if data.strip() != DONE and not has_ended:
                yield self._take(endpoints.decode_object(data, "a chunk"))
        if self._gathered.finish_reason is None:
            if not self._gathered.has_any:
                text = endpoints.read_error_text(begin)
                raise endpoints.MalformedAnswer(f"the answer is not a stream of chunks: {text}")
            if not has_ended:
                raise endpoints.MalformedAnswer("the stream broke off before its end")

    async def _next_piece(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        async with _until(self._end, self._started):
            return await anext(pieces, None)

    def _take(self, chunk: dict[str, Any]) -> dict[str, Any]:
        if self._gathered.add(chunk) and self._first_token_ms is None:
            self._first_token_ms = (time.monotonic() - self._started) * 1000
        return chunk


async def _read_rest(pieces: AsyncIterator[bytes]) -> None:
    """Read a stream to its very end, so that its connection can be reused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_SECONDS):
            while await anext(pieces, None) is not None:
                pass


def as_chunk(whole: Gathering) -> dict[str, Any]:
    """Return the whole response of a server that does not stream as a stream's one chunk."""
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
