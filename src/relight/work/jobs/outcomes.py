"""The outcome of a run: by its runner, its script, its answer and the session that it left."""

import logging

from msgspec.structs import replace

from relight.errors import StoreError
from relight.judging.outcomes import OutcomeEvidence, judge_outcome
from relight.model import Outcome, row_id
from relight.store import Store
from relight.store.derive.outcomes import read_evidence
from relight.work.jobs.runners import AttemptResult
from relight.work.jobs.scripts import ScriptResult

logger = logging.getLogger("relight")
NOTHING_SEEN = OutcomeEvidence()


def read_run_evidence(
    store: Store, result: AttemptResult | None, *, task: str | None
) -> OutcomeEvidence:
    """Return the evidence in the session of an attempt, as far as it left one that can be read."""
    seen = None
    if result is not None and result.session:
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
        return _judge_unbegun(script, script_error)
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


def _judge_unbegun(script: ScriptResult | None, script_error: str | None) -> Outcome:
    if script is not None and not script_error and not script.wakes_agent:
        return Outcome("success", ["the job's script said that the agent need not be woken"])
    failures = [f"the job's script failed: {script_error}"] if script_error else []
    return Outcome("failure", [*failures, "its time was over before the agent could begin"])
