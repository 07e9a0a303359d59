import json
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.judging.outcomes import (
    RUN_SIGNS,
    OutcomeEvidence,
    SignKind,
    find_proven,
    judge_outcome,
    read_sign_table,
)
from relight.reports.failures import read_failures
from relight.reports.labels import label_session
from relight.reports.sessions import find_session, read_session
from relight.reports.totals import report
from relight.store import Store
from relight.store.labels import measure_signs
from relight.store.queries.failures import count_failures_by_day
from relight.store.queries.filters import Filter


def outcome_of(store: Store, name: str) -> tuple[str, list[str]]:
    found = read_session(store, find_session(store, name))
    return found.outcome, found.evidence


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (OutcomeEvidence(ending="answer"), "unknown"),
        (OutcomeEvidence(ending="prompt"), "failure"),
        (OutcomeEvidence(ending="interrupted"), "unknown"),
        (OutcomeEvidence(ending="result"), "unknown"),
        (OutcomeEvidence(ending="result", last_call_label="ok"), "unknown"),
        (OutcomeEvidence(ending="result", last_call_label="error"), "failure"),
        (OutcomeEvidence(ending="interrupted", last_call_label="error"), "unknown"),
        (
            OutcomeEvidence(ending="result", last_call_label="error", last_call_kind="rejected"),
            "unknown",
        ),
        (
            OutcomeEvidence(
                is_run=True, ledger_status="completed", last_tests="failed", answer="x"
            ),
            "failure",
        ),
        (
            OutcomeEvidence(is_run=True, ledger_status="unknown", last_tests="failed", answer="x"),
            "failure",
        ),
        (OutcomeEvidence(ending="api_error", api_failure="overloaded"), "failure"),
        (OutcomeEvidence(ending="answer", api_failure="overloaded"), "unknown"),
        (OutcomeEvidence(ending="answer", last_tests="passed"), "success"),
        (OutcomeEvidence(ending="answer", last_tests="failed"), "failure"),
        (OutcomeEvidence(ending="call", last_tests="passed"), "unknown"),
        (OutcomeEvidence(ending="answer", last_call_label="error"), "unknown"),
        (
            OutcomeEvidence(source_outcome="failure", ending="answer", last_tests="passed"),
            "failure",
        ),
        (
            OutcomeEvidence(
                is_run=True, ledger_status="completed", ending="answer", answer="Fine."
            ),
            "success",
        ),
        (OutcomeEvidence(is_run=True, ledger_status="completed", script_error="exit 3"), "failure"),
        (OutcomeEvidence(is_run=True, ledger_status="failed", ledger_error="HTTP 500"), "failure"),
        (OutcomeEvidence(is_run=True, ledger_status="running", ending="prompt"), "unknown"),
        (OutcomeEvidence(ending="empty"), "unknown"),
        (
            OutcomeEvidence(is_run=True, ledger_status="completed", ending="empty", answer="x"),
            "failure",
        ),
        (
            OutcomeEvidence(is_run=True, ledger_status="completed", ending="answer", answer=""),
            "failure",
        ),
        (
            OutcomeEvidence(
                is_run=True, ledger_status="completed", answer="[SCRIPT_FAILED]: no disk"
            ),
            "failure",
        ),
        (OutcomeEvidence(is_run=True, ledger_status="completed", answer="[SILENT]"), "success"),
        (OutcomeEvidence(ending="answer", answer="Status: FAILED. ssh timed out."), "failure"),
        (OutcomeEvidence(ending="prompt", answer="I could not log in."), "failure"),
        (OutcomeEvidence(ending="answer", answer="No errors were found."), "unknown"),
        (OutcomeEvidence(ending="answer", spiral_tool="bash", spiral_count=3), "failure"),
        (
            OutcomeEvidence(label="success", ending="answer", spiral_tool="bash", spiral_count=3),
            "success",
        ),
        (
            OutcomeEvidence(source_outcome="success", ending="answer", answer="Status: FAILED"),
            "success",
        ),
        (
            OutcomeEvidence(
                ending="answer", judged_calls=5, failed_calls=4, last_call_label="error"
            ),
            "failure",
        ),
        (
            OutcomeEvidence(ending="answer", judged_calls=5, failed_calls=4, last_call_label="ok"),
            "unknown",
        ),
        (
            OutcomeEvidence(
                ending="answer", judged_calls=9, failed_calls=7, last_call_label="error"
            ),
            "unknown",
        ),
        (
            OutcomeEvidence(
                ending="answer", judged_calls=4, failed_calls=4, last_call_label="error"
            ),
            "unknown",
        ),
        (OutcomeEvidence(label="success", ledger_status="failed", ending="prompt"), "success"),
        (OutcomeEvidence(label="unknown", ledger_status="failed"), "unknown"),
    ],
)
def test_the_strongest_evidence_decides(seen: OutcomeEvidence, outcome: str) -> None:
    assert judge_outcome(seen, RUN_SIGNS).outcome == outcome


