"""After a failed run: whether another can help, and when it happens."""

import pytest

from relight.reports.retries import RetryAdvice, judge_retry

NEXT = "2026-11-16T06:00:00.000Z"
NOW = 1_794_806_000_000  # an hour and a half before that


def advise(
    kind: str | None, *, retry_at: str | None = None, next_run_at: str | None = NEXT, now: int = NOW
) -> RetryAdvice:
    return judge_retry(
        kind, retry_at=retry_at, next_run_at=next_run_at, timezone="Europe/Berlin", now=now
    )


def test_a_permanent_failure_names_what_ends_it() -> None:
    found = advise("auth")
    assert (found.category, found.can_retry) == ("permanent", False)
    assert found.words == (
        "permanent: the next run at Mon 2026-11-16 07:00 CET will fail too until the key or login"
        " is mended"
    )
    alone = advise("bad_request", next_run_at=None)
    assert alone.words == "permanent: another run will fail too until the request is mended"


def test_a_temporary_failure_says_when_it_is_tried_again() -> None:
    found = advise("server_error")
    assert (found.category, found.can_retry) == ("temporary", True)
    assert found.words == "temporary: tried again at Mon 2026-11-16 07:00 CET"
    assert advise("server_error", next_run_at=None).words == (
        "temporary: another run can help, and none is scheduled"
    )


def test_a_run_whose_time_has_passed_is_overdue_and_not_promised() -> None:
    late = NOW + 86_400_000
    assert advise("server_error", now=late).words == (
        "temporary: another run can help; the next is overdue: its scheduler has not begun that of"
        " Mon 2026-11-16 07:00 CET"
    )
    assert "the next is overdue" in advise("unknown", now=late).words
    assert advise("auth", now=late).words == (
        "permanent: another run will fail too until the key or login is mended"
    )


@pytest.mark.parametrize("kind", ["rate_limit", "usage_limit"])
def test_no_run_is_promised_before_the_time_that_was_asked_for(kind: str) -> None:
    found = advise(kind, retry_at="2026-11-16T06:24:00.000Z")
    assert (found.category, found.retry_at) == ("temporary", "2026-11-16T06:24:00.000Z")
    assert found.words == (
        "temporary: tried again at the first of its times after Mon 2026-11-16 07:24 CET"
    )
    earlier = advise(kind, retry_at="2026-11-16T05:24:00.000Z")
    assert earlier.words == "temporary: tried again at Mon 2026-11-16 07:00 CET"


@pytest.mark.parametrize(
    "kind", [None, "unknown", "time_limit", "budget", "admitted", "command_failed"]
)
def test_of_other_failures_nothing_is_promised(kind: str | None) -> None:
    found = advise(kind)
    assert (found.category, found.can_retry) == ("unknown", None)
    assert found.words == (
        "it is not known whether another run can help; the next is at Mon 2026-11-16 07:00 CET"
    )
