"""Results of tools in the shapes that agents write them, and the verdict of their fields.

Hermes and Codex wrap output in JSON, Claude Code and OpenHands put the exit code before or after
it, mini-swe-agent and Gemini use tags. `read_result` returns the same for all: the output, the exit
code, the flags, and the fields if the result is an object.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from relight.judging.verdicts.rules import Rules, make_error, read_rules
from relight.model import Verdict
from relight.text import to_text

_EDGE = 400
_NOTE = 100
_DEPTH_LIMIT = 4
_NUMBER = re.compile(r"\s*-?[0-9]{1,10}\s*")
_NUMBER_LIMIT = 2**32  # Windows has exit codes of 32 bits
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_COLOUR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_HALF = re.compile(r'\A\{\s*"(?:output|stdout|content|result|text)":\s*"')
_ERROR_TAGS = ("<tool_use_error>", "<error>")
_EMPTY = frozenset(("", "none", "null", "false", "no", "0", "ok", "n/a"))
_TIMEOUT_WORDS = ("imed out", "TIMED OUT", "imeout", "TIMEOUT", "no new output", "took more than")


class ReadResult(msgspec.Struct, frozen=True):
    """A result, unwrapped.

    `text` is the tool's output without the words of the harness; `raw` is the whole result, for an
    object that turns out to be output; `parts` are the objects of a list, if each has a status.
    """

    text: str = ""
    raw: str = ""
    fields: Mapping[str, Any] | None = None
    exit_code: int | None = None
    is_error: bool | None = None
    timeout: str | None = None
    is_json: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()


def read_result(result: object, depth: int = 0) -> ReadResult:
    """Return a result unwrapped: text, JSON text, an object, content blocks or nothing."""
    if isinstance(result, str):
        return _read_text(result, depth)
    if isinstance(result, Mapping):
        return _read_fields(result, depth)
    if isinstance(result, Sequence) and not isinstance(result, bytes | bytearray):
        return _read_blocks(result, depth)
    return ReadResult() if result is None else ReadResult(to_text(result), to_text(result))


def find_number(fields: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """Return the first whole number under one of several names."""
    for name in names:
        if name in fields and (value := read_number(fields[name])) is not None:
            return value
    return None


def read_number(value: object) -> int | None:
    """Return a whole number, or the digits of one, if an exit code may be as large."""
    if value is None:
        return None
    value = _unbox(value)
    if isinstance(value, str):
        value = int(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < _NUMBER_LIMIT and value == int(value) else None


def read_flag(value: object) -> bool | None:
    """Return a flag from a bool, a word, 1 or 0; None for anything else."""
    if isinstance(value, bool) or value is None:
        return value
    value = _unbox(value)
    return _FLAGS.get(to_text(value).strip().lower()) if isinstance(value, str | int) else None


def _unbox(value: object) -> object:
    """The plain value of a numpy scalar: tables of calls hold them."""
    unbox = None if isinstance(value, str | int | float) else getattr(value, "item", None)
    if not callable(unbox):
        return value
    try:
        return unbox()
    except (TypeError, ValueError):
        return value


def decode(text: str) -> object:
    """Return the JSON value of a text; None if it is not JSON, or too deep to be read."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _read_text(text: str, depth: int) -> ReadResult:
    rules = read_rules()
    text = raw = text.removeprefix("\x00json:")
    start = text.lstrip()[:1]
    if start == "<":
        text = _strip(text.lstrip(), rules)
        start = text.lstrip()[:1]
    if start == '"' and depth < _DEPTH_LIMIT:
        value = decode(text.strip())  # some tools encode a result twice
        if isinstance(value, str):
            return _read_text(value, depth + 1)
    if start in ("{", "[") and depth < _DEPTH_LIMIT:
        value = _decode(text.lstrip())
        if isinstance(value, dict | list):
            return msgspec.structs.replace(read_result(value, depth + 1), raw=text)
        if start == "{":  # half an object: read its text as text
            text = _HALF.sub("", text.lstrip()).replace("\\n", "\n")
    if "\x1b" in text:  # one character is found much faster than two
        text = _COLOUR.sub("", text)
    head, tail = text[:_EDGE], text[-_EDGE:]
    exit_code, text = _split_exit(text, rules)
    text = _strip(text, rules)
    if len(text) < _NOTE and rules.no_output.fullmatch(text.strip()):
        text = ""
    is_error = None
    if text.startswith(_ERROR_TAGS):
        is_error, text = True, text.partition(">")[2].rpartition("</")[0]
    timeout = _find_timeout(head, tail, rules)
    if text.startswith("The last command <command>") and "</command> timed out" in text:
        timeout = "timed out and has been killed"  # after the command, however long that is
    return ReadResult(text, raw, None, exit_code, is_error, timeout)


