"""Failures that may pass are tried again, others are not."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from relight.errors import RelightError
from relight.judging.failures import classify_error
from relight.model import Failure
from relight.models.retrying import (
    choose_wait_seconds,
    execute_with_retry,
    execute_with_retry_async,
)


class Response:
    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


class ApiError(Exception):
    def __init__(self, status_code: int, message: str = "", **headers: str) -> None:
        super().__init__(message)
        self.status_code = status_code
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = Response(status_code, names)


def make_flaky(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return call


def test_a_failure_that_passes_is_not_seen_by_the_caller() -> None:
    waits: list[float] = []
    call = make_flaky(ConnectionResetError(), ApiError(503))
    assert execute_with_retry(call, sleep=waits.append) == "done"
    assert len(waits) == 2


def test_arguments_reach_the_function() -> None:
    def add(a: int, *, b: int) -> int:
        return a + b

    assert execute_with_retry(add, 1, b=2) == 3


def test_a_permanent_failure_is_raised_at_once() -> None:
    waits: list[float] = []
    with pytest.raises(ApiError):
        execute_with_retry(make_flaky(ApiError(401)), sleep=waits.append)
    assert waits == []


def test_no_quota_is_permanent_though_its_status_is_429() -> None:
    waits: list[float] = []
    error = ApiError(429, "You exceeded your current quota")
    with pytest.raises(ApiError):
        execute_with_retry(make_flaky(error), sleep=waits.append)
    assert waits == []


def test_an_unknown_failure_gets_one_careful_retry() -> None:
    waits: list[float] = []
    errors = [RuntimeError("odd"), RuntimeError("odd again"), RuntimeError("odd still")]
    with pytest.raises(RuntimeError, match="odd again"):
        execute_with_retry(make_flaky(*errors), sleep=waits.append)
    assert len(waits) == 1


def test_attempts_says_how_often_to_try() -> None:
    waits: list[float] = []
    with pytest.raises(ConnectionResetError):
        execute_with_retry(
            make_flaky(*[ConnectionResetError() for _ in range(9)]), attempts=3, sleep=waits.append
        )
    assert len(waits) == 2


def test_max_retries_counts_without_the_first_attempt() -> None:
    waits: list[float] = []
    flaky = make_flaky(*[ConnectionResetError() for _ in range(9)])
    with pytest.raises(ConnectionResetError):
        execute_with_retry(flaky, max_retries=2, sleep=waits.append)
    assert len(waits) == 2
    with pytest.raises(ConnectionResetError):
        execute_with_retry(flaky, max_retries=0, sleep=waits.append)
    assert len(waits) == 2


def test_backoff_base_is_the_first_wait_and_is_doubled() -> None:
    waits: list[float] = []
    flaky = make_flaky(*[ConnectionResetError() for _ in range(9)])
    with pytest.raises(ConnectionResetError):
        execute_with_retry(flaky, max_retries=3, backoff_base=0.5, sleep=waits.append)
    for wait, least in zip(waits, (0.5, 1.0, 2.0), strict=True):
        assert least <= wait <= least * 1.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_retries": -1}, "max_retries must be a whole number from 0 up"),
        ({"max_retries": True}, "max_retries must be a whole number from 0 up"),
        ({"max_retries": 1, "attempts": 2}, "max_retries cannot go with attempts"),
        ({"backoff_base": -0.1}, "backoff_base must be seconds from 0 up"),
        ({"backoff_base": float("nan")}, "backoff_base must be seconds from 0 up"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RelightError, match=message):
        execute_with_retry(make_flaky(), **options)


class Notes:
    """A hook that records its arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str | None, bool]] = []

    def __call__(self, attempt: int, failure: Failure | None, wait_seconds: float | None) -> None:
        self.seen.append((attempt, failure.kind if failure else None, wait_seconds is None))


def test_every_attempt_is_reported_until_one_fails_for_good() -> None:
    note = Notes()
    call = make_flaky(TimeoutError(), ApiError(500), ApiError(400))
    with pytest.raises(ApiError):
        execute_with_retry(call, on_attempt=note, sleep=lambda _: None)
    assert note.seen == [
        (1, "timeout", False),
        (2, "server_error", False),
        (3, "bad_request", True),
    ]


def test_an_attempt_that_goes_well_is_reported_too() -> None:
    note, other = Notes(), Notes()
    execute_with_retry(make_flaky(TimeoutError()), on_attempt=note, sleep=lambda _: None)
    assert note.seen == [(1, "timeout", False), (2, None, True)]

    async def call() -> None:
        return None

    asyncio.run(execute_with_retry_async(call, on_attempt=other))
    assert other.seen == [(1, None, True)]


def test_an_interrupted_attempt_is_reported_and_not_tried_again() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    note = Notes()
    with pytest.raises(KeyboardInterrupt):
        execute_with_retry(interrupt, on_attempt=note)
    assert note.seen == [(1, "interrupted", True)]


@pytest.mark.parametrize("attempts", [0, -1, "3", 1.5, True])
def test_a_number_of_attempts_that_cannot_be_meant_is_refused(attempts: Any) -> None:
    async def call() -> None:
        raise AssertionError

    with pytest.raises(RelightError, match=r"^attempts must be .* not") as told:
        execute_with_retry(make_flaky(), attempts=attempts)
    assert told.value.hint
    with pytest.raises(RelightError, match=r"^attempts must be .* not"):
        asyncio.run(execute_with_retry_async(call, attempts=attempts))


