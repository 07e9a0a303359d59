"""Did a tool call do what it was asked? Judged by evidence, in this order.

Protocol flag, time-out and signals; the exit code, read together with the command; the fields of
a JSON result; anchored text last. The word "error" in a result proves nothing: half of all good
results show code and logs that contain it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from relight.judging.shell import split_stages
from relight.judging.verdicts.answers import is_test_run
from relight.judging.verdicts.fields import judge_fields
from relight.judging.verdicts.judging import judge_output
from relight.judging.verdicts.outputs import find_tests, make_output
from relight.judging.verdicts.phrases import OK, tell_error, tell_negative
from relight.judging.verdicts.results import Seen, decode, read_flag, read_number, read_result, say
from relight.judging.verdicts.rules import read_rules
from relight.judging.verdicts.screens import find_outputs, judge_screen, read_screen
from relight.model import Verdict

_UNKNOWN = Verdict("unknown", None, "the call has no result")
_ENVELOPE = frozenset(
    ["output", "output_tail", "stdout", "stderr", "exit_code", "exitCode", "returncode"]
)
# every summary of a test run has one of them: most output has none, and is told by that
_TEST_WORDS = (
    *("pass", "fail", "\nok", "\\nok", " ok", "success", "skipped", "error in ", "errors in "),
    *("errors!", "invocationerror", "congrat"),
)
_TEST_TAIL = 2500

Role = Literal["shell", "code", "search", "editor", "other"]


def judge_call(
    tool: str,
    arguments: object,
    result: object,
    *,
    is_error: bool | str | None = None,
    exit_code: int | str | None = None,
    timed_out: bool | str | None = None,
) -> Verdict:
    """What became of a tool call, with the evidence that decided.

    Agents write what they like, numbers and flags as strings among it: whatever the arguments
    and the result are, there is a verdict.

    `negative` means it did what it was asked and the answer was no: an empty grep, a failing
    test suite, lint findings. It is no failure of the call.

    >>> judge_call("bash", {"command": "cat app.log"}, "Traceback (most recent call last):").label
    'ok'
    >>> judge_call("bash", {"command": "grep x app.py"}, "", exit_code=1).label
    'negative'
    """
    if result is None and is_error is None and exit_code is None and timed_out is None:
        return _UNKNOWN
    seen = read_result(result)
    is_error, timed_out = read_flag(is_error), read_flag(timed_out)
    exit_code = read_number(exit_code)
    code = seen.exit_code if exit_code is None else exit_code
    if timed_out or (seen.timeout and code != 0):
        return tell_error("timeout", seen.timeout or "timed out")
    if result is None and code is None and is_error is None:
        return _UNKNOWN
    role, command = read_call(tool, arguments)
    if seen.parts and code is None and not command:
        verdict = _judge_parts(seen.parts, _find_lines(arguments))
        if verdict.label != "ok" or not is_error:
            return verdict
    if (is_error or seen.is_error) and (not code or role in ("other", "editor")):
        return tell_error(None, _first_line(seen.text) or "marked as an error")
    if role == "shell":
        if code is None and is_error is False and seen.text.strip():
            code = 0  # silence is left to the command: some clients do not flag an empty grep
        return _judge_shell(command, seen, code)
    if code and (exit_code is not None or seen.is_json or not _names(arguments, "places")):
        return judge_output(make_output((), seen.text), code)
    if seen.is_json:
        return judge_fields(seen.fields or {}) or _judge_search(role, seen) or OK
    if is_error is False and _names(arguments, "places"):
        return OK  # what a file says is no word of the tool that showed it
    return _judge_text(role, seen, is_asked=_names(arguments, "questions"))


def find_test_outcome(
    tool: str, arguments: object, result: object, *, verdict: Verdict
) -> Literal["passed", "failed"] | None:
    """What the tests that a call ran said, read together with the verdict on the call.

    `pytest | tail` ends in 0 though tests failed: their summary tells it. A run that ended badly
    did not pass, whatever its summary says: too little may have been covered by the tests.
    """
    role, command = read_call(tool, arguments)
    if role not in ("shell", "code") or verdict.kind == "no_tests":
        return None
    stages = split_stages(command)
    if make_output(stages, "").is_reader:
        return None
    has_failed = verdict.kind == "tests_failed"
    if isinstance(result, str) and not has_failed and not may_show_tests(result):
        return None
    text = read_result(result).text
    if screen := read_screen(text):
        outputs = find_outputs(screen, command if isinstance(command, str) else "\n".join(command))
    else:
        outputs = [make_output(stages, text)]
    for output in reversed(outputs):
        found = None if output.is_reader else find_tests(output)
        if found and found[0] != "none":
            if has_failed or found[0] != "passed":
                return "failed"
            return None if verdict.label == "error" else "passed"
    return "failed" if has_failed and any(map(is_test_run, outputs)) else None


def may_show_tests(text: str) -> bool:
    """Whether a text may end in the summary of a test run: to look for one takes longer."""
    end = f"\n{text[-_TEST_TAIL:].lower()}"
    return any(word in end for word in _TEST_WORDS)


def read_call(tool: object, arguments: object) -> tuple[Role, str | list[str]]:
    """What a tool is for, and the command it was given if it is a shell."""
    role = _read_role(tool) if isinstance(tool, str) else "other"
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        arguments = decode(arguments)
    if role in ("editor", "search", "code"):
        return role, ""
    if isinstance(arguments, Mapping):
        for name in read_rules().tools.commands:
            command = arguments.get(name)
            if isinstance(command, list):
                return "shell", [say(word) for word in command]
            if isinstance(command, str) and (role == "shell" or len(command.split()) > 1):
                return "shell", command
    elif role == "shell" and isinstance(arguments, str):
        return role, arguments
    elif role == "shell" and isinstance(arguments, list):
        return role, [say(word) for word in arguments]
    return role, ""


def _find_lines(arguments: object) -> list[str]:
    """The command lines of a call that was given several."""
    fields = decode(arguments) if isinstance(arguments, str) else arguments
    lines = fields.get("commands") if isinstance(fields, Mapping) else None
    if isinstance(lines, str):
        return [lines]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return []
    return lines


@lru_cache(maxsize=1024)
def _read_role(tool: str) -> Role:
    tools = read_rules().tools
    name = tool.rpartition("__")[2].rpartition(".")[2].lower()
    if name in tools.editors:
        return "editor"
    if name in tools.coders:
        return "code"
    if name in tools.searchers:
        return "search"
    is_shell = name in tools.shells or not tools.shell_words.isdisjoint(re.split(r"[_\W]+", name))
    return "shell" if is_shell else "other"


def _names(arguments: object, what: Literal["places", "questions"]) -> bool:
    """Whether a call was given a place to look at, or a question to answer in words."""
    fields, tools = (
        decode(arguments) if isinstance(arguments, str) else arguments,
        read_rules().tools,
    )
    names = tools.places if what == "places" else tools.questions
    return isinstance(fields, Mapping) and not names.isdisjoint(fields)


def _judge_shell(command: str | list[str], seen: Seen, code: int | None) -> Verdict:
    text = seen.text
    if seen.fields is None:
        text = seen.raw if seen.is_json else text
    elif not _ENVELOPE.intersection(seen.fields):
        text = seen.raw  # what the command printed happens to be JSON
    elif not code and (verdict := judge_fields(seen.fields)):
        return verdict
    if code is None and read_rules().refusal.match(text):
        return tell_error(None, _first_line(text))
    whole = command if isinstance(command, str) else "\n".join(command)
    if not code and (screen := read_screen(text)):  # 0 is that of the terminal, not of the shell
        return judge_screen(screen, whole)
    return judge_output(make_output(split_stages(command), text, command=whole), code)


def _judge_parts(parts: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> Verdict:
    """What became of a call that did several things, and tells of each: the worst of it.

    Where command lines were given, one for each part, those parts are judged as a shell's.
    """
    verdicts = [
        _judge_part(part, lines[at] if len(lines) == len(parts) else None)
        for at, part in enumerate(parts)
    ]
    labels = [verdict.label for verdict in verdicts]
    worst = next((label for label in ("error", "negative") if label in labels), labels[-1])
    return verdicts[labels.index(worst)]


def _judge_part(part: Mapping[str, Any], line: str | None) -> Verdict:
    seen = read_result(part)
    if line is not None:
        texts = [read_result(part[name]) for name in ("result", "error") if name in part]
        code = next((each.exit_code for each in (seen, *texts) if each.exit_code), 0)
        if code or not judge_fields(part):
            text = texts[0].text if texts else seen.text
            return _judge_shell(line, Seen(text, text), code)
    if seen.is_error or seen.exit_code:
        return tell_error(None, _first_line(seen.text) or "marked as an error")
    return judge_fields(part) or OK


def _judge_search(role: Role, seen: Seen) -> Verdict | None:
    if role != "search" or seen.fields is None:
        return None
    names = read_rules().fields
    for name in names.counts:
        if seen.fields.get(name) == 0:
            return tell_negative("no_match", f"{name}: 0")
    found = [seen.fields[name] for name in names.matches if name in seen.fields]
    if found and not any(found):
        return tell_negative("no_match", "nothing found")
    return None


def _judge_text(role: Role, seen: Seen, *, is_asked: bool) -> Verdict:
    rules, text = read_rules(), seen.text.lstrip()
    if role == "search" and (found := rules.nothing_found.match(text)):
        return tell_negative("no_match", found[0])
    if rules.first_line.match(text) or (not is_asked and rules.first_words.match(text)):
        return tell_error(None, _first_line(text))
    if role in ("code", "shell"):
        return judge_output(make_output((), seen.text), None)
    return OK


def _first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} {rest.partition(chr(10))[0]}".strip() if len(first) < 8 else first
