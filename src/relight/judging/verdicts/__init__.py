"""Verdicts on tool calls, by evidence in this order.

Protocol flag, time-out and signals; the exit code, read together with the command; the fields of
a JSON result; anchored text last. The word "error" in a result proves nothing: half of all good
results show code and logs that contain it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from relight.judging.shell import split_stages
from relight.judging.verdicts.commands import judge_output
from relight.judging.verdicts.exit_answers import is_test_run
from relight.judging.verdicts.outputs import find_tests, make_output
from relight.judging.verdicts.rules import OK, make_error, make_negative, read_rules
from relight.judging.verdicts.tool_results import (
    ReadResult,
    decode,
    judge_fields,
    read_flag,
    read_number,
    read_result,
)
from relight.model import Verdict
from relight.text import to_text

_UNKNOWN = Verdict("unknown", None, "the call has no result")
_ENVELOPE = frozenset(
    ["output", "output_tail", "stdout", "stderr", "exit_code", "exitCode", "returncode"]
)
# Every summary of a test run has one of these words; most output has none. They are looked for in
# bytes: to lower text with other characters than ASCII takes ten times as long.
_TEST_WORDS = (
    *(b"pass", b"fail", b"\nok", b"\\nok", b" ok", b"success", b"skipped", b"error in "),
    *(b"errors in ", b"errors!", b"invocationerror", b"congrat"),
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
    """Return the verdict on a tool call, with the evidence that decided.

    Any arguments and any result get a verdict; numbers and flags may be strings.

    `negative` means that the call worked and its answer was no: an empty grep, a failing test
    suite, lint findings. It is not a failure of the call.

    >>> judge_call("bash", {"command": "cat app.log"}, "Traceback (most recent call last):").label
    'ok'
    >>> judge_call("bash", {"command": "grep x app.py"}, "", exit_code=1).label
    'negative'
    """
    return judge_read(
        tool,
        arguments,
        None if result is None else read_result(result),
        is_error=is_error,
        exit_code=exit_code,
        timed_out=timed_out,
    )


def judge_read(
    tool: str,
    arguments: object,
    result: ReadResult | None,
    *,
    is_error: bool | str | None = None,
    exit_code: int | str | None = None,
    timed_out: bool | str | None = None,
) -> Verdict:
    """Return what `judge_call` does, of a result that was read already."""
    if result is None and is_error is None and exit_code is None and timed_out is None:
        return _UNKNOWN
    seen = result or ReadResult()
    is_error, timed_out = read_flag(is_error), read_flag(timed_out)
    exit_code = read_number(exit_code)
    code = seen.exit_code if exit_code is None else exit_code
    if timed_out or (seen.timeout and code != 0):
        return make_error("timeout", seen.timeout or "timed out")
    if result is None and code is None and is_error is None:
        return _UNKNOWN
    role, command = read_call(tool, arguments)
    if seen.parts and code is None and not command:
        verdict = _judge_parts(seen.parts, _find_lines(arguments))
        if verdict.label != "ok" or not is_error:
            return verdict
    if (is_error or seen.is_error) and (not code or role in ("other", "editor")):
        return make_error(None, _first_line(seen.text) or "marked as an error")
    if role == "shell":
        if code is None and is_error is False and seen.text.strip():
            code = 0  # silence is left to the command: some clients do not flag an empty grep
        return _judge_shell(command, seen, code)
    names_place = _names(arguments, "places")
    if code and (exit_code is not None or seen.is_json or not names_place):
        return judge_output(make_output((), seen.text), code)
    if seen.is_json:
        return judge_fields(seen.fields or {}) or _judge_search(role, seen) or OK
    if is_error is False and names_place:
        return OK  # the content of a file is not a message of the tool that showed it
    return _judge_text(role, seen, is_question=_names(arguments, "questions"))


def find_test_outcome(
    tool: str,
    arguments: object,
    result: object,
    *,
    verdict: Verdict,
    seen: ReadResult | None = None,
) -> Literal["passed", "failed"] | None:
    """Return the outcome of the tests that a call ran, read together with its verdict.

    `pytest | tail` ends in 0 though tests failed: their summary shows it. A run that ended in an
    error did not pass, whatever its summary says: the tests may not have covered enough.
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
    output = make_output(stages, (seen or read_result(result)).text)
    found = find_tests(output)
    if found and found[0] != "none":
        if has_failed or found[0] != "passed":
            return "failed"
        return None if verdict.label == "error" else "passed"
    return "failed" if has_failed and is_test_run(output) else None