def _split_exit(text: str, rules: Rules) -> tuple[int | None, str]:
    """The exit code that a harness wrote before or after the output, and the rest of the text."""
    head, tail = text[:_EDGE], text[-_EDGE:]
    if ("ode" in head or "xit" in head) and (found := rules.exit_before.match(text)):
        return _first_int(found.groups()), text[found.end() :]
    if ("ode" in tail or "xit" in tail) and (found := rules.exit_after.search(tail)):
        return _first_int(found.groups()), text[: len(text) - len(tail) + found.start()]
    if "xit" in tail and (found := rules.exit_last.search(tail)):
        exit_code = _first_int(found.groups())
        if found[0].lstrip().lower().startswith("exit"):  # may be the program's output
            return exit_code, text
        return exit_code, text[: len(text) - len(tail) + found.start()]
    return None, text


def _strip(text: str, rules: Rules) -> str:
    """The text without the tags around it and the words of the harness before it.

    Inside `<untrusted_tool_result>` a note to the model and an empty line precede the content.
    """
    for _ in range(4):
        if found := rules.prefix.match(text):
            text = text[found.end() :]
            continue
        found = rules.tag.match(text) if text.startswith("<") else None
        if not found:
            break
        text = text[found.end() :]
        closing = text.rfind(f"</{found[1]}>")
        if closing >= 0:
            rest = text[closing + len(found[1]) + 3 :].strip()
            text = text[:closing] + (f"\n{rest}" if rest else "")
        if found[1] == "untrusted_tool_result":
            note, gap, content = text.partition("\n\n")
            text = content if gap and note[:1] not in ("{", "[") else text
    return text.removesuffix("</output_tail>")


def _find_timeout(head: str, tail: str, rules: Rules) -> str | None:
    edges = f"\n{head}" if head == tail else f"\n{head}\n{tail}"
    if "out" not in edges and "OUT" not in edges and "took" not in edges:
        return None
    for word in _TIMEOUT_WORDS:
        at = edges.find(word)
        while at >= 0:  # a rule matches from the start of a line
            start, end = edges.rfind("\n", 0, at), edges.find("\n", at)
            if rules.timeout.match(edges, start):
                return edges[start + 1 : end if end >= 0 else None]
            at = edges.find(word, end) if end >= 0 else -1
    return None


