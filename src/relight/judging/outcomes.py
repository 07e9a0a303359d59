"""The outcome of a session or a run, by evidence; unknown is a valid outcome.

Facts decide: a person's label, the source's own word, a ledger, a script, a request without an
answer. Other evidence is a sign. `data/outcomes.toml` has how often each kind of sign was right. In
a session a sign decides only if it was right often enough, in that table or by the user's labels.
In a run every sign that the work failed decides, and an answer with nothing against it is a
success: a job says what an answer means, and its owner wants to hear of each doubt.
"""

import re
from collections.abc import Iterator, Set
from functools import cache
from typing import Literal

from msgspec import Struct

from relight.data import read_table
from relight.judging.admissions import Admission, admit
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
PERSON_SAID = "a person said"
NO_ANSWER = "no answer after the last user message"
# the signs that decide in a run
RUN_SIGNS = frozenset(
    ("admitted", "last_call_failed", "spiral", "calls_failed", "tests_failed", "tests_passed")
)
# With four calls or fewer, 80 % means every one, and a session with two or three failed look-ups
# often answers all the same. Five is also the least length of a spiral of different calls.
_LEAST_CALLS = 5
_FAILED_SHARE = 0.8
_SILENT = re.compile(rf"[\s`*_]*{re.escape(SILENT)}[\s`*_.]*")
_REASON = re.compile(rf"{re.escape(SCRIPT_FAILED)}:?[ \t]*([^\n]*)")


class SignKind(Struct, frozen=True):
    """A kind of sign: what it points to, and how often it was right on labelled sessions."""

    points_to: Literal["success", "failure"]
    sessions: int = 0
    right: int = 0

    @property
    def is_proven(self) -> bool:
        table = read_sign_table()
        is_known = self.sessions >= table.least_sessions
        return is_known and self.right >= table.least_precision * self.sessions


class SignTable(Struct, frozen=True):
    """The content of `data/outcomes.toml`."""

    least_sessions: int
    least_precision: float
    kinds: dict[str, SignKind]


class Sign(Struct, frozen=True):
    """A piece of evidence that may decide an outcome; facts have no kind."""

    outcome: OutcomeName
    text: str
    kind: str | None = None