def may_show_tests(text: str) -> bool:
    """True if a text may end in the summary of a test run; a cheap test before `find_tests`."""
    end = b"\n" + text[-_TEST_TAIL:].encode("utf-8", "surrogatepass").lower()
    return any(word in end for word in _TEST_WORDS)


def read_call(tool: object, arguments: object) -> tuple[Role, str | list[str]]:
    """Return what a tool is for, and its command if it is a shell."""
    role = _read_role(tool) if isinstance(tool, str) else "other"
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        arguments = decode(arguments)
    if role in ("editor", "search", "code"):
        return role, ""
    if isinstance(arguments, Mapping):
        for name in read_rules().tools.commands:
            command = arguments.get(name)
            if isinstance(command, list):
                return "shell", [to_text(word) for word in command]
            if isinstance(command, str) and (role == "shell" or len(command.split()) > 1):
                return "shell", command
    elif role == "shell" and isinstance(arguments, str):
        return role, arguments
    elif role == "shell" and isinstance(arguments, list):
        return role, [to_text(word) for word in arguments]
    return role, ""


def _find_lines(arguments: object) -> list[str]:
    """The command lines of a call that has several."""
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
    """True if the arguments name a place to read, or a question to answer in words."""
    fields = decode(arguments) if isinstance(arguments, str) else arguments
    tools = read_rules().tools
    names = tools.places if what == "places" else tools.questions
    return isinstance(fields, Mapping) and not names.isdisjoint(fields)


def _judge_shell(command: str | list[str], seen: ReadResult, code: int | None) -> Verdict:
    text = seen.text
    if seen.fields is None:
        text = seen.raw if seen.is_json else text
    elif not _ENVELOPE.intersection(seen.fields):
        text = seen.raw  # the command printed JSON
    elif not code and (verdict := judge_fields(seen.fields)):
        return verdict
    if code is None and read_rules().refusal.match(text):
        return make_error(None, _first_line(text))
    return judge_output(make_output(split_stages(command), text), code)


def _judge_parts(parts: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> Verdict:
    """Return the worst verdict on the parts of a call that did several things.

    Cline returns a list with one object for each command of a call.
    """
    whole: Sequence[str | None] = lines if len(lines) == len(parts) else [None] * len(parts)
    verdicts = [_judge_part(part, line) for part, line in zip(parts, whole, strict=True)]
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
            return _judge_shell(line, ReadResult(text, text), code)
    if seen.is_error or seen.exit_code:
        first = seen.text.strip().partition("\n")[0]
        return make_error(None, first or "marked as an error")
    return judge_fields(part) or OK


def _judge_search(role: Role, seen: ReadResult) -> Verdict | None:
    if role != "search" or seen.fields is None:
        return None
    names = read_rules().fields
    for name in names.counts:
        if seen.fields.get(name) == 0:
            return make_negative("no_match", f"{name}: 0")
    found = [seen.fields[name] for name in names.matches if name in seen.fields]
    if found and not any(found):
        return make_negative("no_match", "nothing found")
    return None


def _judge_text(role: Role, seen: ReadResult, *, is_question: bool) -> Verdict:
    rules, text = read_rules(), seen.text.lstrip()
    if role == "search" and (found := rules.nothing_found.match(text)):
        return make_negative("no_match", found[0])
    if rules.first_line.match(text) or (not is_question and rules.first_words.match(text)):
        return make_error(None, _first_line(text))
    if role in ("code", "shell"):
        return judge_output(make_output((), seen.text), None)
    return OK


def _first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} {rest.partition(chr(10))[0]}".strip() if len(first) < 8 else first