def test_a_coroutine_may_be_notified_of_the_attempts() -> None:
    note = Notes()
    left: list[Exception] = [TimeoutError()]

    async def hear(attempt: int, failure: Failure | None, wait_seconds: float | None) -> None:
        await asyncio.sleep(0)
        note(attempt, failure, wait_seconds)

    async def call() -> str:
        if left:
            raise left.pop()
        return "done"

    tried = execute_with_retry_async(call, on_attempt=hear, sleep=lambda _: None)
    assert asyncio.run(tried) == "done"
    assert note.seen == [(1, "timeout", False), (2, None, True)]
    with pytest.raises(RelightError, match="on_attempt cannot be a coroutine") as told:
        execute_with_retry(make_flaky(), on_attempt=hear)
    assert told.value.hint == "use execute_with_retry_async"


def test_a_failing_callback_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def complain(*_: object) -> None:
        raise ValueError("no ears")

    async def call() -> str:
        return "done"

    async def complain_later(*_: object) -> None:
        complain()

    call_twice = make_flaky(TimeoutError())
    assert execute_with_retry(call_twice, on_attempt=complain, sleep=lambda _: None) == "done"
    with pytest.raises(ApiError):
        execute_with_retry(make_flaky(ApiError(401)), on_attempt=complain)
    assert caplog.text.count("ValueError: no ears") == 3
    for hook in (complain, complain_later):
        assert asyncio.run(execute_with_retry_async(call, on_attempt=hook)) == "done"
    assert caplog.text.count("ValueError: no ears") == 5


def test_a_callback_may_still_be_interrupted() -> None:
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute_with_retry(make_flaky(), on_attempt=leave)


def test_what_is_behind_an_error_is_tried_again_as_it_asks() -> None:
    waits: list[float] = []
    error = RuntimeError("the turn failed")
    error.__cause__ = ApiError(429, retry_after="50")
    assert execute_with_retry(make_flaky(error), sleep=waits.append) == "done"
    assert waits == [50.0]


def test_what_the_other_side_asks_for_is_the_least_wait() -> None:
    waits: list[float] = []
    call = make_flaky(ApiError(429, retry_after="45"), ApiError(429, retry_after_ms="90500"))
    assert execute_with_retry(call, sleep=waits.append) == "done"
    assert waits == [45.0, 90.5]


def test_more_than_two_minutes_means_to_give_up_and_say_when() -> None:
    at = datetime.now(UTC) + timedelta(minutes=30)
    error = ApiError(429, "slow down", retry_after=format_datetime(at, usegmt=True))
    with pytest.raises(RelightError, match="try again at 2") as told:
        execute_with_retry(make_flaky(error), sleep=lambda _: None)
    assert told.value.__cause__ is error


def test_the_time_to_try_again_is_never_before_the_one_asked_for() -> None:
    asked_at = time.time() // 60 * 60 + 630  # in the middle of a minute
    after = format_datetime(datetime.fromtimestamp(asked_at, UTC), usegmt=True)
    with pytest.raises(RelightError) as told:
        execute_with_retry(make_flaky(ApiError(429, retry_after=after)))
    said = told.value.message.rpartition("try again at ")[2]
    said_at = datetime.strptime(said, "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC).timestamp()
    assert said_at == asked_at + 30


def test_a_wait_beyond_all_calendars_is_reported_as_well() -> None:
    with pytest.raises(RelightError, match="try again at 2"):
        execute_with_retry(make_flaky(ApiError(429, retry_after="9" * 30)), sleep=lambda _: None)


def test_waits_double_with_a_spread_and_have_a_limit() -> None:
    failure = classify_error(ConnectionResetError())
    assert [choose_wait_seconds(failure, n, jitter=lambda: 0.0) for n in (1, 2, 3)] == [1, 2, 4]
    assert choose_wait_seconds(failure, 2, jitter=lambda: 1.0) == 3.0
    assert choose_wait_seconds(failure, 30, jitter=lambda: 0.0) == 60.0
    assert choose_wait_seconds(failure, 1, asked_seconds=7.0) == 7.0


def test_too_many_requests_waits_longer_than_a_broken_connection() -> None:
    limited, broken = classify_error("HTTP 429: slow down"), classify_error(ConnectionResetError())
    assert limited.backoff_seconds > broken.backoff_seconds


def test_an_interrupt_is_never_held_up() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute_with_retry(interrupt, attempts=5, sleep=lambda _: None)


def test_a_coroutine_is_tried_again_in_the_same_way() -> None:
    waits: list[float] = []
    left: list[Exception] = [ConnectionResetError(), ApiError(503)]

    async def call(word: str) -> str:
        if left:
            raise left.pop(0)
        return word

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    assert asyncio.run(execute_with_retry_async(call, "done", sleep=pause)) == "done"
    assert len(waits) == 2
    left.append(ConnectionResetError())
    assert asyncio.run(execute_with_retry_async(call, "done", sleep=waits.append)) == "done"
    assert len(waits) == 3


def test_a_permanent_failure_of_a_coroutine_is_raised_at_once() -> None:
    async def call() -> None:
        raise ApiError(404)

    with pytest.raises(ApiError):
        asyncio.run(execute_with_retry_async(call, attempts=4))
