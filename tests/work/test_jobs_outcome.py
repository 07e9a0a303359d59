"""What came of a run: every way to fail is a failure, and silence is a success."""

import pytest
from msgspec.structs import replace

from relight.judging.outcomes import RUN_SIGNS, OutcomeEvidence, is_silent, judge_outcome
from relight.work.jobs.attempts import judge_run
from relight.work.jobs.prompt import build_prompt
from relight.work.jobs.runners import AttemptResult
from relight.work.jobs.scripts import ScriptResult

BROKEN = ScriptResult(name="look.sh", exit_code=3, errors="no disk")


@pytest.mark.parametrize(
    ("ran", "evidence"),
    [
        (
            AttemptResult(ended_by="the agent failed: HTTP 500", answer="sorry"),
            "the agent failed: HTTP 500",
        ),
        (AttemptResult(answer=""), "the answer is empty"),
        (AttemptResult(answer=None), "the answer is empty"),
        (AttemptResult(answer=" \n "), "the answer is empty"),
        (
            AttemptResult(
                answer="I looked.\n[SCRIPT_FAILED]: the backup did not run\nElse all is well."
            ),
            "the answer says [SCRIPT_FAILED]: the backup did not run",
        ),
        (AttemptResult(answer="[SCRIPT_FAILED]"), "the answer says [SCRIPT_FAILED]"),
        (
            AttemptResult(answer="I was unable to complete the task: no network."),
            "the answer says: I was unable to complete the task: no network.",
        ),
        (
            AttemptResult(answer="API call failed after 3 retries"),
            "the answer says: API call failed after 3 retries",
        ),
    ],
)
def test_every_way_to_fail_is_a_failure(ran: AttemptResult, evidence: str) -> None:
    judged = judge_run(ran)
    assert (judged.outcome, judged.evidence[0]) == ("failure", evidence)


@pytest.mark.parametrize(
    "answer", ["All is well.", "[SILENT]", "The script failed, but never mind"]
)
def test_a_failed_script_fails_the_run_whatever_the_agent_says(answer: str) -> None:
    judged = judge_run(AttemptResult(answer=answer), BROKEN)
    assert judged.outcome == "failure"
    reason = "the job's script failed: look.sh ended with exit code 3: no disk"
    assert reason in judged.evidence


def test_a_failed_script_that_left_no_time_for_the_agent_fails_the_run() -> None:
    slow = ScriptResult(name="slow.sh", timed_out=True, exit_code=-15)
    judged = judge_run(None, slow)
    assert judged.outcome == "failure"
    assert judged.evidence == [
        "the job's script failed: slow.sh took too long and was ended",
        "its time was over before the agent could begin",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "All is well.",
        "Three tests failed last night; the error was fixed.",
        "No failures. The word error is in the logs 3 times.",
    ],
)
def test_a_report_that_speaks_of_failures_is_a_success(answer: str) -> None:
    judged = judge_run(AttemptResult(answer=answer))
    assert (judged.outcome, judged.evidence) == ("success", ["it ended with an answer"])


@pytest.mark.parametrize(
    ("seen", "evidence"),
    [
        (OutcomeEvidence(last_tests="failed"), "the last test run failed"),
        (
            OutcomeEvidence(spiral_tool="bash", spiral_count=7),
            "it ended in a spiral: bash failed 7 times, and no call after that worked",
        ),
        (
            OutcomeEvidence(judged_calls=10, failed_calls=8, last_call_label="error"),
            "8 of 10 calls failed, the last one too",
        ),
        (OutcomeEvidence(source_outcome="failure"), "the source says failure"),
    ],
)
def test_evidence_in_the_session_counts_for_the_run_as_for_a_session_whose_signs_are_proven(
    seen: OutcomeEvidence, evidence: str
) -> None:
    run = judge_run(AttemptResult(answer="All is well."), seen=seen)
    session = judge_outcome(replace(seen, ending="answer", answer="All is well."), RUN_SIGNS)
    assert (run.outcome, run.evidence[0]) == ("failure", evidence)
    assert (session.outcome, session.evidence[0]) == ("failure", evidence)


def test_an_answer_with_nothing_against_it_is_a_success_of_a_run_and_unknown_of_a_session() -> None:
    answered = OutcomeEvidence(ending="answer", answer="All is well.")
    assert judge_run(AttemptResult(answer="All is well."), seen=answered).outcome == "success"
    assert judge_outcome(answered).outcome == "unknown"


def test_a_report_about_failures_is_judged_by_the_task_that_asked_for_it() -> None:
    answer = AttemptResult(answer="The import crashed because a quote is missing in line 3.")
    assert judge_run(answer, seen=OutcomeEvidence(task="Import the file.")).outcome == "failure"
    why = OutcomeEvidence(task="Find out why the import crashed.")
    assert judge_run(answer, seen=why).outcome == "success"


def test_silence_is_a_success_that_says_so() -> None:
    judged = judge_run(AttemptResult(answer="[SILENT]", evidence=["the usage file says completed"]))
    assert judged.outcome == "success"
    assert judged.evidence == [
        "the answer is [SILENT]: nothing to report",
        "the usage file says completed",
    ]


def test_an_agent_that_was_not_woken_is_a_success_that_says_so() -> None:
    quiet = ScriptResult(name="look.sh", wakes_agent=False)
    judged = judge_run(None, quiet)
    assert judged.outcome == "success"
    assert judged.evidence == ["the job's script said that the agent need not be woken"]


@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        ("[SILENT]", True),
        ("  [SILENT]\n", True),
        ("`[SILENT]`", True),
        ("**[SILENT]**.", True),
        ("[SILENT] but one more thing", False),
        ("Report: [SILENT]", False),
        ("[SILENT]\n\nThe disk is full.", False),
        ("[silent]", False),
        ("", False),
        (None, False),
    ],
)
def test_only_silence_alone_is_silence(answer: str | None, silent: bool) -> None:
    assert is_silent(answer) is silent


def test_an_answer_that_quotes_its_prompt_says_nothing_of_a_failure() -> None:
    """As `echo {prompt}` does: the rules of the prompt contain the marker."""
    task = "Look at the disk.\n[SCRIPT_FAILED]: is the marker; use it if df fails."
    answer = build_prompt(task, script=ScriptResult(name="df.sh", output="x"), model="m")
    assert "[SCRIPT_FAILED]" in answer
    seen = OutcomeEvidence(task=task)
    assert judge_run(AttemptResult(answer=answer), seen=seen).outcome == "success"
    failed = judge_run(AttemptResult(answer=f"{answer}\n[SCRIPT_FAILED]: no disk"), seen=seen)
    assert failed.evidence == ["the answer says [SCRIPT_FAILED]: no disk"]
    script = ScriptResult(name="df.sh", exit_code=3)
    quoted = build_prompt(task, script=script, model="m")
    judged = judge_run(AttemptResult(answer=quoted), script, seen=seen)
    assert judged.outcome == "failure"
    assert not any("[SCRIPT_FAILED]" in one for one in judged.evidence)
