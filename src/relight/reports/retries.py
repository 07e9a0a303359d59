"""Advice after a failed run: can another help, and when does it begin?"""

import time
from typing import Literal

from msgspec import Struct

from relight.judging.failures import read_kinds
from relight.store.queries.runs import RunReport
from relight.times import format_moment, read_time

# a scheduler that looks at its jobs once a minute is not late before this
LATE_MS = 300_000


class RetryAdvice(Struct, frozen=True, kw_only=True):
    """Advice about a retry: can it help, when is it, and both in words; None is unknown."""

    kind: str | None
    category: Literal["temporary", "permanent", "unknown"]
    can_retry: bool | None
    # no attempt before this: the other side asked for it
    retry_at: str | None
    next_run_at: str | None
    words: str


def judge_run_retry(
    run: RunReport, *, next_run_at: str | None, timezone: str, now: int | None = None
) -> RetryAdvice | None:
    """Return the advice for a run that failed; None for any other.

    `next_run_at` is the next time of its job.
    """
    if run.outcome != "failure":
        return None
    return judge_retry(
        find_failure_kind(run),
        retry_at=run.retry_at,
        next_run_at=next_run_at,
        timezone=timezone,
        now=now,
    )


def find_failure_kind(run: RunReport) -> str:
    """Return the kind of a run's failure, else the one that its evidence names."""
    from relight.judging.causes import find_cause

    return run.failure_kind or find_cause(run.evidence).kind


def is_overdue(next_at: int | None, *, now: int) -> bool:
    """True if a run should have begun more than `LATE_MS` ago: its scheduler did not begin it."""
    return next_at is not None and next_at + LATE_MS < now


def judge_retry(
    kind: str | None,
    *,
    retry_at: str | None,
    next_run_at: str | None,
    timezone: str,
    now: int | None = None,
) -> RetryAdvice:
    """Return the advice after a failure of this kind; times are ISO-8601, shown in `timezone`.

    A next run that is overdue was not begun by its scheduler.
    """
    now = round(time.time() * 1000) if now is None else now
    row = read_kinds().get(kind or "")
    category: Literal["temporary", "permanent", "unknown"] = "unknown"
    if retry_at is not None or (row and row.category == "retryable"):
        category = "temporary"
    elif row and row.remedy:
        category = "permanent"
    next_at, allowed_at = read_time(next_run_at), read_time(retry_at)
    at = None if next_at is None else format_moment(next_at, timezone)
    can = "it is not known whether another run can help"
    if category == "temporary":
        can = "temporary: another run can help"
    is_late = is_overdue(next_at, now=now)
    if row and category == "permanent":
        who = f"the next run at {at}" if at and not is_late else "another run"
        words = f"permanent: {who} will fail too until {row.remedy}"
    elif is_late:
        words = f"{can}; the next is overdue: its scheduler has not begun that of {at}"
    elif at is None:
        words = f"{can}, and none is scheduled"
    else:
        words = (
            f"temporary: tried again at {at}"
            if category == "temporary"
            else f"{can}; the next is at {at}"
        )
    if allowed_at is not None and (next_at is None or allowed_at > next_at):
        until = format_moment(allowed_at, timezone)
        words = f"temporary: tried again at the first of its times after {until}"
        if next_at is None:
            words = f"temporary: another run can help after {until}, and none is scheduled"
    return RetryAdvice(
        kind=kind,
        category=category,
        can_retry={"temporary": True, "permanent": False}.get(category),
        retry_at=retry_at,
        next_run_at=next_run_at,
        words=words,
    )
