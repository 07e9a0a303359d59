"""Retry calls whose failure may pass."""

import asyncio
import inspect
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from relight.errors import RelightError, check_count, describe, refuse
from relight.judging.failures import classify_error, read_kinds
from relight.model import Failure

T = TypeVar("T")
OnAttempt: TypeAlias = Callable[[int, Failure | None, float | None], object]
Sleep: TypeAlias = Callable[[float], Awaitable[None] | None]

_LONGEST_BACKOFF_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 120.0
OMIT = "leave it out to let the kind of failure decide"
logger = logging.getLogger("relight")


def execute_with_retry(
    func: Callable[..., T],
    *args: Any,
    attempts: int | None = None,
    max_retries: int | None = None,
    backoff_base: float | None = None,
    on_attempt: OnAttempt | None = None,
    sleep: Callable[[float], None] | None = None,
    **kwargs: Any,
) -> T:
    """Return what `func` returns; retry it after failures that may pass.

    The kind of failure decides how often and after how long. `attempts`, or `max_retries` without
    the first, overrides how often; `backoff_base` the seconds of the first wait, which is doubled
    after each further attempt.
    Permanent failures are raised at once. `on_attempt(attempt, failure, wait_seconds)` is called
    after every attempt: without a failure if it succeeded, without a wait if it was the last. It
    decides nothing: an error it raises is logged. If the other side asks for a wait of more than
    two minutes, a RelightError says when to try again.
    """
    if inspect.iscoroutinefunction(on_attempt):
        raise refuse(
            "on_attempt", "cannot be a coroutine function here", "use execute_with_retry_async"
        )
    plan = RetryPlan(_count_attempts(attempts, max_retries), on_attempt, backoff_base=backoff_base)
    while True:
        with plan:
            return func(*args, **kwargs)
        (sleep or time.sleep)(plan.wait_seconds)


async def execute_with_retry_async(
    func: Callable[..., Awaitable[T]],
    *args: Any,
    attempts: int | None = None,
    max_retries: int | None = None,
    backoff_base: float | None = None,
    on_attempt: OnAttempt | None = None,
    sleep: Sleep | None = None,
    **kwargs: Any,
) -> T:
    """`execute_with_retry` for coroutine functions; `on_attempt` and `sleep` may be either kind."""
    plan = RetryPlan(_count_attempts(attempts, max_retries), on_attempt, backoff_base=backoff_base)
    return await retry_by_plan(partial(func, *args, **kwargs), plan, sleep=sleep)


def _count_attempts(attempts: int | None, max_retries: Any) -> int | None:
    if max_retries is None:
        return attempts
    if attempts is not None:
        raise refuse("max_retries", "cannot go with attempts", "it is one less: give one of them")
    return check_count("max_retries", max_retries, hint=OMIT) + 1


async def retry_by_plan(
    attempt: Callable[[], Awaitable[T]], plan: "RetryPlan", *, sleep: Sleep | None = None
) -> T:
    """Return what `attempt` returns, retried as the plan decides."""
    while True:
        async with plan:
            return await attempt()
        slept = (sleep or asyncio.sleep)(plan.wait_seconds)
        if inspect.isawaitable(slept):
            await slept


def choose_wait_seconds(
    failure: Failure,
    attempt: int,
    *,
    asked_seconds: float | None = None,
    first_seconds: float | None = None,
    least_seconds: float = 0.0,
    jitter: Callable[[], float] = random.random,
) -> float:
    """Return the wait after an attempt: doubled each time, plus a random part of up to half.

    The wait the other side asked for is a minimum; the first wait is at least `least_seconds`. The
    random part keeps many callers that failed together from coming back together.
    """
    kind = read_kinds()[failure.kind]
    first = max(kind.backoff_seconds if first_seconds is None else first_seconds, least_seconds)
    wait = min(first * 2.0 ** (attempt - 1), _LONGEST_BACKOFF_SECONDS) * (1 + jitter() / 2)
    return max(wait, asked_seconds or 0.0)