@pytest.mark.parametrize(
    ("seen", "points_to", "evidence"),
    [
        (
            OutcomeEvidence(ending="answer", last_tests="passed"),
            "success",
            "points to success: the tests run last passed, and it ended with an answer",
        ),
        (
            OutcomeEvidence(ending="answer", last_tests="failed"),
            "failure",
            "points to failure: the last test run failed",
        ),
        (
            OutcomeEvidence(ending="answer", spiral_tool="get", spiral_count=9),
            "failure",
            "points to failure: it ended in a spiral: get failed 9 times, and no call after that"
            " worked",
        ),
        (
            OutcomeEvidence(ending="answer", last_words="thanks"),
            "success",
            "points to success: the user's last words are thanks",
        ),
        (
            OutcomeEvidence(ending="answer", last_words="correction", is_committed=True),
            None,
            "points to failure: the user's last words correct the agent",
        ),
        (
            OutcomeEvidence(ending="answer", is_committed=True),
            "success",
            "points to success: the last change was committed or pushed",
        ),
        (
            OutcomeEvidence(ending="answer", asked_again_at=5),
            "failure",
            "points to failure: the same task was asked again afterwards",
        ),
        (
            OutcomeEvidence(ending="interrupted"),
            "failure",
            "points to failure: it was interrupted",
        ),
    ],
)
def test_a_sign_that_no_labels_have_proven_is_shown_and_decides_nothing(
    seen: OutcomeEvidence, points_to: str | None, evidence: str
) -> None:
    judged = judge_outcome(seen)
    assert (judged.outcome, judged.points_to) == ("unknown", points_to)
    assert judged.evidence[0] == evidence


def test_a_kind_of_sign_decides_with_fifty_sessions_of_which_it_was_right_in_95_percent() -> None:
    assert SignKind("success", sessions=60, right=57).is_proven
    assert not SignKind("success", sessions=60, right=56).is_proven
    assert not SignKind("success", sessions=49, right=49).is_proven
    assert find_proven() == {name for name, one in read_sign_table().kinds.items() if one.is_proven}


def write_tested(folder: Path, number: int) -> None:
    """Write a session that ends with tests that pass."""
    lines = [
        build.claude_prompt(f"Fix bug {number}"),
        build.claude_answer(f"m{number}", build.tool_use(f"t{number}", command="pytest"), at=1),
        build.claude_result(f"t{number}", "3 passed in 0.3s", at=2),
        build.claude_answer(f"n{number}", at=3),
    ]
    name = f"{number:08d}-0000-4000-8000-000000000000"
    build.write_claude(folder, [{**line, "sessionId": name} for line in lines], name=name)


def test_the_users_labels_prove_a_sign_which_then_decides_and_may_lose_that_again(
    tmp_path: Path,
) -> None:
    for number in range(60):
        write_tested(tmp_path, number)
    with build.open_home(tmp_path, proven=()) as store:
        build.import_home(store, tmp_path)
        names = [f"{number:08d}" for number in range(60)]
        assert outcome_of(store, names[59])[0] == "unknown"
        for name in names[:50]:
            label_session(store, find_session(store, name), "success")
        assert outcome_of(store, names[59]) == (
            "success",
            ["the tests run last passed, and it ended with an answer", "it ended with an answer"],
        )
        (sign,) = (one for one in measure_signs(store) if one.kind == "tests_passed")
        assert (sign.sessions, sign.right, sign.decides) == (50, 50, True)
        for name in names[50:55]:
            label_session(store, find_session(store, name), "failure")
        assert outcome_of(store, names[59])[0] == "unknown"


def test_a_label_that_is_cleared_leaves_the_outcome_to_the_evidence(tmp_path: Path) -> None:
    write_tested(tmp_path, 1)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        session = find_session(store, "00000001")
        label_session(store, session, "failure")
        label_session(store, session, "clear")
        assert outcome_of(store, "00000001")[0] == "success"


def test_signs_are_read_from_words_commits_and_later_sessions(tmp_path: Path) -> None:
    task = "Make the invoices round to whole cents"
    first = [
        build.claude_prompt(task),
        build.claude_answer("m1", build.tool_use("t1", command="git commit -am done"), at=1),
        build.claude_result("t1", "[main 1a2b3c4] done", at=2),
        build.claude_answer("m2", at=3),
        build.claude_prompt("Thanks!", at=4),
        build.claude_answer("m3", at=5),
    ]
    build.write_claude(tmp_path, first)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        outcome, evidence = outcome_of(store, "1111")
        assert (outcome, evidence[:2]) == (
            "unknown",
            [
                "points to success: the user's last words are thanks",
                "points to success: the last change was committed or pushed",
            ],
        )
        again = [build.claude_prompt(task, at=90), build.claude_answer("n1", at=91)]
        name = "22222222-0000-4000-8000-000000000000"
        build.write_claude(tmp_path, [{**line, "sessionId": name} for line in again], name=name)
        build.import_home(store, tmp_path)
        evidence = outcome_of(store, "1111")[1]
        assert evidence[0] == "points to failure: the same task was asked again afterwards"


