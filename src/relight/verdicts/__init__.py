"""Did a tool call do what it was asked? Judged by evidence, in this order.

Protocol flag, time-out and signals; the exit code, read together with the command; the fields of
a JSON result; anchored text last. The word "error" in a result proves nothing: half of all good
results show code and logs that contain it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from relight.commands import split_stages
from relight.model import Verdict
from relight.verdicts.fields import judge_fields
from relight.verdicts.judging import judge_output
from relight.verdicts.outputs import find_tests, make_output
from relight.verdicts.results import Seen, decode, read_flag, read_number, read_result, say
from relight.verdicts.rules import read_rules
from relight.verdicts.screens import find_outputs, judge_screen, read_screen
from relight.verdicts.telling import OK, tell_error, tell_negative

_UNKNOWN = Verdict("unknown", None, "the call has no result")
_ENVELOPE = frozenset(
    ["output", "output_tail", "stdout", "stderr", "exit_code", "exitCode", "returncode"]
)

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
    if code and (exit_code is not None or seen.is_json or not _names_place(arguments)):
        return judge_output(make_output((), seen.text), code)
    if seen.is_json:
        return judge_fields(seen.fields or {}) or _judge_search(role, seen) or OK
    return _judge_text(role, seen)


def find_test_outcome(
    tool: str, arguments: object, result: object
) -> Literal["passed", "failed"] | None:
    """What the tests that a call ran said, whatever its exit code: `pytest | tail` ends in 0."""
    role, command = read_call(tool, arguments)
    if role not in ("shell", "code"):
        return None
    text = read_result(result).text
    if screen := read_screen(text):
        outputs = find_outputs(screen, command if isinstance(command, str) else "\n".join(command))
    else:
        outputs = [make_output(split_stages(command), text)]
    for output in reversed(outputs):
        found = None if output.is_reader else find_tests(output)
        if found and found[0] != "none":
            return "passed" if found[0] == "passed" else "failed"
    return None


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


def _names_place(arguments: object) -> bool:
    fields = decode(arguments) if isinstance(arguments, str) else arguments
    return isinstance(fields, Mapping) and not read_rules().tools.places.isdisjoint(fields)


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


def _judge_text(role: Role, seen: Seen) -> Verdict:
    rules, text = read_rules(), seen.text.lstrip()
    if role == "search" and (found := rules.nothing_found.match(text)):
        return tell_negative("no_match", found[0])
    if rules.first_line.match(text):
        return tell_error(None, _first_line(text))
    if role in ("code", "shell"):
        return judge_output(make_output((), seen.text), None)
    return OK


def _first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} {rest.partition(chr(10))[0]}".strip() if len(first) < 8 else first
