"""Try again where trying again can help."""

import asyncio
import inspect
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

from relight.checks import describe, refuse
from relight.errors import RelightError
from relight.judging.failures import classify_error, find_retry_after, read_kinds
from relight.model import Failure

T = TypeVar("T")
OnAttempt: TypeAlias = Callable[[int, Failure | None, float | None], object]

_LONGEST_BACKOFF_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 120.0
logger = logging.getLogger("relight")


def execute_with_retry(
    func: Callable[..., T],
    *args: Any,
    attempts: int | None = None,
    on_attempt: OnAttempt | None = None,
    sleep: Callable[[float], None] | None = None,
    **kwargs: Any,
) -> T:
    """What `func` returns, tried again after failures that may pass.

    The kind of failure says how often and after how long; `attempts` overrides how often.
    Permanent failures are raised at once. `on_attempt(attempt, failure, wait_seconds)` is told of
    every attempt: no failure where it went well, no wait where no other follows. It is told and
    decides nothing: an error of its own is logged, and what came of the attempt stands. Where the
    other side asks for more than two minutes, a RelightError says when to try again.
    """
    if inspect.iscoroutinefunction(on_attempt):
        raise refuse(
            "on_attempt", "cannot be a coroutine function here", "use execute_with_retry_async"
        )
    plan = _Plan(attempts, on_attempt)
    while True:
        with plan:
            return func(*args, **kwargs)
        (sleep or time.sleep)(plan.wait_seconds)


async def execute_with_retry_async(
    func: Callable[..., Awaitable[T]],
    *args: Any,
    attempts: int | None = None,
    on_attempt: OnAttempt | None = None,
    sleep: Callable[[float], Awaitable[None] | None] | None = None,
    **kwargs: Any,
) -> T:
    """The same for a coroutine function; `on_attempt` and `sleep` may be such, or plain."""
    plan = _Plan(attempts, on_attempt)
    while True:
        async with plan:
            return await func(*args, **kwargs)
        slept = (sleep or asyncio.sleep)(plan.wait_seconds)
        if inspect.isawaitable(slept):
            await slept


def choose_wait_seconds(
    failure: Failure,
    attempt: int,
    *,
    asked_seconds: float | None = None,
    jitter: Callable[[], float] = random.random,
) -> float:
    """How long to wait after the given attempt: doubled each time, spread by up to half.

    What the other side asked for is a floor. The spread keeps many callers that failed
    together from coming back together.
    """
    first = read_kinds()[failure.kind].backoff_seconds
    wait = min(first * 2.0 ** (attempt - 1), _LONGEST_BACKOFF_SECONDS) * (1 + jitter() / 2)
    return max(wait, asked_seconds or 0.0)


class _Step(NamedTuple):
    """What follows an attempt: another after a wait, nothing, or a word about when to come back."""

    failure: Failure | None = None
    wait_seconds: float | None = None
    refusal: RelightError | None = None


class _Plan:
    """What to do after each attempt, and who is told.

    An attempt is made inside of it. A failure after which another is to follow ends there, and
    `wait_seconds` says when that is due; any other is raised.
    """

    def __init__(self, attempts: int | None, on_attempt: OnAttempt | None) -> None:
        is_count = isinstance(attempts, int) and not isinstance(attempts, bool) and attempts > 0
        if attempts is not None and not is_count:
            raise refuse(
                "attempts",
                f"must be a whole number from 1 up, not {describe(attempts)}",
                "leave it out to go by the kind of failure",
            )
        self._attempts = attempts
        self._on_attempt = on_attempt
        self._number = 1
        self.wait_seconds = 0.0

    def __enter__(self) -> None:
        """An attempt begins."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        step = self._choose_step(error)
        with _logged():
            self._tell(step)
        return self._take(step, error)

    async def __aenter__(self) -> None:
        """An attempt begins."""

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        step = self._choose_step(error)
        with _logged():
            told = self._tell(step)
            if inspect.isawaitable(told):
                await told
        return self._take(step, error)

    def _choose_step(self, error: BaseException | None) -> _Step:
        if error is None:
            return _Step()
        failure = classify_error(error)
        allowed = failure.max_retries + 1 if self._attempts is None else self._attempts
        # what is no Exception is someone's wish to leave
        is_last = not isinstance(error, Exception) or self._number >= allowed
        if is_last or not failure.should_retry:
            return _Step(failure)
        asked = find_retry_after(error)
        wait = choose_wait_seconds(failure, self._number, asked_seconds=asked)
        if wait <= _LONGEST_WAIT_SECONDS:
            return _Step(failure, wait)
        # to the minute, and that is its end: earlier would be less than was asked for
        at = datetime.fromtimestamp(math.ceil((time.time() + wait) / 60) * 60, UTC)
        refusal = RelightError(
            f"{failure.reason}; try again at {at:%Y-%m-%d %H:%M} UTC",
            f"the other side asked to wait {math.ceil(wait)} seconds",
        )
        return _Step(failure, refusal=refusal)

    def _tell(self, step: _Step) -> object:
        if self._on_attempt is None:
            return None
        return self._on_attempt(self._number, step.failure, step.wait_seconds)

    def _take(self, step: _Step, error: BaseException | None) -> bool:
        """Whether the failure ends here, as another attempt follows."""
        if step.refusal is not None:
            raise step.refusal from error
        self._number += 1
        self.wait_seconds = step.wait_seconds or 0.0
        return step.wait_seconds is not None


@contextmanager
def _logged() -> Iterator[None]:
    """Told of an attempt, one may fail; what came of the attempt must not be lost for it."""
    try:
        yield
    except Exception:
        logger.warning("on_attempt failed", exc_info=True)