class OutcomeEvidence(Struct, frozen=True, kw_only=True):
    """Everything in the record about how a session or run went.

    `task` is what was asked for. `ended_by` is the reason why a runner ended before its answer.
    A spiral is here if no call after it worked; calls that a person stopped are not counted.
    `is_submitted`: the last call hands the work in. `is_committed`: a commit or push worked after
    the last change. `last_words` is how the user's last message reads. `admission` is that of the
    answer, if it is known already.
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
    is_submitted: bool = False
    is_committed: bool = False
    last_words: Literal["thanks", "correction"] | None = None
    asked_again_at: int | None = None
    admission: Admission | None = None


@cache
def read_sign_table() -> SignTable:
    """Return the kinds of signs that Relight knows."""
    return read_table("outcomes.toml", SignTable)


@cache
def find_proven() -> frozenset[str]:
    """Return the kinds of signs that decide everywhere, by the shipped figures."""
    return frozenset(name for name, kind in read_sign_table().kinds.items() if kind.is_proven)


def is_silent(answer: str | None) -> bool:
    """True if the answer is the mark for "nothing to report" and nothing else.

    >>> is_silent(" `[SILENT]` "), is_silent("[SILENT] but the disk is full")
    (True, False)
    """
    return bool(_SILENT.fullmatch(answer or ""))


def judge_outcome(seen: OutcomeEvidence, proven: Set[str] = frozenset()) -> Outcome:
    """Return the outcome of the strongest evidence, and all the evidence.

    `proven` are the kinds of signs that decide in a session. A label by a person wins; then a
    failure in a scheduler's ledger, a failed script; then how it ended. An answer at the end of a
    session alone proves nothing, and neither does a scheduler's "completed" if the script failed.

    >>> judge_outcome(OutcomeEvidence(ending="prompt")).outcome
    'failure'
    >>> judge_outcome(OutcomeEvidence(ending="answer")).outcome
    'unknown'
    >>> tests = OutcomeEvidence(ending="answer", last_tests="failed")
    >>> judge_outcome(tests).evidence[0], judge_outcome(tests, {"tests_failed"}).outcome
    ('points to failure: the last test run failed', 'failure')
    """
    decides = find_proven() | proven | (RUN_SIGNS if seen.is_run else frozenset())
    signs = list(find_signs(seen))
    found = [one for one in signs if one.kind is None or one.kind in decides] or _find_answer(seen)
    pointing = [one for one in signs if one not in found]
    evidence = [one.text for one in found]
    evidence += [f"points to {one.outcome}: {one.text}" for one in pointing]
    evidence += _find_hints(seen)
    if found:
        return Outcome(found[0].outcome, evidence)
    sides = {one.outcome for one in pointing}
    return Outcome("unknown", evidence, sides.pop() if len(sides) == 1 else None)


def find_signs(seen: OutcomeEvidence) -> Iterator[Sign]:
    """Yield the evidence about an outcome, the strongest first: words, failures, successes."""
    yield from _find_words(seen)
    yield from _find_failures(seen)
    if seen.ledger_status == "completed":
        yield Sign("success", "the scheduler's ledger says completed")
    if seen.last_tests == "passed" and (_is_answered(seen) or seen.is_submitted):
        end = ENDED_WITH_ANSWER if _is_answered(seen) else "the work was handed in"
        yield Sign("success", f"the tests run last passed, and {end}", "tests_passed")
    if seen.is_run:
        return
    if seen.last_words == "correction":
        yield Sign("failure", "the user's last words correct the agent", "corrected")
    if seen.asked_again_at is not None:
        yield Sign("failure", "the same task was asked again afterwards", "asked_again")
    if _is_interrupted(seen):
        yield Sign("failure", "it was interrupted", "interrupted")
    if seen.last_words == "thanks":
        yield Sign("success", "the user's last words are thanks", "thanked")
    if seen.is_committed:
        yield Sign("success", "the last change was committed or pushed", "committed")


def _find_words(seen: OutcomeEvidence) -> Iterator[Sign]:
    if seen.label:
        why = f": {seen.label_why}" if seen.label_why else ""
        yield Sign(seen.label, f"{PERSON_SAID} {seen.label}{why}")
    if seen.source_outcome:
        yield Sign(seen.source_outcome, f"the source says {seen.source_outcome}")


def _find_failures(seen: OutcomeEvidence) -> Iterator[Sign]:
    if seen.ended_by:
        yield Sign("failure", seen.ended_by)
    if seen.ledger_status == "failed":
        reason = seen.ledger_error or "no reason"
        yield Sign("failure", f"the scheduler's ledger says failed: {reason}")
    if seen.script_error:
        yield Sign("failure", f"the job's script failed: {seen.script_error}")
    # an answer is judged only if the work came to its end
    if seen.has_session and not seen.ended_by:
        yield from _find_admissions(seen)
    if seen.ledger_status not in ONGOING:
        yield from _find_bad_ends(seen)


def _find_bad_ends(seen: OutcomeEvidence) -> Iterator[Sign]:
    """The bad endings of a session that has ended."""
    if seen.api_failure and seen.ending in ("api_error", "prompt", "result"):
        text = f"the last model call failed: {seen.api_failure} ({seen.api_failure_text})"
        yield Sign("failure", text)
    if _is_given_up(seen):
        yield Sign("failure", _describe_last_call(seen), "last_call_failed")
    if seen.ending == "prompt":
        yield Sign("failure", NO_ANSWER)
    elif _is_given_up(seen):
        yield Sign("failure", NO_ANSWER, "last_call_failed")
    if seen.spiral_tool:
        times = f"{seen.spiral_tool} failed {seen.spiral_count} times"
        text = f"it ended in a spiral: {times}, and no call after that worked"
        yield Sign("failure", text, "spiral")
    is_last = seen.last_call_label == "error" and seen.last_call_kind not in STOPPED
    is_most = seen.failed_calls >= _FAILED_SHARE * seen.judged_calls
    if is_last and is_most and seen.judged_calls >= _LEAST_CALLS:
        text = f"{seen.failed_calls} of {seen.judged_calls} calls failed, the last one too"
        yield Sign("failure", text, "calls_failed")
    if seen.last_tests == "failed":
        yield Sign("failure", TESTS_FAILED, "tests_failed")


def _is_given_up(seen: OutcomeEvidence) -> bool:
    """True if nothing follows a call that failed."""
    is_end = seen.ending in ("call", "result") and seen.last_call_label == "error"
    return is_end and seen.last_call_kind not in STOPPED


def _is_interrupted(seen: OutcomeEvidence) -> bool:
    is_stopped = seen.ending in ("call", "result") and seen.last_call_kind in STOPPED
    return is_stopped or seen.ending == "interrupted"


def _describe_last_call(seen: OutcomeEvidence) -> str:
    return f"the last call failed: {seen.last_call_tool}, {seen.last_call_reason}"


def _find_admissions(seen: OutcomeEvidence) -> Iterator[Sign]:
    """The failures that the final answer admits; a job has its own rules for answers."""
    answer = seen.answer or ""
    if seen.is_run and (found := _REASON.search(_drop_prompt(answer, seen.task))):
        reason = found[1].strip()[:300]
        yield Sign("failure", f"the answer says {SCRIPT_FAILED}{f': {reason}' if reason else ''}")
    elif seen.is_run and _is_empty(seen):
        yield Sign("failure", "the answer is empty")
    elif (_is_answered(seen) or (seen.is_run and seen.ending is None)) and (
        phrase := (seen.admission or admit(answer)).choose(seen.task)
    ):
        yield Sign("failure", f"the answer says: {phrase}", "admitted")


def _drop_prompt(answer: str, task: str | None) -> str:
    """The answer without the places where it quotes a marker from its prompt."""
    if SCRIPT_FAILED not in answer:
        return answer
    for sentence in (MARKER_RULE, MARKER_REPORT):
        answer = answer.replace(sentence, "")
    quoted = {line.strip() for line in (task or "").splitlines() if SCRIPT_FAILED in line}
    return "\n".join(line for line in answer.splitlines() if line.strip() not in quoted)


def _is_answered(seen: OutcomeEvidence) -> bool:
    return seen.ending == "answer" and not _is_empty(seen)


def _is_empty(seen: OutcomeEvidence) -> bool:
    """True for an answer without words; a session's answer may have been left out of its record."""
    is_blank = not (seen.answer or "").strip()
    is_known = seen.is_run or seen.answer is not None
    return seen.ending == "empty" or (seen.ending == "answer" and is_known and is_blank)


