"""Try again where trying again can help."""

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

from relight.errors import RelightError
from relight.failures import classify_error, find_retry_after, read_kinds
from relight.model import Failure

T = TypeVar("T")
OnAttempt: TypeAlias = Callable[[int, Failure | None, float | None], object]

_LONGEST_BACKOFF_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 120.0


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
    every attempt: no failure where it went well, no wait where no other follows. Where the other
    side asks for more than two minutes, a RelightError says when to try again.
    """
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
    """The same for a coroutine function; `sleep` may be one, or a plain function."""
    plan = _Plan(attempts, on_attempt)
    while True:
        with plan:
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


class _Plan:
    """What to do after each attempt, and who is told.

    An attempt is made inside of it. A failure after which another is to follow ends there, and
    `wait_seconds` says when that is due; any other is raised.
    """

    def __init__(self, attempts: int | None, on_attempt: OnAttempt | None) -> None:
        if attempts is not None and attempts < 1:
            raise RelightError(
                f"{attempts} attempts cannot be made",
                "give `attempts` as 1 or more, or leave it out",
            )
        self._attempts = attempts
        self._on_attempt = on_attempt
        self._number = 1
        self.wait_seconds = 0.0

    def __enter__(self) -> None:
        """An attempt begins."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            self._report(None, None)
            return False
        wait = self._find_wait(error)
        self.wait_seconds = wait or 0.0
        return wait is not None

    def _find_wait(self, error: BaseException) -> float | None:
        """The seconds until the next attempt after one that failed; None if there is to be none."""
        failure = classify_error(error)
        allowed = failure.max_retries + 1 if self._attempts is None else self._attempts
        # what is no Exception is someone's wish to leave
        is_last = not isinstance(error, Exception) or self._number >= allowed
        if is_last or not failure.should_retry:
            self._report(failure, None)
            return None
        asked = find_retry_after(error)
        wait = choose_wait_seconds(failure, self._number, asked_seconds=asked)
        if wait > _LONGEST_WAIT_SECONDS:
            self._report(failure, None)
            at = datetime.fromtimestamp(time.time() + wait, UTC)
            raise RelightError(
                f"{failure.reason}; try again at {at:%Y-%m-%d %H:%M} UTC",
                f"the other side asked to wait {wait:.0f} seconds",
            ) from error
        self._report(failure, wait)
        self._number += 1
        return wait

    def _report(self, failure: Failure | None, wait_seconds: float | None) -> None:
        if self._on_attempt:
            self._on_attempt(self._number, failure, wait_seconds)
