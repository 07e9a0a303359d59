"""The attempts of a run, and its outcome.

An attempt is repeated after a temporary failure, while there is time and money. The outcome is
judged by the runner, the script, the answer and the session that the agent left.
"""

import logging
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import StoreError
from relight.judging.outcomes import OutcomeEvidence, judge_outcome
from relight.model import Outcome, row_id
from relight.models.retrying import RetryBudget
from relight.store import Store
from relight.work.jobs.runners import AttemptResult
from relight.work.jobs.scripts import ScriptResult
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


def try_run(store: Store, attempt: Attempt, *, retries: RetryBudget, deadline: float) -> Attempts:
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
        retries.note_wait(f"attempt {len(results)} failed: {result.ended_by}", wait)
        (retries.sleep or time.sleep)(wait)
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


logger = logging.getLogger("relight")
NOTHING_SEEN = OutcomeEvidence()


def read_run_evidence(
    store: Store, result: AttemptResult | None, *, task: str | None
) -> OutcomeEvidence:
    """Return the evidence in the session of an attempt, as far as it left one that can be read."""
    seen = None
    if result is not None and result.session:
        from relight.store.derive.outcomes import read_evidence

        try:
            with store.reading() as database:
                seen = read_evidence(database, row_id("session", *result.session.split(":", 1)))
        except StoreError as error:  # the answer still counts
            logger.warning("the session %s could not be read: %s", result.session, error)
    return replace(seen or NOTHING_SEEN, task=task)


def judge_run(
    result: AttemptResult | None,
    script: ScriptResult | None = None,
    *,
    seen: OutcomeEvidence = NOTHING_SEEN,
) -> Outcome:
    """Success or failure of a run with its evidence, the deciding piece first.

    `seen` is the evidence in the session that the agent left. A failed script fails the run,
    however politely the agent reports it. Without a `result` the agent never began: the script
    skipped it, or no time was left.

    >>> judge_run(AttemptResult(answer="[SCRIPT_FAILED]: no disk")).outcome
    'failure'
    >>> judge_run(AttemptResult(answer="[SILENT]")).evidence
    ['the answer is [SILENT]: nothing to report']
    """
    script_error = script.failure if script is not None else None
    if result is None:
        if script is not None and not script_error and not script.wakes_agent:
            return Outcome("success", ["the job's script said that the agent need not be woken"])
        failures = [f"the job's script failed: {script_error}"] if script_error else []
        return Outcome("failure", [*failures, "its time was over before the agent could begin"])
    judged = judge_outcome(
        replace(
            seen,
            is_run=True,
            ledger_status=None,
            # what the program reports is more than what its session says
            source_outcome=None if result.ended_by else seen.source_outcome,
            script_error=script_error,
            ended_by=result.ended_by,
            ending="answer" if (result.answer or "").strip() else "empty",
            answer=result.answer,
        )
    )
    return Outcome(judged.outcome, [*judged.evidence, *result.evidence])
