"""Tool calls are judged by evidence: the shapes are real, the contents invented.

What the rarer rules decide on 9,315 shell calls of labelled sessions, by output alone / with the
exit code: plain `git diff` 308 / 0, failed checks 143 / 95, names of checks 134 / 120, caught
exceptions 23 / 10, nothing but complaints 2 / 3, tracebacks without a head 1 / 0. Rules that
decided none are here only if they hold for programs that those sessions never ran.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.judging.failures import read_kinds
from relight.judging.verdicts import find_test_outcome, judge_call

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/app/job.py", line 4, in <module>\n'
    "    main()\n"
    "ValueError: no rows\n"
)
PYTEST_FAILED = "E   assert 3 == 4\n======= 1 failed, 3 passed, 2 warnings in 0.52s =======\n"
SHAPES = tomllib.loads((Path(__file__).parent / "verdict_shapes.toml").read_text("utf-8"))
COMMANDS: list[dict[str, Any]] = SHAPES["command"]
CALLS: list[dict[str, Any]] = SHAPES["call"]


def find_outcome(tool: str, arguments: object, result: object) -> str | None:
    verdict = judge_call(tool, arguments, result)
    return find_test_outcome(tool, arguments, result, verdict=verdict)


@pytest.mark.parametrize("shape", [shape for shape in COMMANDS if "exit_code" in shape])
def test_an_exit_code_is_read_with_its_command(shape: dict[str, Any]) -> None:
    command = {"command": shape["command"]}
    verdict = judge_call("bash", command, shape["output"], exit_code=shape["exit_code"])
    assert verdict.label == shape["with_code"]


@pytest.mark.parametrize("shape", COMMANDS)
def test_without_an_exit_code_the_command_and_its_last_words_decide(shape: dict[str, Any]) -> None:
    verdict = judge_call("bash", {"command": shape["command"]}, shape["output"])
    assert verdict.label == shape["label"]


@pytest.mark.parametrize("shape", COMMANDS)
@pytest.mark.parametrize(
    "wrapping",
    [
        "<returncode>{code}</returncode>\n<output>\n{output}</output>",
        "Exit code: {code}\nWall time: 0.1 seconds\nOutput:\n{output}",
        "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code {code}\nOutput:\n{output}",
        "{output}\n[The command completed with exit code {code}.]\n[Current working directory: /w]",
        "Output: {output}\nExit Code: {code}\nProcess Group PGID: 7",
    ],
)
def test_every_harness_writes_the_same_exit_code(shape: dict[str, Any], wrapping: str) -> None:
    if "exit_code" in shape:
        text = wrapping.format(code=shape["exit_code"], output=shape["output"])
        verdict = judge_call("shell", {"command": shape["command"]}, text)
        assert verdict.label == shape["with_code"]


@pytest.mark.parametrize("shape", COMMANDS)
def test_an_object_around_the_output_gives_the_same_verdict(shape: dict[str, Any]) -> None:
    if "exit_code" in shape:
        fields = {"output": shape["output"], "exit_code": shape["exit_code"], "error": None}
        arguments = json.dumps({"command": shape["command"]})
        assert judge_call("terminal", arguments, json.dumps(fields)).label == shape["with_code"]


@pytest.mark.parametrize("shape", CALLS)
def test_the_shapes_of_every_agent_are_understood(shape: dict[str, Any]) -> None:
    result = json.loads(shape["json"]) if "json" in shape else shape["result"]
    verdict = judge_call(
        shape["tool"],
        shape["arguments"],
        result,
        is_error=shape.get("is_error"),
        timed_out=shape.get("timed_out"),
    )
    assert verdict.label == shape["label"]


def test_the_protocol_flag_comes_first() -> None:
    verdict = judge_call("fetch", {}, '{"status": "success"}', is_error=True)
    assert verdict.label == "error"


def test_the_protocol_flag_stands_over_a_list_of_good_results() -> None:
    results = [{"query": "ls", "result": "a.py", "success": True}]
    call = ("run_commands", {"commands": ["ls"]}, json.dumps(results))
    assert judge_call(*call).label == "ok"
    assert judge_call(*call, is_error=True).label == "error"


def test_a_flag_that_only_repeats_an_exit_code_is_judged_by_the_exit_code() -> None:
    call = ("Bash", {"command": "grep -rn spam src"})
    assert judge_call(*call, "Exit code 1", is_error=True).label == "negative"
    assert judge_call(*call, "", is_error=True).label == "error"


def test_a_grep_that_found_nothing_is_an_answer_without_a_flag() -> None:
    for silence in ("", "(Bash completed with no output)", "[no output]"):
        verdict = judge_call("Bash", {"command": "grep x y"}, silence, is_error=False)
        assert verdict.label == "negative"
    assert judge_call("Bash", {"command": "touch y"}, "", is_error=False).label == "ok"


def test_a_time_out_needs_no_word_of_error() -> None:
    verdict = judge_call("bash", {"command": "python train.py"}, "epoch 1\n", timed_out=True)
    assert (verdict.label, verdict.kind) == ("error", "timeout")


def test_a_time_out_is_seen_behind_a_long_command() -> None:
    text = f"The last command <command>{'x' * 5000}</command> timed out and has been killed.\n"
    assert judge_call("bash", {"command": "x"}, text + "y" * 5000).kind == "timeout"


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [
        (124, "timeout"),
        (126, "permission"),
        (127, "command_not_found"),
        (134, "crashed"),
        (137, "killed"),
        (139, "crashed"),
        (-9, "killed"),
    ],
)
def test_signals_and_the_shells_own_codes_are_errors(exit_code: int, kind: str) -> None:
    verdict = judge_call("bash", {"command": "pytest -q"}, "", exit_code=exit_code)
    assert (verdict.label, verdict.kind) == ("error", kind)


def test_a_broken_pipe_is_no_failure() -> None:
    assert judge_call("bash", {"command": "yes"}, "y\n", exit_code=141).label == "ok"


def test_no_result_is_unknown_and_not_failed() -> None:
    assert judge_call("bash", {"command": "ls"}, None).label == "unknown"


def test_what_only_an_exit_code_shows_is_unknown_without_it() -> None:
    assert judge_call("bash", {"command": "test -f setup.py"}, "").label == "unknown"
    assert judge_call("bash", {"command": "grep -q spam a.py"}, "").label == "unknown"


@pytest.mark.parametrize(
    ("command", "output", "exit_code", "kind"),
    [
        (
            "psql",
            'psql: error: connection to server on socket "/s" failed: No such file or directory\n',
            2,
            "connection",
        ),
        (
            "kubectl get po",
            "The connection to the server x:8080 was refused - did\n",
            1,
            "connection",
        ),
        ("ssh h ls", "b@h: Permission denied (publickey).\n", 255, "auth"),
        ("scp a h:", "Host key verification failed.\nscp: Connection closed\n", None, "auth"),
        ("ssh h", "ssh: connect to host h port 22: Connection refused\n", 255, "connection"),
        ("ssh h", "", 255, "connection"),
        ("git pull", "fatal: Authentication failed for 'https://h/r.git/'\n", 128, "auth"),
        (
            "python a.py",
            '  File "a.py", line 1\n    08\n    ^\nSyntaxError: invalid token\n',
            1,
            "syntax_error",
        ),
        ("mkdocs build --strict", "Aborted with 1 warnings in strict mode!\n", 1, "lint_findings"),
        ("make lint", "a.py:1:8: F401 unused\nmake: *** [lint] Error 1\n", 2, "lint_findings"),
        ("./crash", "Aborted (core dumped)\n", 1, "crashed"),
        ("pytest", "", 5, "no_tests"),
        ("pytest", "collected 0 items\n=== no tests ran in 0.1s ===\n", None, "no_tests"),
        ("pytest -k x", "=== 3 deselected in 0.1s ===\n", 5, "no_tests"),
        ("python -m unittest", "Ran 0 tests in 0.0s\n\nNO TESTS RAN\n", 5, "no_tests"),
        ("find / -name x", "find: '/root': Permission denied\n", 1, "no_match"),
        ("find / -name x", "find: '/root': Permission denied\n" * 99 + "/etc/x\n", 1, None),
    ],
)
def test_the_kind_is_what_happened(
    command: str, output: str, exit_code: int | None, kind: str | None
) -> None:
    assert judge_call("bash", {"command": command}, output, exit_code=exit_code).kind == kind


def test_a_find_that_could_not_look_everywhere_did_find_something() -> None:
    output = "find: '/root': Permission denied\n/etc/x\n"
    verdict = judge_call("bash", {"command": "find / -name x"}, output, exit_code=1)
    assert (verdict.label, verdict.reason) == ("ok", "something was found, though not everywhere")


def test_a_missing_command_is_an_error_even_with_exit_code_0() -> None:
    verdict = judge_call(
        "bash", {"command": "foo; ls"}, "bash: foo: command not found\na.py\n", exit_code=0
    )
    assert (verdict.label, verdict.kind) == ("error", "command_not_found")


def test_a_missing_command_with_another_way_prepared_is_not() -> None:
    verdict = judge_call(
        "bash", {"command": "foo || ls"}, "bash: foo: command not found\na.py\n", exit_code=0
    )
    assert verdict.label == "ok"


def test_a_traceback_in_the_end_of_a_piped_script_is_an_error() -> None:
    verdict = judge_call("bash", {"command": "python job.py | tail"}, TRACEBACK, exit_code=0)
    assert (verdict.label, verdict.evidence) == ("error", "ValueError: no rows")


def test_a_traceback_long_before_the_end_of_a_masked_script_is_not() -> None:
    output = TRACEBACK + "def lower(gate): ...\n" * 99
    command = {"command": "python job.py; cat gates.py"}
    assert judge_call("bash", command, output, exit_code=0).label == "ok"
    assert judge_call("bash", command, output).label == "ok"
    assert judge_call("bash", {"command": "python job.py"}, output).label == "error"


def test_a_traceback_a_script_printed_and_outlived_is_not() -> None:
    output = f"{TRACEBACK}recovered\n"
    assert judge_call("bash", {"command": "python job.py"}, output, exit_code=0).label == "ok"


def test_a_strangers_pattern_or_script_is_read_and_never_run() -> None:
    greps = ["grep -nE '(a+)+$' x", "grep -rn '" + "a.*" * 9000 + "' x", f"rg '{'abc|' * 9000}'"]
    for command in greps:
        judge_call("bash", {"command": f"ls; {command}"}, "a" * 90_000 + "b")
    scripts = [
        "<<A\nprint_exc\n" * 9000,
        "print('aaaa'" * 9000 + "exit(1)",
        "exit('{a}bbbb')" * 9000,
    ]
    for script in scripts:
        judge_call("bash", {"command": f"python - <<B\n{script}\nB"}, TRACEBACK * 500)


def test_a_command_of_any_size_is_judged_in_time() -> None:
    lines = "cat a\n" * 5000
    judge_call("bash", {"command": f"{lines}cat b"}, "cat: a: No such file\n" * 5000)


def test_a_failed_assertion_of_a_check_is_an_answer_and_other_exceptions_are_not() -> None:
    def judge(file: str, exception: str) -> str:
        text = f'Traceback (most recent call last):\n  File "{file}", line 3, in <module>\n'
        command = {"command": f"python {file}"}
        return judge_call("bash", command, f"{text}{exception}\n", exit_code=1).label

    assert judge("test_fix.py", "AssertionError: 1 != 2") == "negative"
    assert judge("test_fix.py", "NameError: name 'x' is not defined") == "error"
    assert judge("/lib/parser.py", "AssertionError") == "error"


def test_a_half_written_object_is_text() -> None:
    assert judge_call("terminal", {"command": "python a.py"}, '{"output": "all go').label == "ok"
    half = json.dumps({"output": TRACEBACK})[:-2]
    assert judge_call("terminal", {"command": "python a.py"}, half).label == "error"


def test_a_warning_after_the_object_does_not_hide_it() -> None:
    text = '{"output": "", "exit_code": 0, "error": null}\n\n[Tool loop warning: same call again]'
    assert judge_call("terminal", {"command": "ls"}, text).label == "ok"
    text = text.replace('"exit_code": 0', '"exit_code": 2')
    assert judge_call("terminal", {"command": "ls"}, text).label == "error"


def test_json_printed_by_a_command_is_its_output_and_no_verdict() -> None:
    text = '{"error": "sample", "status": "failed"}'
    assert judge_call("bash", {"command": "cat fixture.json"}, text).label == "ok"
    assert judge_call("lookup", {}, '{"error": "sample"}').label == "error"


def test_arguments_may_be_an_object_or_its_json() -> None:
    for arguments in ({"command": "grep x y"}, '{"command": "grep x y"}'):
        assert judge_call("bash", arguments, "", exit_code=1).label == "negative"


def test_an_argument_list_is_read_as_a_command() -> None:
    arguments = {"command": ["bash", "-lc", "rg spam src"]}
    result = '{"output":"","metadata":{"exit_code":1,"duration_seconds":0.1}}'
    assert judge_call("shell", arguments, result).kind == "no_match"


def test_colours_do_not_hide_a_summary() -> None:
    text = "\x1b[31m=========== \x1b[31m\x1b[1m1 failed\x1b[0m, 2 passed in 0.1s ===========\x1b[0m"
    assert judge_call("bash", {"command": "pytest"}, text).label == "negative"


def test_evidence_is_short() -> None:
    verdict = judge_call("fetch", {}, "Error: " + "x" * 5000)
    assert verdict.evidence is not None
    assert len(verdict.evidence) <= 200


def test_the_outcome_of_tests_is_found_though_a_pipe_hides_it() -> None:
    command = {"command": "pytest 2>&1 | tail -5"}
    assert judge_call("bash", command, PYTEST_FAILED, exit_code=0).label == "ok"
    assert find_outcome("bash", command, PYTEST_FAILED) == "failed"
    assert find_outcome("bash", command, "== 3 passed in 0.1s ==\n") == "passed"
    assert find_outcome("bash", {"command": "cat log"}, PYTEST_FAILED) is None
    assert find_outcome("bash", {"command": "ls"}, "a.py\n") is None


@pytest.mark.parametrize("shape", SHAPES["tests"])
def test_every_runner_says_how_its_tests_went(shape: dict[str, Any]) -> None:
    command = {"command": shape["command"]}
    assert find_outcome("bash", command, shape["output"]) == shape.get("outcome")


DEEP = ["[" * 3000, "[" * 3000 + "]" * 3000, '{"a":' * 3000, '{"a":' * 3000 + "1" + "}" * 3000]


@pytest.mark.parametrize("text", DEEP, ids=["list", "closed list", "object", "closed object"])
def test_json_too_deep_to_be_read_is_text(text: str) -> None:
    for tool in ("bash", "lookup", "Grep", "execute_code"):
        assert judge_call(tool, {"command": "cat x.json"}, text).label == "ok"
        assert judge_call(tool, text, "fine").label == "ok"
        assert find_outcome(tool, text, text) is None


def test_numbers_and_flags_may_be_text() -> None:
    grep = {"command": "grep x y"}
    assert judge_call("bash", grep, "", exit_code="1").label == "negative"
    assert judge_call("bash", grep, '{"output":"","exit_code":"1"}').label == "negative"
    assert judge_call("bash", {"command": "ls"}, {"exit_code": "3"}).label == "error"
    assert judge_call("lookup", {}, "fine", is_error="false").label == "ok"
    assert judge_call("lookup", {}, "fine", is_error="true").label == "error"
    assert judge_call("lookup", {}, '{"success":"false"}').label == "error"
    assert judge_call("lookup", {}, '{"success":"true","isError":"false"}').label == "ok"
    assert judge_call("lookup", {}, {"isError": "True", "text": "x"}).label == "error"
    assert judge_call("bash", grep, "x", timed_out="true").kind == "timeout"
    assert judge_call("bash", grep, "x", exit_code="soon").label == "ok"


@pytest.mark.parametrize(
    "odd",
    [
        *[None, 7, b"bash", ["bash"], {"name": "bash"}, float("nan"), 10**5000, "\ud800"],
        *[{1: 2}, {"exit_code": 10**5000}, {"error": {"a": 10**5000}}, {"error": [10**5000]}],
        *[{"status": "failed", 3: 4}, {"command": [10**5000, None]}, {"command": "exit ²"}],
        *["Exit code: " + "9" * 5000, '{"a": "\ud800"}', '{"exit_code": ' + "9" * 5000 + "}"],
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_nothing_is_too_odd_to_be_judged(odd: Any) -> None:
    judge_call(odd, odd, odd)
    judge_call(odd, {"command": "ls"}, odd, is_error=odd, exit_code=odd, timed_out=odd)
    for tool in ("bash", "Read", "execute_code", "Grep", "lookup"):
        assert judge_call(tool, odd, odd).label in ("ok", "negative", "error", "unknown")
        find_outcome(tool, odd, odd)


any_text = st.text(st.characters(codec=None)) | st.sampled_from(
    [
        *DEEP,
        *[
            "Exit code: 1\n",
            "<output>",
            "\n[exited with code ",
            "Traceback (most recent call last):",
            "New Terminal Output:\n\nme@h:/w# cat <<E\n> x\n",
            "Current Terminal Screen:\n> E\nme@h:/w#",
        ],
        *["bash: x: command not found", "find: ", "1 failed in 1s", "exit ³", "$(", "<<E\n", "٣"],
    ]
)
any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            any_text
            | st.sampled_from(["command", "output", "exit_code", "error", "success", "status"])
            | st.sampled_from(["results", "result", "content", "text", "metadata", "isError"])
            | st.sampled_from(["commands", "keystrokes", "query"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(["bash", "Read", "python", "Grep", "lookup", ""]), any_value, any_value)
def test_nothing_in_a_call_makes_judging_fail(tool: str, arguments: Any, result: Any) -> None:
    for call in [(arguments, result), (json.dumps(arguments), json.dumps(result))]:
        verdict = judge_call(tool, *call)
        assert (verdict.kind is None) == (verdict.label in ("ok", "unknown"))
        assert find_outcome(tool, *call) in ("passed", "failed", None)


@given(
    st.sampled_from(["bash", "Read", "execute_code", "Grep", "lookup"]),
    st.one_of(st.none(), st.text(), st.dictionaries(st.text(), st.text()), st.lists(st.text())),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=6,
    ),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(-70, 300)),
)
def test_every_call_gets_a_verdict_of_a_known_kind(
    tool: str, arguments: object, result: object, is_error: bool | None, exit_code: int | None
) -> None:
    verdict = judge_call(tool, arguments, result, is_error=is_error, exit_code=exit_code)
    assert (verdict.kind is None) == (verdict.label in ("ok", "unknown"))
    if verdict.kind is not None:
        assert read_kinds()[verdict.kind].is_answer == (verdict.label == "negative")
    as_text = judge_call(tool, arguments, json.dumps(result), exit_code=exit_code)
    assert as_text.label in ("ok", "negative", "error", "unknown")
