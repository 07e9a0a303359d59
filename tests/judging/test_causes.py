"""Kind and cause of failed runs and sessions, by the evidence that judges write."""

import pytest

from relight.judging.causes import find_cause
from relight.judging.failures import read_kinds
from relight.judging.outcomes import RUN_SIGNS, OutcomeEvidence, judge_outcome

FAILED = {
    "server_error": OutcomeEvidence(
        is_run=True, ledger_status="failed", ledger_error="RuntimeError: HTTP 500: try later"
    ),
    "command_failed": OutcomeEvidence(is_run=True, script_error="Script exited with code 3"),
    "auth": OutcomeEvidence(api_failure="auth", api_failure_text="401 bad key", ending="api_error"),
    "command_not_found": OutcomeEvidence(
        ending="result",
        last_call_label="error",
        last_call_kind="command_not_found",
        last_call_tool="Bash",
        last_call_reason="there is no such command",
    ),
    "no_answer": OutcomeEvidence(ending="prompt"),
    "tests_failed": OutcomeEvidence(ending="answer", last_tests="failed"),
    "empty_answer": OutcomeEvidence(is_run=True, ending="empty"),
    "admitted": OutcomeEvidence(
        is_run=True, ending="answer", answer="I was unable to complete the task: no disk."
    ),
    "spiral": OutcomeEvidence(
        ending="answer",
        answer="So it is.",
        spiral_tool="Bash",
        spiral_count=7,
        judged_calls=8,
        failed_calls=7,
    ),
    "calls_failed": OutcomeEvidence(
        ending="answer",
        answer="So it is.",
        judged_calls=90,
        failed_calls=90,
        last_call_label="error",
        last_call_tool="Bash",
        last_call_reason="it failed",
    ),
    "reported": OutcomeEvidence(source_outcome="failure"),
    "labelled": OutcomeEvidence(label="failure", ending="answer"),
}


@pytest.mark.parametrize("kind", FAILED)
def test_every_way_to_fail_has_its_kind(kind: str) -> None:
    judged = judge_outcome(FAILED[kind], RUN_SIGNS)
    assert judged.outcome == "failure"
    found = find_cause(judged.evidence)
    assert found.kind == kind
    assert found.kind in read_kinds()
    assert found.cause


def test_alike_evidence_is_one_cause() -> None:
    texts = [
        f"the scheduler's ledger says failed: HTTP 429: slow down, try again in {wait}s"
        f" (request req_{name}, 2026-11-1{day}T03:12:00Z)"
        for wait, name, day in ((12, "a81bc81b0dead", 4), (7.5, "5f2c9e77aa01b", 5))
    ]
    assert len({find_cause([text]) for text in texts}) == 1
    assert len({find_cause([f"the job's script failed: exit code {n}"]) for n in (1, 3)}) == 2


def test_a_persons_reason_is_the_cause_and_a_bare_label_leaves_it_to_the_evidence() -> None:
    tests = "the last test run failed"
    found = find_cause(["a person said failure: the totals are wrong", tests])
    assert (found.kind, found.cause) == ("labelled", "a person said failure: the totals are wrong")
    assert find_cause(["a person said failure", tests]).kind == "tests_failed"
    said = ["a person said failure", "the scheduler's ledger says completed"]
    assert find_cause(said).kind == "labelled"


def test_a_program_that_only_says_that_it_failed_leaves_the_cause_to_the_evidence() -> None:
    said = "the source says failure"
    found = find_cause([said, "the last model call failed: auth (401 bad key)"])
    assert (found.kind, found.cause) == ("auth", "model call failed: 401 bad key")
    assert find_cause([said, "it ended with an answer"]).kind == "reported"


def test_an_error_that_no_judge_wrote_is_classified_by_its_words() -> None:
    assert find_cause(["connection refused by 127.0.0.1"]).kind == "connection"
    assert find_cause([]).kind == "unknown"