def _decode(text: str) -> object:
    """The JSON value of a text, or the object that it begins with: agents append warnings."""
    value = decode(text)
    if value is not None or text[0] != "{":
        return value
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _read_fields(fields: Mapping[str, Any], depth: int) -> ReadResult:
    names = read_rules().fields
    inner = fields.get("functionResponse")
    if isinstance(inner, Mapping) and depth < _DEPTH_LIMIT:
        return read_result(inner.get("response", inner), depth + 1)
    exit_code = find_number(fields, names.exit_codes)
    for name in ("metadata", "meta", "data"):
        nested = fields.get(name)
        if exit_code is None and isinstance(nested, Mapping):
            exit_code = find_number(nested, names.exit_codes)
    flag = read_flag(fields.get("isError"))
    flag = read_flag(fields.get("is_error")) if flag is None else flag
    flags = (name for name in names.timeout_flags if name in fields and read_flag(fields[name]))
    timeout = next(flags, None)
    raised = fields.get("exception_info")  # mini-swe-agent's, not the command's
    if isinstance(raised, str) and " timed out after " in raised:
        timeout = raised[raised.rfind(" timed out after ") + 1 :]
    parts: list[str] = []
    for name in names.texts:
        if name not in fields:
            continue
        value = fields[name]
        if isinstance(value, str):
            if not value:
                continue
            if not parts and depth < _DEPTH_LIMIT and name in ("output", "stdout"):
                seen = _read_text(value, _DEPTH_LIMIT)
                exit_code = seen.exit_code if exit_code is None else exit_code
                timeout = timeout or seen.timeout
                value = seen.text
            parts.append(value)
        elif isinstance(value, list):
            parts.append(_join_blocks(value))
    text = "\n".join(part for part in parts if part)
    return ReadResult(text, text, fields, exit_code, flag, timeout, True)


def _read_blocks(blocks: Sequence[object], depth: int) -> ReadResult:
    if blocks and isinstance(blocks[0], Mapping) and "functionResponse" in blocks[0]:
        return read_result(blocks[0], depth + 1)
    text = _join_blocks(blocks)
    if text and depth < _DEPTH_LIMIT:
        return _read_text(text, depth + 1)
    parts = tuple(block for block in blocks if isinstance(block, Mapping))
    names = read_rules().fields.reports
    if len(parts) < len(blocks) or any(names.isdisjoint(part) for part in parts):
        parts = ()
    return ReadResult(is_json=True, parts=parts)


def _join_blocks(blocks: Sequence[object]) -> str:
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _first_int(groups: Sequence[str | None]) -> int | None:
    return next((read_number(group) for group in groups if group is not None), None)


def judge_fields(fields: Mapping[str, Any], depth: int = 0) -> Verdict | None:
    """Return the verdict of the fields of a JSON result; None if they report no failure.

    Only errors, flags and statuses count, never the words beside them.
    """
    names = read_rules().fields
    for name in names.errors:
        if name in fields and (said := _read_complaint(fields[name])) is not None:
            return make_error(None, said)
    for name in names.successes:
        if name in fields and read_flag(fields[name]) is False:
            return make_error(None, _read_message(fields) or f"{name}: false")
    for name in names.statuses:
        if name in fields and _is_bad_status(fields[name], fields):
            said = _read_message(fields)
            return make_error(None, f"{name}: {fields[name]}" + (f", {said}" if said else ""))
    if depth:
        return None
    if len(fields) == 1 and (said := _read_lone(*fields.values())):
        return make_error(None, said)
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


def _read_complaint(value: object) -> str | None:
    """The message in the value of an `error` field; None if it is empty.

    Numbers are ignored: they count, or measure.
    """
    if isinstance(value, str):
        return None if value.strip().lower() in _EMPTY else value
    if isinstance(value, Mapping):
        return (_read_message(value) or to_text(dict(value))) if value else None
    if isinstance(value, list):
        return (_read_complaint(value[0]) or to_text(value[0])) if value else None
    return "error: true" if value is True else None


def _read_message(fields: Mapping[str, Any]) -> str:
    for name in ("message", "error", "detail", "reason", "msg", "description", "stderr"):
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _read_lone(value: object) -> str | None:
    """The message of an object whose only field is a complaint, under any name."""
    if not isinstance(value, str) or not value:
        return None
    rules = read_rules()
    is_bad = value.strip(" .!").lower() in rules.fields.lone_words or rules.first_line.match(value)
    return value.strip().partition("\n")[0] if is_bad else None


def _is_bad_status(value: object, fields: Mapping[str, Any]) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 400 <= value < 600
    if not isinstance(value, str):
        return False
    names, word = read_rules().fields, value.lower()
    if word in names.error_words:
        return True
    return word in names.weak_error_words and not any(
        name == "id" or to_text(name).endswith(("_id", "Id")) for name in fields
    )