class RetryBudget:
    """The attempts of one run, shared by all that retries in it: calls, and the run itself.

    At most `max_attempts` attempts in a row fail at one place, such as an endpoint. Counts and
    waits continue from one call to the next; a success begins them again. A wait that the other
    side asks for may be of any length: the run's deadline decides whether there is time for it.
    """

    def __init__(
        self, max_attempts: int, *, least_wait_seconds: float = 0.0, sleep: Sleep | None = None
    ) -> None:
        self.max_attempts, self.sleep = max_attempts, sleep
        self.notes: list[str] = []
        self._least_wait_seconds = least_wait_seconds
        self._failed: dict[str, int] = {}

    @property
    def used(self) -> int:
        """The attempts that failed in a row at the place where they are most."""
        return max(self._failed.values(), default=0)

    def fail(self, place: str) -> int:
        """Count a failed attempt; return how many failed in a row."""
        self._failed[place] = self._failed.get(place, 0) + 1
        return self._failed[place]

    def note_wait(self, reason: str, wait_seconds: float) -> None:
        """Keep and log why another attempt follows a wait; the wait may take minutes."""
        self.notes.append(f"{reason}; tried again after {wait_seconds:.1f} s")
        logger.warning("%s", self.notes[-1])

    def renew(self, place: str) -> None:
        """Begin again after an attempt that succeeded."""
        self._failed.pop(place, None)

    def can_retry(self, failure: Failure, count: int) -> bool:
        """True if another attempt may follow; an unknown failure is retried once."""
        limit = failure.max_retries + 1 if failure.category == "unknown" else self.max_attempts
        return failure.should_retry and count < min(limit, self.max_attempts)

    def choose_wait_seconds(self, failure: Failure, count: int) -> float:
        """Return the wait after so many failed attempts, at least as long as was asked for."""
        return choose_wait_seconds(
            failure,
            count,
            asked_seconds=failure.asked_seconds,
            least_seconds=self._least_wait_seconds,
        )


class _Step(NamedTuple):
    """The decision after an attempt: another one after a wait, none, or a refusal with a time."""

    failure: Failure | None = None
    wait_seconds: float | None = None
    refusal: RelightError | None = None


class RetryPlan:
    """Decides after each attempt whether another follows, and reports it.

    An attempt runs inside of it. A failure that is retried ends there, and `wait_seconds` is the
    wait before the next attempt; any other failure is raised. With a `budget` the attempts of the
    whole run at this `place` count.
    """

    def __init__(
        self,
        attempts: int | None,
        on_attempt: OnAttempt | None,
        *,
        backoff_base: float | None = None,
        budget: RetryBudget | None = None,
        place: str = "",
    ) -> None:
        if attempts is not None:
            check_count("attempts", attempts, least=1, hint=OMIT)
        is_time = isinstance(backoff_base, int | float) and not isinstance(backoff_base, bool)
        if backoff_base is not None and not (is_time and 0 <= backoff_base < math.inf):
            why = f"must be seconds from 0 up, not {describe(backoff_base)}"
            raise refuse("backoff_base", why, OMIT)
        self._attempts, self._backoff_base = attempts, backoff_base
        self._on_attempt = on_attempt
        self._budget, self._place = budget, place
        self._number = 1
        self.wait_seconds = 0.0

    def __enter__(self) -> None:
        """An attempt begins."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        step = self._choose_step(error)
        with _logged():
            self._report(step)
        return self._take(step, error)

    async def __aenter__(self) -> None:
        """An attempt begins."""

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        step = self._choose_step(error)
        with _logged():
            reported = self._report(step)
            if inspect.isawaitable(reported):
                await reported
        return self._take(step, error)

    def _choose_step(self, error: BaseException | None) -> _Step:
        budget = self._budget
        if error is None:
            if budget is not None:
                budget.renew(self._place)
            return _Step()
        failure = classify_error(error)
        # anything but an Exception is an interruption
        if not isinstance(error, Exception):
            return _Step(failure)
        if budget is not None:
            count = budget.fail(self._place)
            is_last = self._attempts is not None and self._number >= self._attempts
            if is_last or not budget.can_retry(failure, count):
                return _Step(failure)
            wait = budget.choose_wait_seconds(failure, count)
            return _Step(failure, wait)
        allowed = failure.max_retries + 1 if self._attempts is None else self._attempts
        if self._number >= allowed or not failure.should_retry:
            return _Step(failure)
        wait = choose_wait_seconds(
            failure,
            self._number,
            asked_seconds=failure.asked_seconds,
            first_seconds=self._backoff_base,
        )
        if wait <= _LONGEST_WAIT_SECONDS:
            return _Step(failure, wait)
        # rounded up to the minute, so that it is never too early
        at = datetime.fromtimestamp(math.ceil((time.time() + wait) / 60) * 60, UTC)
        refusal = RelightError(
            f"{failure.reason}; try again at {at:%Y-%m-%d %H:%M} UTC",
            f"the other side asked to wait {math.ceil(wait)} seconds",
        )
        return _Step(failure, refusal=refusal)

    def _report(self, step: _Step) -> object:
        if self._on_attempt is None:
            return None
        return self._on_attempt(self._number, step.failure, step.wait_seconds)

    def _take(self, step: _Step, error: BaseException | None) -> bool:
        """True if another attempt follows, so that the failure ends here."""
        if step.refusal is not None:
            raise step.refusal from error
        self._number += 1
        self.wait_seconds = step.wait_seconds or 0.0
        return step.wait_seconds is not None


@contextmanager
def _logged() -> Iterator[None]:
    """Log errors of `on_attempt`; the result of the attempt must not be lost."""
    try:
        yield
    except Exception:  # the caller's function may raise anything
        logger.warning("on_attempt failed", exc_info=True)
