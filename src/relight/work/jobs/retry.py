"""A run's attempts: tried again after failures that may pass, while there is time and money."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.model import Failure
from relight.models.retrying import choose_wait_seconds
from relight.store import Store
from relight.work.jobs.figures import Figures, add_figures, total_figures
from relight.work.jobs.runners import Ran

# an attempt, given the seconds that it may take and the dollars that were spent before it
Attempt = Callable[[float, float], Ran]


class Tried(Struct, frozen=True, kw_only=True):
    """What came of each attempt, and what is to be said of those before the last."""

    attempts: list[Ran]
    notes: list[str]

    @property
    def ran(self) -> Ran:
        """The last one, which counts."""
        return self.attempts[-1]

    @property
    def sessions(self) -> list[str]:
        return [ran.session for ran in self.attempts if ran.session]


def try_run(
    store: Store,
    attempt: Attempt,
    *,
    max_attempts: int,
    deadline: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Tried:
    """Attempt a run until it ends well, its failure is no passing one, or it has had its share.

    `deadline` is a moment of the steady clock.
    """
    attempts: list[Ran] = []
    notes: list[str] = []
    while True:
        spent = count_spent(store, attempts).known_nanos / 1e9
        ran = attempt(max(deadline - time.monotonic(), 0.0), spent)
        attempts.append(ran)
        count = len(attempts)
        failure = ran.failure
        if failure is None or not can_pass(failure, count) or count >= max_attempts:
            break
        wait = choose_wait_seconds(failure, count, asked_seconds=failure.backoff_seconds)
        if time.monotonic() + wait >= deadline:
            notes.append(f"no time is left to wait {wait:.1f} s and try again")
            break
        notes.append(f"attempt {count} failed: {ran.ended_by}; tried again after {wait:.1f} s")
        sleep(wait)
    return Tried(attempts=attempts, notes=notes)


def can_pass(failure: Failure, count: int) -> bool:
    """Whether trying again may help after so many attempts; what nobody knows gets one more."""
    if failure.category == "unknown":
        return count <= failure.max_retries
    return failure.should_retry


def count_spent(store: Store, attempts: Sequence[Ran]) -> Figures:
    """What attempts have spent: as the session of each tells it, else as its program does."""
    return total_figures(_count_one(store, ran) for ran in attempts)


def _count_one(store: Store, ran: Ran) -> Figures:
    found = add_figures(store, [ran.session]) if ran.session else Figures()
    if found.cost_nanos is not None or ran.cost_nanos is None:
        return replace(found, usage=found.usage or ran.usage)
    return Figures(
        cost_nanos=ran.cost_nanos, known_nanos=ran.cost_nanos, usage=found.usage or ran.usage
    )