def _find_answer(seen: OutcomeEvidence) -> list[Sign]:
    """The answer of a run as its success; a run in another scheduler's ledger is judged by that."""
    if not (seen.is_run and seen.ledger_status is None and _is_answered(seen)):
        return []
    silent = f"the answer is {SILENT}: nothing to report"
    return [Sign("success", silent if is_silent(seen.answer) else ENDED_WITH_ANSWER)]


def _find_hints(seen: OutcomeEvidence) -> list[str]:
    """Facts that are worth knowing but decide nothing."""
    hints = []
    if seen.is_run and not seen.has_session:
        hints.append("the run left no session")
    if seen.ledger_status in (*ONGOING, "unknown"):
        hints.append(f"the scheduler's ledger says {seen.ledger_status}")
    if _is_interrupted(seen):
        hints += ["it was interrupted"] if seen.is_run else []
    elif seen.is_submitted:
        hints.append("it ended by handing in its work")
    elif seen.ending in ("call", "result") and not _is_given_up(seen):
        hints.append("it ended in the middle of its work")
    elif _is_empty(seen) and not seen.is_run:
        hints.append("it ended with an empty answer")
    elif _is_answered(seen) and not (seen.is_run and seen.ledger_status is None):
        hints.append(ENDED_WITH_ANSWER)
    if seen.last_call_label == "error" and not _is_given_up(seen):
        hints.append(_describe_last_call(seen))
    return hints
