"""The outcome of a session or a run, by evidence; unknown is a valid outcome.

The same evidence counts alike for both. One thing differs: a run that ended with an answer, with
nothing against it, is a success, and a session is unknown. A job says what an answer means; a
person who works with an agent does not.
"""

import re

from msgspec import Struct

from relight.judging.admissions import find_admission
from relight.model import Ending, Outcome, OutcomeName

SILENT = "[SILENT]"
SCRIPT_FAILED = "[SCRIPT_FAILED]"
# the sentences of a job's prompt that contain the marker; an answer may quote them
MARKER_RULE = f"put {SCRIPT_FAILED}: and the reason on a line of your answer"
MARKER_REPORT = f"Report this with {SCRIPT_FAILED}."
ONGOING = ("claimed", "running")
# failure kinds of calls that a person stopped
STOPPED = ("interrupted", "rejected")
TESTS_FAILED = "the last test run failed"
ENDED_WITH_ANSWER = "it ended with an answer"
# With four calls or fewer, 80 % means every one, and a session with two or three failed look-ups
# often answers all the same. Five is also the least length of a spiral of different calls.
_LEAST_CALLS = 5
_FAILED_SHARE = 0.8
_SILENT = re.compile(rf"[\s`*_]*{re.escape(SILENT)}[\s`*_.]*")
_REASON = re.compile(rf"{re.escape(SCRIPT_FAILED)}:?[ \t]*([^\n]*)")


class OutcomeEvidence(Struct, frozen=True, kw_only=True):
    """Everything in the record about how a session or run went.

    `task` is what was asked for. `ended_by` is the reason why a runner ended before its answer.
    A spiral is here if no call after it worked; calls that a person stopped are not counted.
    """

    label: OutcomeName | None = None
    label_why: str | None = None
    is_run: bool = False
    ledger_status: str | None = None
    ledger_error: str | None = None
    source_outcome: OutcomeName | None = None
    script_error: str | None = None
    has_session: bool = True
    task: str | None = None
    ended_by: str | None = None
    ending: Ending | None = None
    answer: str | None = None
    api_failure: str | None = None
    api_failure_text: str | None = None
    last_call_label: str | None = None
    last_call_kind: str | None = None
    last_call_tool: str | None = None
    last_call_reason: str | None = None
    last_tests: str | None = None
    spiral_tool: str | None = None
    spiral_count: int = 0
    judged_calls: int = 0
    failed_calls: int = 0


def is_silent(answer: str | None) -> bool:
    """True if the answer is the mark for "nothing to report" and nothing else.

    >>> is_silent(" `[SILENT]` "), is_silent("[SILENT] but the disk is full")
    (True, False)
    """
    return bool(_SILENT.fullmatch(answer or ""))


def judge_outcome(seen: OutcomeEvidence) -> Outcome:
    """Return the outcome of the strongest evidence, and all the evidence.

    A label by a person wins; then a failure in a scheduler's ledger, a failed script, an admission
    in the answer; then how the session ended. An answer at the end of a session alone proves
    nothing, and neither does a scheduler's "completed" if the script failed.

    >>> judge_outcome(OutcomeEvidence(ending="prompt")).outcome
    'failure'
    >>> judge_outcome(OutcomeEvidence(ending="answer")).outcome
    'unknown'
    """
    found = [*_find_words(seen), *_find_failures(seen), *_find_successes(seen)]
    found = found or _find_answer(seen)
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
    if seen.ended_by:
        reasons.append(seen.ended_by)
    if seen.ledger_status == "failed":
        reasons.append(f"the scheduler's ledger says failed: {seen.ledger_error or 'no reason'}")
    if seen.script_error:
        reasons.append(f"the job's script failed: {seen.script_error}")
    # an answer is judged only if the work came to its end
    if seen.has_session and not seen.ended_by:
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
    if seen.spiral_tool:
        times = f"{seen.spiral_tool} failed {seen.spiral_count} times"
        reasons.append(f"it ended in a spiral: {times}, and no call after that worked")
    if _is_mostly_failed(seen):
        reasons.append(f"{seen.failed_calls} of {seen.judged_calls} calls failed, the last one too")
    if seen.last_tests == "failed":
        reasons.append(TESTS_FAILED)
    return reasons


def _is_mostly_failed(seen: OutcomeEvidence) -> bool:
    is_last = seen.last_call_label == "error" and seen.last_call_kind not in STOPPED
    is_most = seen.failed_calls >= _FAILED_SHARE * seen.judged_calls
    return is_last and is_most and seen.judged_calls >= _LEAST_CALLS


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
    """The failures that the final answer admits; a job has promises of its own about answers."""
    answer = seen.answer or ""
    if seen.is_run and (found := _REASON.search(_drop_prompt(answer, seen.task))):
        reason = found[1].strip()[:300]
        return [f"the answer says {SCRIPT_FAILED}{f': {reason}' if reason else ''}"]
    if seen.is_run and (seen.ending == "empty" or (_is_answered(seen) and not answer.strip())):
        return ["the answer is empty"]
    if _is_answered(seen) or (seen.is_run and seen.ending is None):
        phrase = find_admission(answer, seen.task)
        return [f"the answer says: {phrase}"] if phrase else []
    return []


def _drop_prompt(answer: str, task: str | None) -> str:
    """The answer without the places where it quotes a marker from its prompt."""
    if SCRIPT_FAILED not in answer:
        return answer
    for sentence in (MARKER_RULE, MARKER_REPORT):
        answer = answer.replace(sentence, "")
    quoted = {line.strip() for line in (task or "").splitlines() if SCRIPT_FAILED in line}
    return "\n".join(line for line in answer.splitlines() if line.strip() not in quoted)


def _is_answered(seen: OutcomeEvidence) -> bool:
    return seen.ending == "answer"


def _find_successes(seen: OutcomeEvidence) -> list[tuple[OutcomeName, str]]:
    reasons = []
    if seen.ledger_status == "completed":
        reasons.append("the scheduler's ledger says completed")
    if _is_answered(seen) and seen.last_tests == "passed":
        reasons.append("the tests run last passed, and it ended with an answer")
    return [("success", reason) for reason in reasons]


def _find_answer(seen: OutcomeEvidence) -> list[tuple[OutcomeName, str]]:
    """The answer of a run as its success; a run in another scheduler's ledger is judged by that."""
    if not (seen.is_run and seen.ledger_status is None and _is_answered(seen)):
        return []
    silent = f"the answer is {SILENT}: nothing to report"
    return [("success", silent if is_silent(seen.answer) else ENDED_WITH_ANSWER)]


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
    elif _is_answered(seen) and not (seen.is_run and seen.ledger_status is None):
        hints.append(ENDED_WITH_ANSWER)
    if seen.last_call_label == "error" and not _is_given_up(seen):
        hints.append(_describe_last_call(seen))
    return hints
