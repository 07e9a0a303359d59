"""The outcome of a session or a run, by evidence; unknown is a valid outcome."""

from msgspec import Struct

from relight.judging.failures import find_failure_phrase
from relight.model import Ending, Outcome, OutcomeName

SILENT = "[SILENT]"
SCRIPT_FAILED = "[SCRIPT_FAILED]"
ONGOING = ("claimed", "running")
# failure kinds of calls that a person stopped
STOPPED = ("interrupted", "rejected")
TESTS_FAILED = "the last test run failed"


class OutcomeEvidence(Struct, frozen=True, kw_only=True):
    """Everything in the record about how a session or run went."""

    label: OutcomeName | None = None
    label_why: str | None = None
    is_run: bool = False
    ledger_status: str | None = None
    ledger_error: str | None = None
    source_outcome: OutcomeName | None = None
    script_error: str | None = None
    has_session: bool = True
    ending: Ending | None = None
    answer: str | None = None
    api_failure: str | None = None
    api_failure_text: str | None = None
    last_call_label: str | None = None
    last_call_kind: str | None = None
    last_call_tool: str | None = None
    last_call_reason: str | None = None
    last_tests: str | None = None


def judge_outcome(seen: OutcomeEvidence) -> Outcome:
    """Return the outcome of the strongest evidence, and all the evidence.

    A label by a person wins; then a failure in a scheduler's ledger, a failed script, an admission
    in the answer; then how the session ended. An answer at the end alone proves nothing, and
    neither does a scheduler's "completed" if the script failed.

    >>> judge_outcome(OutcomeEvidence(ending="prompt")).outcome
    'failure'
    >>> judge_outcome(OutcomeEvidence(ending="answer")).outcome
    'unknown'
    """
    found = [*_find_words(seen), *_find_failures(seen), *_find_successes(seen)]
    evidence = [text for _, text in found] + _find_hints(seen)
    return Outcome(found[0][0] if found else "unknown", evidence)


def _find_words(seen: OutcomeEvidence) -> list[tuple[OutcomeName, str]]:
    found: list[tuple[OutcomeName, str]] = []
    if seen.label:
        why = f": {seen.label_why}" if seen.label_why else ""
        found.append((seen.label, f"a person said {seen.label}{why}"))
    if seen.source_outcome:
        found.append((seen.source_outcome, f"the source says {seen.source_outcome}"))
    return found


def _find_failures(seen: OutcomeEvidence) -> list[tuple[OutcomeName, str]]:
    reasons = []
    if seen.ledger_status == "failed":
        reasons.append(f"the scheduler's ledger says failed: {seen.ledger_error or 'no reason'}")
    if seen.script_error:
        reasons.append(f"the job's script failed: {seen.script_error}")
    if seen.is_run and seen.has_session:
        reasons += _find_admissions(seen)
    if seen.ledger_status not in ONGOING:
        reasons += _find_bad_ends(seen)
    return [("failure", reason) for reason in reasons]


def _find_bad_ends(seen: OutcomeEvidence) -> list[str]:
    """The bad endings of a session that has ended."""
    reasons = []
    if seen.api_failure and seen.ending in ("api_error", "prompt", "result"):
        reasons.append(f"the last model call failed: {seen.api_failure} ({seen.api_failure_text})")
    if _is_given_up(seen):
        reasons.append(_describe_last_call(seen))
    if seen.ending == "prompt" or _is_given_up(seen):
        reasons.append("no answer after the last user message")
    # a job that runs the tests and reports them has not failed if they are red
    if seen.last_tests == "failed" and seen.ledger_status != "completed":
        reasons.append(TESTS_FAILED)
    return reasons


def _is_given_up(seen: OutcomeEvidence) -> bool:
    """True if nothing follows a call that failed."""
    is_end = seen.ending in ("call", "result") and seen.last_call_label == "error"
    return is_end and seen.last_call_kind not in STOPPED


def _is_interrupted(seen: OutcomeEvidence) -> bool:
    is_stopped = seen.ending in ("call", "result") and seen.last_call_kind in STOPPED
    return is_stopped or seen.ending == "interrupted"


def _describe_last_call(seen: OutcomeEvidence) -> str:
    return f"the last call failed: {seen.last_call_tool}, {seen.last_call_reason}"


def _find_admissions(seen: OutcomeEvidence) -> list[str]:
    """The failures that the answer of a scheduled run admits, with no person there to read it."""
    answer = seen.answer or ""
    if SCRIPT_FAILED in answer:
        return [f"the answer says {SCRIPT_FAILED}"]
    if seen.ending == "empty" or (seen.ending == "answer" and not answer.strip()):
        return ["the answer is empty"]
    if phrase := find_failure_phrase(answer):
        return [f"the answer says: {phrase}"]
    return []


def _find_successes(seen: OutcomeEvidence) -> list[tuple[OutcomeName, str]]:
    reasons = []
    if seen.ledger_status == "completed":
        reasons.append("the scheduler's ledger says completed")
    if seen.ending == "answer" and seen.last_tests == "passed":
        reasons.append("the tests run last passed, and it ended with an answer")
    return [("success", reason) for reason in reasons]


def _find_hints(seen: OutcomeEvidence) -> list[str]:
    """Facts that are worth knowing but decide nothing."""
    hints = []
    if seen.is_run and not seen.has_session:
        hints.append("the run left no session")
    if seen.ledger_status in (*ONGOING, "unknown"):
        hints.append(f"the scheduler's ledger says {seen.ledger_status}")
    if _is_interrupted(seen):
        hints.append("it was interrupted")
    elif seen.ending in ("call", "result") and not _is_given_up(seen):
        hints.append("it ended in the middle of its work")
    elif seen.ending == "empty" and not seen.is_run:
        hints.append("it ended with an empty answer")
    elif seen.ending == "answer":
        hints.append("it ended with an answer")
    if seen.last_call_label == "error" and not _is_given_up(seen):
        hints.append(_describe_last_call(seen))
    if seen.last_tests == "failed" and seen.ledger_status == "completed":
        hints.append(TESTS_FAILED)
    return hints
