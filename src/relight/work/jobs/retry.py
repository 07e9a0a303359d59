"""The attempts of a run: repeated after temporary failures, while there is time and money."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.models.retrying import RetryBudget
from relight.store import Store
from relight.work.jobs.runners import AttemptResult
from relight.work.jobs.spending import Figures, add_figures, total_figures

# one attempt, given its time limit in seconds and the dollars spent by the attempts before
Attempt = Callable[[float, float], AttemptResult]


class Attempts(Struct, frozen=True, kw_only=True):
    """The results of all attempts, and notes about those before the last."""

    results: list[AttemptResult]
    notes: list[str]
    # the other side asked for no attempt before this
    retry_at: int | None = None

    @property
    def last(self) -> AttemptResult:
        """The attempt that counts."""
        return self.results[-1]

    @property
    def sessions(self) -> list[str]:
        return [result.session for result in self.results if result.session]


def try_run(
    store: Store,
    attempt: Attempt,
    *,
    retries: RetryBudget,
    deadline: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Attempts:
    """Repeat an attempt until it succeeds, a retry cannot help, or the limits are reached.

    `retries` is shared with the model calls inside the attempts: what they used up is not tried
    once more. `deadline` is a time of the monotonic clock.
    """
    results: list[AttemptResult] = []
    notes: list[str] = []
    while True:
        spent = count_spent(store, results).known_nanos / 1e9
        result = attempt(max(deadline - time.monotonic(), 0.0), spent)
        results.append(result)
        notes += retries.notes
        retries.notes.clear()
        count, failure = max(len(results), retries.used), result.failure
        if failure is None or result.timed_out or not retries.can_retry(failure, count):
            break
        wait = retries.choose_wait_seconds(failure, count)
        if time.monotonic() + wait >= deadline:
            notes.append(f"no time is left to wait {wait:.1f} s and try again")
            break
        notes.append(
            f"attempt {len(results)} failed: {result.ended_by}; tried again after {wait:.1f} s"
        )
        sleep(wait)
    return Attempts(results=results, notes=notes, retry_at=results[-1].retry_at)


def count_spent(store: Store, results: Sequence[AttemptResult]) -> Figures:
    """Cost and tokens of attempts: from the session of each, else as its program reports."""
    return total_figures(_count_one(store, result) for result in results)


def _count_one(store: Store, result: AttemptResult) -> Figures:
    """The figures of an attempt's session; if a cost there is unknown, its program's figure holds.

    Unless that is less than what is known: a program that failed may report nothing.
    """
    found = add_figures(store, [result.session]) if result.session else Figures()
    usage, said = found.usage or result.usage, result.cost_nanos
    if found.cost_nanos is not None or said is None or said < found.known_nanos:
        return replace(found, usage=usage)
    return Figures(cost_nanos=said, known_nanos=said, usage=usage)