def test_all_evidence_is_kept_the_deciding_one_first() -> None:
    seen = OutcomeEvidence(
        is_run=True, script_error="exit 3", ledger_status="completed", ending="answer"
    )
    judged = judge_outcome(seen)
    assert judged.evidence[0] == "the job's script failed: exit 3"
    assert "the scheduler's ledger says completed" in judged.evidence


def test_a_persons_word_wins_and_survives_a_rebuild(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111")[0] == "success"  # its tests passed last
        label_session(store, find_session(store, "1111"), "failure", why="wrong invoice")
        assert outcome_of(store, "1111")[0] == "failure"
        rebuild(store)
        outcome, evidence = outcome_of(store, "1111")
        assert (outcome, evidence[0]) == ("failure", "a person said failure: wrong invoice")


def test_tests_behind_a_pipe_are_read_though_the_exit_code_is_fine(tmp_path: Path) -> None:
    lines = [
        build.claude_prompt("go"),
        build.claude_answer("m1", build.tool_use("t1", command="pytest | tail -3"), at=1),
        build.claude_result("t1", "FAILED a.py::b\n1 failed, 2 passed in 0.3s", at=2),
        build.claude_answer("m2", at=3),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111") == (
            "failure",
            ["the last test run failed", "it ended with an answer"],
        )


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (build.claude_prompt("and then?", at=9), "failure"),
        (build.claude_prompt("[Request interrupted by user]", at=9), "unknown"),
        (build.claude_prompt("<command-name>/clear</command-name>", at=9), "success"),
    ],
)
def test_the_end_of_a_claude_code_session_is_evidence(
    tmp_path: Path, last: dict[str, Any], outcome: str
) -> None:
    build.write_claude(tmp_path, [*build.claude_session(), last])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111")[0] == outcome


