"""What a session's last calls tell of its outcome: tests run last, and calls that failed."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.judging.verdicts import judge_call, may_show_tests
from relight.judging.verdicts.outputs import find_tests, make_output
from relight.reports.sessions import find_session, read_session

SHAPES = tomllib.loads((Path(__file__).parent / "verdict_shapes.toml").read_text("utf-8"))
PASSED, FAILED = "=== 3 passed in 0.2s ===", "=== 1 failed, 2 passed in 0.2s ==="
ANSWER = {"role": "assistant", "content": "Done."}
Message = dict[str, Any]


def call(name: str, command: str, result: str, tool: str = "bash") -> list[Message]:
    asked = {"name": tool, "arguments": json.dumps({"command": command})}
    request = {"id": name, "type": "function", "function": asked}
    return [
        {"role": "assistant", "content": None, "tool_calls": [request]},
        {"role": "tool", "tool_call_id": name, "content": result},
    ]


def say(text: str) -> Message:
    return {"role": "user", "content": text}


def judge(folder: Path, messages: list[Message], **told: Any) -> tuple[str, list[str]]:
    """The outcome of a chat with these messages after the first, the same after a rebuild."""
    folder.mkdir(exist_ok=True)
    path = folder / "chat.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": [say("go"), *messages], **told}) + "\n")
    with build.open_home(folder) as store:
        import_all(store, sources=["chat"], folder=path)
        found = read_session(store, find_session(store, "chat:a"))
        rebuild(store)
        again = read_session(store, find_session(store, "chat:a"))
    assert (again.outcome, again.evidence) == (found.outcome, found.evidence)
    return found.outcome, found.evidence


@pytest.mark.parametrize(
    ("fact", "outcome"),
    [
        ({"exit_code": 0}, "success"),
        ({"exit_code": 1}, "failure"),  # a gate on coverage
        ({"timed_out": True}, "unknown"),
        ({"is_error": True}, "unknown"),
    ],
)
def test_a_run_that_ended_badly_did_not_pass_whatever_its_summary_says(
    tmp_path: Path, fact: dict[str, Any], outcome: str
) -> None:
    told = [{"call_id": "c", **fact}]
    assert judge(tmp_path, [*call("c", "pytest", PASSED), ANSWER], calls=told)[0] == outcome


def test_what_failed_behind_the_tests_leaves_open_what_came_of_it(tmp_path: Path) -> None:
    text = f"{PASSED}\nrm: cannot remove 'nope': No such file or directory"
    assert judge(tmp_path, [*call("c", "pytest; rm nope", text), ANSWER])[0] == "unknown"


@pytest.mark.parametrize(
    ("command", "result", "outcome"),
    [
        ("npx mocha", "  3 passing (5ms)\n  1 failing\n", "failure"),
        ("bundle exec rspec", "3 examples, 1 failure", "failure"),
        ("node --test", "# tests 3\n# pass 2\n# fail 1", "failure"),
        ("dotnet test", "Failed!  - Failed:     1, Passed:     3, Skipped:     0", "failure"),
        ("bun test", " 3 pass\n 0 fail\nRan 3 tests across 1 files.", "success"),
        ("vendor/bin/phpunit", "OK (3 tests, 5 assertions)", "success"),
        ("tox", "  py311: OK (3.2 seconds)\n  congratulations :)", "success"),
        ("defects4j test", "Failing tests: 0", "success"),
    ],
)
def test_every_runner_that_the_rules_know_shows_the_outcome(
    tmp_path: Path, command: str, result: str, outcome: str
) -> None:
    assert judge(tmp_path, [*call("c", command, result), ANSWER])[0] == outcome


def test_a_long_result_in_json_is_read_to_its_end(tmp_path: Path) -> None:
    long = "tests/test_a.py ....\n" * 300
    result = json.dumps({"output": f"{long}{PASSED}\n", "exit_code": 0, "error": None})
    assert judge(tmp_path, [*call("c", "pytest", result, "terminal"), ANSWER])[0] == "success"


@pytest.mark.parametrize("shape", SHAPES["command"])
def test_no_summary_is_without_one_of_the_words_that_are_looked_for(shape: dict[str, Any]) -> None:
    found = find_tests(make_output((), shape["output"]))
    if found and found[0] != "none":
        assert may_show_tests(shape["output"])


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("git status", "success"),
        ("cat app.py | head -20", "success"),
        ("cd src && grep -rn spam . && git diff", "success"),
        ("git add -A && git commit -m done", "success"),
        ("sed -i s/a/b/ app.py", "unknown"),
        ("echo x > app.py", "unknown"),
        ("git diff > all.patch", "unknown"),
        ("find . -name '*.pyc' -delete", "unknown"),
        ("git checkout app.py", "unknown"),
        ("python fix.py", "unknown"),
    ],
)
def test_only_a_change_makes_tests_say_nothing_any_more(
    tmp_path: Path, command: str, outcome: str
) -> None:
    messages = [*call("c", "pytest", PASSED), *call("d", command, "x"), ANSWER]
    assert judge(tmp_path, messages)[0] == outcome


def test_a_persons_next_word_is_not_judged_by_the_tests_before_it(tmp_path: Path) -> None:
    before = [*call("c", "pytest", FAILED), ANSWER, say("thanks, now say hi")]
    assert judge(tmp_path, [*before, ANSWER])[0] == "unknown"
    assert judge(tmp_path / "b", [*before, *call("d", "pytest", PASSED), ANSWER])[0] == "success"


def test_a_failed_call_that_nothing_followed_is_a_failure(tmp_path: Path) -> None:
    messages = call("c", "cat nope", "cat: nope: No such file or directory")
    assert judge(tmp_path, messages) == (
        "failure",
        [
            "the last call failed: bash, there is no such file or folder",
            "no answer after the last user message",
        ],
    )


@pytest.mark.parametrize(
    "last",
    [
        [*call("c", "ls", "a.py"), say("[Request interrupted by user]")],
        call("c", "ls", "[Request interrupted by user for tool use]"),
    ],
)
def test_a_chat_that_a_person_stopped_was_interrupted(tmp_path: Path, last: list[Message]) -> None:
    outcome, evidence = judge(tmp_path, last)
    assert (outcome, evidence[0]) == ("unknown", "points to failure: it was interrupted")


def test_the_verdict_on_a_call_and_the_outcome_agree(tmp_path: Path) -> None:
    command = {"command": "pytest"}
    assert judge_call("bash", command, PASSED, exit_code=1).kind == "tests_failed"
    told = [{"call_id": "c", "exit_code": 1}]
    messages = [*call("c", "pytest", PASSED), ANSWER]
    assert judge(tmp_path, messages, calls=told)[1][0] == "the last test run failed"


def test_all_calls_of_a_long_spiral_are_counted(tmp_path: Path) -> None:
    calls = [one for n in range(90) for one in call(f"c{n}", f"make {n}", "Error: no rule")]
    facts = [{"call_id": f"c{n}", "exit_code": 2} for n in range(90)]
    _, evidence = judge(tmp_path, [*calls, ANSWER], calls=facts)
    assert any("bash failed 90 times" in one for one in evidence), evidence
