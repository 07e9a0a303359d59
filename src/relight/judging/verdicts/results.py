"""What a tool's result says about itself, in whatever shape the agent's harness put it.

Hermes and Codex wrap output in JSON, Claude Code and OpenHands put the exit code before or after
it, mini-swe-agent and Gemini use tags. One reading of them all: the output, the exit code, the
flags, and the fields if the result is an object.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from relight.judging.verdicts.rules import Rules, read_rules

_EDGE = 400
_NOTE = 100
_DEPTH_LIMIT = 4
_NUMBER = re.compile(r"\s*-?[0-9]{1,10}\s*")
_NUMBER_LIMIT = 2**32  # Windows has exit codes of 32 bits
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_COLOUR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_HALF = re.compile(r'\A\{\s*"(?:output|stdout|content|result|text)":\s*"')
_ERROR_TAGS = ("<tool_use_error>", "<error>")
_TIMEOUT_WORDS = ("imed out", "TIMED OUT", "imeout", "TIMEOUT", "no new output", "took more than")


class Seen(msgspec.Struct, frozen=True):
    """A result, unwrapped. `text` is what the tool wrote, without the harness' own words;
    `raw` is the whole of it, for where an object turns out to be output itself; `parts` are the
    objects of a list of them, if each says of itself how it went."""

    text: str = ""
    raw: str = ""
    fields: Mapping[str, Any] | None = None
    exit_code: int | None = None
    is_error: bool | None = None
    timeout: str | None = None
    is_json: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()


def read_result(result: object, depth: int = 0) -> Seen:
    """What a result says, be it text, JSON text, an object, content blocks or nothing."""
    if isinstance(result, str):
        return _read_text(result, depth)
    if isinstance(result, Mapping):
        return _read_fields(result, depth)
    if isinstance(result, Sequence) and not isinstance(result, bytes | bytearray):
        return _read_blocks(result, depth)
    return Seen() if result is None else Seen(say(result), say(result))


def find_number(fields: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The first whole number under one of several names."""
    for name in names:
        if name in fields and (value := read_number(fields[name])) is not None:
            return value
    return None


def read_number(value: object) -> int | None:
    """A whole number, or the digits of one, if an exit code may be as large."""
    if value is None:
        return None
    value = _unbox(value)
    if isinstance(value, str):
        value = int(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < _NUMBER_LIMIT and value == int(value) else None


def read_flag(value: object) -> bool | None:
    """Yes or no, be it a word in a string, 1 or 0; None if it is neither."""
    if isinstance(value, bool) or value is None:
        return value
    value = _unbox(value)
    return _FLAGS.get(say(value).strip().lower()) if isinstance(value, str | int) else None


def _unbox(value: object) -> object:
    """A plain value in place of numpy's: tables of calls are full of them."""
    unbox = None if isinstance(value, str | int | float) else getattr(value, "item", None)
    if not callable(unbox):
        return value
    try:
        return unbox()
    except (TypeError, ValueError):
        return value


def decode(text: str) -> object:
    """The JSON value a text is; None if it is none, or one too deep to be read."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def say(value: object) -> str:
    """The words of any value, even one that is too deep or too large for `str`."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever a result holds, it is judged
        return f"<{type(value).__name__}>"


def _read_text(text: str, depth: int) -> Seen:
    rules = read_rules()
    text = raw = text.removeprefix("\x00json:")
    start = text.lstrip()[:1]
    if start == "<":
        text = _strip(text.lstrip(), rules)
        start = text.lstrip()[:1]
    if start == '"' and depth < _DEPTH_LIMIT:
        value = decode(text.strip())  # as tools give it that encode a result twice
        if isinstance(value, str):
            return _read_text(value, depth + 1)
    if start in ("{", "[") and depth < _DEPTH_LIMIT:
        value = _decode(text.lstrip())
        if isinstance(value, dict | list):
            return msgspec.structs.replace(read_result(value, depth + 1), raw=text)
        if start == "{":  # half an object: read its text as text
            text = _HALF.sub("", text.lstrip()).replace("\\n", "\n")
    if "\x1b[" in text:
        text = _COLOUR.sub("", text)
    exit_code = None
    head, tail = text[:_EDGE], text[-_EDGE:]
    if ("ode" in head or "xit" in head) and (found := rules.exit_before.match(text)):
        exit_code, text = _first_int(found.groups()), text[found.end() :]
    elif ("ode" in tail or "xit" in tail) and (found := rules.exit_after.search(tail)):
        exit_code = _first_int(found.groups())
        text = text[: len(text) - len(tail) + found.start()]
    elif "xit" in tail and (found := rules.exit_last.search(tail)):
        exit_code = _first_int(found.groups())
        if not found[0].lstrip().lower().startswith("exit"):  # those may be a program's own words
            text = text[: len(text) - len(tail) + found.start()]
    text = _strip(text, rules)
    if len(text) < _NOTE and rules.no_output.fullmatch(text.strip()):
        text = ""
    is_error = None
    if text.startswith(_ERROR_TAGS):
        is_error, text = True, text.partition(">")[2].rpartition("</")[0]
    timeout = _find_timeout(head, tail, rules)
    if text.startswith("The last command <command>") and "</command> timed out" in text:
        timeout = "timed out and has been killed"  # after the command, however long that is
    return Seen(text, raw, None, exit_code, is_error, timeout)


def _strip(text: str, rules: Rules) -> str:
    """Text without the tags around it and the harness' words before it.

    Inside `<untrusted_tool_result>` a note to the model stands before the content, set off by
    an empty line.
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
        while at >= 0:  # a rule speaks of a line from its start on
            start, end = edges.rfind("\n", 0, at), edges.find("\n", at)
            if rules.timeout.match(edges, start):
                return edges[start + 1 : end if end >= 0 else None]
            at = edges.find(word, end) if end >= 0 else -1
    return None


def _decode(text: str) -> object:
    """The JSON value a text is, or the object it begins with: agents append warnings to it."""
    value = decode(text)
    if value is not None or text[0] != "{":
        return value
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _read_fields(fields: Mapping[str, Any], depth: int) -> Seen:
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
    raised = fields.get("exception_info")  # of mini-swe-agent, not of the command
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
    return Seen(text, text, fields, exit_code, flag, timeout, True)


def _read_blocks(blocks: Sequence[object], depth: int) -> Seen:
    if blocks and isinstance(blocks[0], Mapping) and "functionResponse" in blocks[0]:
        return read_result(blocks[0], depth + 1)
    text = _join_blocks(blocks)
    if text and depth < _DEPTH_LIMIT:
        return _read_text(text, depth + 1)
    parts = tuple(block for block in blocks if isinstance(block, Mapping))
    names = read_rules().fields.reports
    if len(parts) < len(blocks) or any(names.isdisjoint(part) for part in parts):
        parts = ()
    return Seen(is_json=True, parts=parts)


def _join_blocks(blocks: Sequence[object]) -> str:
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _first_int(groups: Sequence[str | None]) -> int | None:
    return next((read_number(group) for group in groups if group is not None), None)