def test_an_aborted_codex_turn_is_an_interruption(tmp_path: Path) -> None:
    lines = [
        build.codex_meta(),
        build.codex_line("turn_context", 1, model="gpt-5.2-codex"),
        build.codex_line("event_msg", 2, type="turn_aborted", reason="interrupted"),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        interrupted = ["points to failure: it was interrupted"]
        assert outcome_of(store, build.CODEX_SESSION) == ("unknown", interrupted)


def test_a_chat_file_may_say_the_outcome(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": [], "outcome": "failure"}) + "\n")
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        assert outcome_of(store, "chat:a") == ("failure", ["the source says failure"])


def test_failures_are_counted_by_kind_and_tool_with_an_example(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (failure,) = read_failures(store, Filter()).failures
        assert (failure.kind, failure.tool, failure.count) == ("file_not_found", "Read", 1)
        assert failure.example == "File does not exist."
        assert [(one.kind, one.failures) for one in count_failures_by_day(store, Filter())] == [
            ("file_not_found", 1)
        ]


def test_a_spiral_is_found_with_what_it_burnt(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [build.claude_prompt("go")]
    for number in range(4):
        call = build.tool_use(f"t{number}", command="make deploy")
        lines.append(build.claude_answer(f"m{number}", call, at=number * 2 + 1))
        text = "Exit code 2\nmake: *** No rule to make target 'deploy'."
        lines.append(build.claude_result(f"t{number}", text, at=number * 2 + 2, is_error=True))
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (spiral,) = read_failures(store, Filter()).spirals
        assert (spiral.tool, spiral.kind, spiral.count) == ("Bash", "identical", 4)
        assert spiral.tokens == 4 * (10 + 4000 + 300 + 50)
        assert spiral.cost_usd == pytest.approx(report(store).total.cost_usd)
        assert read_session(store, find_session(store, "1111")).spirals[0].count == 4


def write_spiral(folder: Path, arguments: list[str], **told: Any) -> Path:
    """A chat in which a tool failed so often, and the model then gave up."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, text in enumerate(arguments):
        call = {"id": f"c{number}", "function": {"name": "get", "arguments": text}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "Error: no"})
    messages.append({"role": "assistant", "content": "It cannot be had."})
    path = folder / "chat.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": messages, **told}) + "\n")
    return path


def test_the_same_call_in_other_spacing_and_order_is_the_same_call(tmp_path: Path) -> None:
    path = write_spiral(tmp_path, ['{"a":1,"b":2}', '{"b": 2, "a": 1}'] * 2)
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        (spiral,) = read_failures(store, Filter()).spirals
        assert (spiral.kind, spiral.count) == ("identical", 4)
        assert (spiral.tokens, spiral.is_estimated) == (None, False)


def test_a_spiral_burnt_its_share_of_a_sum_and_no_more(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 4000, "completion_tokens": 400}
    path = write_spiral(tmp_path, ["{}"] * 3, usage=usage, model="gpt-5.1")
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        (spiral,) = read_failures(store, Filter()).spirals
        assert (spiral.tokens, spiral.is_estimated) == (3300, True)
        whole = report(store).total.cost_usd
        assert spiral.cost_usd == pytest.approx((whole or 0) * 3 / 4)


def test_calls_of_a_client_that_keeps_only_sums_share_them(tmp_path: Path) -> None:
    database, name = build.open_hermes(tmp_path), "20261115_000000_abc123"
    build.insert(
        database, "sessions", id=name, source="cli", model="m", started_at=build.START / 1000,
        input_tokens=9000, output_tokens=1000, api_call_count=10,
    )  # fmt: skip
    for number in range(9):
        asked = {"name": "terminal", "arguments": '{"command": "ls /nope"}'}
        failed = {"output": "ls: cannot access '/nope': No such file", "exit_code": 2}
        calls = json.dumps([{"id": f"c{number}", "function": asked}])
        for row in (
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(failed)},
        ):
            at = build.START / 1000 + number
            build.insert(database, "messages", session_id=name, timestamp=at, **row)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (spiral,) = read_failures(store, Filter()).spirals
        assert (spiral.count, spiral.tokens, spiral.is_estimated) == (9, 9000, True)


def write_calls(folder: Path, results: list[str], *more: dict[str, Any]) -> Path:
    """A chat with calls of `get`, each with another argument, and these results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, text in enumerate(results):
        request = {"id": f"c{number}", "function": {"name": "get", "arguments": f"[{number}]"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [request]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    messages += more or [{"role": "assistant", "content": "All of it is in place."}]
    path = folder / "chat.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": messages}) + "\n")
    return path


@pytest.mark.parametrize(
    ("results", "outcome", "evidence"),
    [
        (
            ["Error: no"] * 90,
            "failure",
            "it ended in a spiral: get failed 90 times, and no call after that worked",
        ),
        (["Error: no"] * 5 + ["42"], "unknown", "it ended with an answer"),
        (["Error: no", "42"] * 9, "unknown", "it ended with an answer"),
        (["Error: no"] * 2, "unknown", "it ended with an answer"),
    ],
)
def test_a_spiral_at_the_end_is_a_failure_and_one_that_was_left_is_not(
    tmp_path: Path, results: list[str], outcome: str, evidence: str
) -> None:
    path = write_calls(tmp_path, results)
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        assert outcome_of(store, "chat:a")[0] == outcome
        assert outcome_of(store, "chat:a")[1][0] == evidence
        rebuild(store)
        assert outcome_of(store, "chat:a")[1][0] == evidence


def test_a_request_that_needed_no_call_is_not_judged_by_the_spiral_before_it(
    tmp_path: Path,
) -> None:
    lines: list[dict[str, Any]] = [build.claude_prompt("go")]
    for number in range(4):
        use = build.tool_use(f"t{number}", command="make deploy")
        lines.append(build.claude_answer(f"m{number}", use, at=number * 2 + 1))
        lines.append(build.claude_result(f"t{number}", "Exit code 2", at=number * 2 + 2))
    lines += [build.claude_answer("m8", at=10)]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111")[0] == "failure"
    lines += [build.claude_prompt("Never mind. Say hi.", at=11), build.claude_answer("m9", at=12)]
    other = tmp_path / "other"
    other.mkdir()
    build.write_claude(other, lines)
    with build.open_home(other) as store:
        build.import_home(store, other)
        assert outcome_of(store, "1111")[0] == "unknown"


def test_calls_that_a_person_rejected_are_no_spiral(tmp_path: Path) -> None:
    path = write_calls(tmp_path, ["The user doesn't want to proceed with this tool use."] * 6)
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        assert outcome_of(store, "chat:a")[0] == "unknown"


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (OutcomeEvidence(is_run=True, ending="answer", answer=" \n"), "the answer is empty"),
        (
            OutcomeEvidence(is_run=True, ledger_status="completed", ending="answer", answer=""),
            "the answer is empty",
        ),
        (OutcomeEvidence(ending="answer", answer=""), "it ended with an empty answer"),
        (
            OutcomeEvidence(ending="answer", answer=" ", last_tests="passed"),
            "it ended with an empty answer",
        ),
    ],
)
def test_an_empty_answer_is_not_called_an_answer(seen: OutcomeEvidence, said: str) -> None:
    evidence = judge_outcome(seen, {"tests_passed"}).evidence
    assert said in evidence
    assert not any("it ended with an answer" in line for line in evidence)
