"""Did a tool call do what it was asked? Judged by evidence, in this order.

Protocol flag, time-out and signals; the exit code, read together with the command; the fields of
a JSON result; anchored text last. The word "error" in a result proves nothing: half of all good
results show code and logs that contain it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from relight.commands import split_stages
from relight.model import Verdict
from relight.verdicts.exits import OK, judge_output, tell_error, tell_negative
from relight.verdicts.outputs import find_tests, make_output
from relight.verdicts.results import Seen, decode, read_flag, read_number, read_result, say
from relight.verdicts.rules import read_rules

_UNKNOWN = Verdict("unknown", None, "the call has no result")
_EMPTY = frozenset(("", "none", "null", "false", "no", "0", "ok", "n/a"))
_ENVELOPE = frozenset(("output", "stdout", "stderr", "exit_code", "exitCode", "returncode"))

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
    if (is_error or seen.is_error) and (not code or role in ("other", "editor")):
        return tell_error(None, _first_line(seen.text) or "marked as an error")
    if role == "shell":
        if code is None and is_error is False and seen.text.strip():
            code = 0  # silence is left to the command: some clients do not flag an empty grep
        return _judge_shell(command, seen, code)
    if code:
        return judge_output(make_output((), seen.text), code)
    if seen.is_json:
        return judge_fields(seen.fields or {}) or _judge_search(role, seen) or OK
    return _judge_text(role, seen)


def judge_fields(fields: Mapping[str, Any], depth: int = 0) -> Verdict | None:
    """The verdict that the fields of a JSON result give; None if they tell of no failure."""
    names = read_rules().fields
    for name in names.errors:
        if name in fields and (said := _read_complaint(fields[name])) is not None:
            return tell_error(None, said)
    for name in names.successes:
        if name in fields and read_flag(fields[name]) is False:
            return tell_error(None, _read_message(fields) or f"{name}: false")
    for name in names.statuses:
        if name in fields and _is_bad_status(fields[name], fields):
            said = _read_message(fields)
            return tell_error(None, f"{name}: {fields[name]}" + (f", {said}" if said else ""))
    if depth:
        return None
    inner = fields.get("result")
    if isinstance(inner, str) and inner[:1] == "{":
        inner = read_result(inner).fields
    if isinstance(inner, Mapping):
        return judge_fields(inner, 1)
    parts = fields.get("results")
    if isinstance(parts, list) and parts:
        bad = [judge_fields(part, 1) if isinstance(part, Mapping) else None for part in parts]
        return bad[0] if all(bad) else None
    return None


def find_test_outcome(
    tool: str, arguments: object, result: object
) -> Literal["passed", "failed"] | None:
    """What the tests that a call ran said, whatever its exit code: `pytest | tail` ends in 0."""
    role, command = read_call(tool, arguments)
    if role not in ("shell", "code"):
        return None
    output = make_output(split_stages(command), read_result(result).text)
    found = None if output.is_reader else find_tests(output)
    if found is None or found[0] == "none":
        return None
    return "passed" if found[0] == "passed" else "failed"


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
    return judge_output(make_output(split_stages(command), text), code)


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


def _read_complaint(value: object) -> str | None:
    """What the value of an `error` field says, if it says anything.

    Numbers are left alone: they count, or measure.
    """
    if isinstance(value, str):
        return None if value.strip().lower() in _EMPTY else value
    if isinstance(value, Mapping):
        return (_read_message(value) or say(dict(value))) if value else None
    if isinstance(value, list):
        return (_read_complaint(value[0]) or say(value[0])) if value else None
    return "error: true" if value is True else None


def _read_message(fields: Mapping[str, Any]) -> str:
    for name in ("message", "error", "detail", "reason", "msg", "description", "stderr"):
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _is_bad_status(value: object, fields: Mapping[str, Any]) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 400 <= value < 600
    if not isinstance(value, str):
        return False
    names, word = read_rules().fields, value.lower()
    if word in names.error_words:
        return True
    return word in names.weak_error_words and not any(
        name == "id" or say(name).endswith(("_id", "Id")) for name in fields
    )


def _first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} {rest.partition(chr(10))[0]}".strip() if len(first) < 8 else first
