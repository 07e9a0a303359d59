"""A model call at any OpenAI-compatible endpoint, tried again where that can help."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from relight.errors import RelightError
from relight.judging.failures import classify_error
from relight.model import Failure
from relight.models.endpoints import Request
from relight.models.exchange import AnswerStream, ask_once
from relight.models.responses import Answer, UpstreamError
from relight.models.retrying import OnAttempt, execute_with_retry_async

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None] | None]


async def ask(
    request: Request, *, on_attempt: OnAttempt | None = None, sleep: Sleep | None = None
) -> Answer:
    """The whole answer to a request."""
    return await _try(ask_once, request, on_attempt=on_attempt, sleep=sleep)


async def open_stream(request: Request, *, on_attempt: OnAttempt | None = None) -> AnswerStream:
    """A stream that has begun; what fails before its first chunk is tried again."""
    return await _try(AnswerStream.open, request, on_attempt=on_attempt)


async def _try(
    once: Callable[[Request], Awaitable[T]],
    request: Request,
    *,
    on_attempt: OnAttempt | None = None,
    sleep: Sleep | None = None,
) -> T:
    """What `once` gives, tried again while the request's time allows it."""
    latest: list[Exception] = []
    is_cut_short = False

    async def attempt() -> T:
        try:
            return await once(request)
        except Exception as error:
            latest[:] = [error]
            raise

    def tell(number: int, failure: Failure | None, wait_seconds: float | None) -> None:
        nonlocal is_cut_short
        is_cut_short = wait_seconds is not None and wait_seconds >= request.seconds_left()
        if on_attempt is not None:
            on_attempt(number, failure, None if is_cut_short else wait_seconds)

    async def pause(seconds: float) -> None:
        if is_cut_short:
            raise latest[0]
        slept = (sleep or asyncio.sleep)(seconds)
        if inspect.isawaitable(slept):
            await slept

    try:
        return await execute_with_retry_async(
            attempt, attempts=request.endpoint.attempts, on_attempt=tell, sleep=pause
        )
    except Exception as error:
        cause = latest[0] if latest else error
        failure = classify_error(cause)
        if isinstance(error, RelightError):  # asked to wait for minutes: it says until when
            failure = replace(failure, reason=error.message)
        raise UpstreamError(
            failure,
            partial=getattr(cause, "partial", None),
            is_out_of_time=is_cut_short or not request.seconds_left(),
        ) from error
