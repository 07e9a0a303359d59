"""Units of a session: one assistant message with all its calls and their results.

The APIs reject a call without its result and a result without its call, so a unit is copied as a
whole, and a call is left out together with its result.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.chat.messages import Call, Entry, read_arguments, read_text
from relight.chat.shorten import cut_text, shorten_arguments, shorten_text
from relight.judging.features import judge_calls
from relight.judging.kinds import understand_call
from relight.judging.shell import split_stages
from relight.names import tool_name
from relight.text import strip_hidden

Message = dict[str, Any]

_ARGUMENT_CHARACTERS = 1200
_COMPARED_CHARACTERS = 400
_ALIKE = 0.6
_DEPTH_LIMIT = 8
_NO_OUTPUT = "(no output)"
_FAILED = "[This call failed; the next one is how it was put right.]\n"
# escapes that may stand for a hidden character
_ESCAPE = re.compile(r"\\[ubfr]")
_PATH = re.compile(r"[\w@~.-]*/[\w@./-]+|\b[\w-]+\.[A-Za-z]{1,5}\b")
# Programs whose first argument is the action.
_MASTERS = frozenset(("git", "npm", "pip", "cargo", "docker", "kubectl", "go", "uv", "apt-get"))
# The worth of an action by its meaning: those that change something matter most.
_WORTH = {"write": 3.0, "update": 3.0, "comm": 3.0, "vcs": 2.0, "ops": 2.0, "run": 2.0, "plan": 0.2}
_TOOL_WORTH, _VERB_WORTH, _PATH_WORTH = 1.0, 0.7, 0.3


class CallUnit(Struct, frozen=True):
    """One assistant message with its calls, and what it would teach.

    `features` are what it shows, with their worth. `actions` identify its calls by tool and
    arguments. `cure` is the place of the unit that corrects its failures.
    """

    at: int
    entry: Entry
    failures: tuple[bool, ...]
    features: tuple[tuple[str, float], ...]
    actions: frozenset[str]
    cure: int | None = None


def read_units(
    entries: Sequence[Entry], *, facts: Iterable[Mapping[str, Any]] | None = None
) -> dict[int, CallUnit]:
    """Return the complete units of a conversation, by their place in it.

    A failed call is left out with its result, unless the next unit corrects it, which teaches.
    The other calls of the same message stay.
    """
    made = [call for entry in entries for call in entry.calls]
    verdicts = iter(judge_calls(made, facts=facts))
    units: list[CallUnit] = []
    for at, entry in enumerate(entries):
        failures = tuple(next(verdicts).label == "error" or _is_marked(one) for one in entry.calls)
        if failures and all(call.has_result for call in entry.calls):
            units.append(_make_unit(at, entry, failures))
    whole: dict[int, CallUnit] = {}
    for unit, after in zip_longest(units, units[1:]):
        if not any(unit.failures):
            whole[unit.at] = unit
        elif after and _cures(after, unit):
            whole[unit.at] = replace(unit, cure=after.at)
        elif not all(unit.failures):
            whole[unit.at] = _drop_failed(unit)
    return whole


def _make_unit(at: int, entry: Entry, failures: tuple[bool, ...]) -> CallUnit:
    features, actions = _read_features(entry.calls)
    return CallUnit(at, entry, failures, features, actions)


def _drop_failed(unit: CallUnit) -> CallUnit:
    """Return a unit with the successful calls only."""
    calls = zip(unit.entry.calls, unit.failures, strict=True)
    worked = tuple(call for call, is_failed in calls if not is_failed)
    return _make_unit(unit.at, replace(unit.entry, calls=worked), (False,) * len(worked))


def _is_marked(call: Call) -> bool:
    """True if a seed marks a call as failed."""
    return isinstance(call.result, str) and call.result.startswith(_FAILED)


def _cures(unit: CallUnit, failed: CallUnit) -> bool:
    """True if a unit does what a failed one tried in another way, and works."""
    if any(unit.failures) or not unit.actions.isdisjoint(failed.actions):
        return False
    calls = zip(failed.entry.calls, failed.failures, strict=True)
    return any(
        is_failed and call.tool == other.tool and _is_alike(call, other)
        for call, is_failed in calls
        for other in unit.entry.calls
    )


def _is_alike(call: Call, other: Call) -> bool:
    """True if two calls try the same: the same program, or similar arguments."""
    commands = [understand_call(one.tool, one.arguments).command for one in (call, other)]
    if commands[0] and commands[1]:
        programs = [{stage.program for stage in split_stages(one)} for one in commands if one]
        return not (programs[0] & programs[1]) <= {"cd", "echo"}
    one, two = (str(each.arguments)[:_COMPARED_CHARACTERS] for each in (call, other))
    return SequenceMatcher(None, one, two, autojunk=False).ratio() >= _ALIKE


def _read_features(calls: Sequence[Call]) -> tuple[tuple[tuple[str, float], ...], frozenset[str]]:
    features: dict[str, float] = {}
    actions: set[str] = set()
    for call in calls:
        known = understand_call(call.tool, call.arguments)
        action = f"{call.tool} {_write_json(read_arguments(call.arguments) or call.arguments)}"
        actions.add(action)
        features[f"action {action}"] = _WORTH.get(known.meaning, 1.0)
        features[f"tool {call.tool}"] = _TOOL_WORTH
        for stage in split_stages(known.command) if known.command else ():
            verb = f"{stage.program} {stage.action}" if stage.program in _MASTERS else stage.program
            features[f"verb {verb}"] = _VERB_WORTH
        for path in _PATH.findall(action[:_ARGUMENT_CHARACTERS]):
            features[f"path {path}"] = _PATH_WORTH
    return tuple(features.items()), frozenset(actions)


def show_unit(unit: CallUnit, *, result_limit: int, text_limit: int) -> tuple[Message, ...]:
    """Return a unit as messages that any API accepts, with shortened results and text."""
    calls: list[Message] = []
    results: list[Message] = []
    for at, (call, is_failed) in enumerate(zip(unit.entry.calls, unit.failures, strict=True)):
        name = tool_name(call.tool)
        arguments = _strip_arguments(shorten_arguments(call.arguments, _ARGUMENT_CHARACTERS))
        key = _make_id(f"{unit.at} {at} {name} {arguments}")
        function = {"name": name, "arguments": arguments}
        calls.append({"id": key, "type": "function", "function": function})
        whole = read_result_text(call.result).removeprefix(_FAILED)
        text = strip_hidden(shorten_text(whole, result_limit))
        text = text if text.strip() else _NO_OUTPUT
        content = _FAILED + text if is_failed else text
        results.append({"role": "tool", "tool_call_id": key, "content": content})
    words = cut_text(unit.entry.text.strip(), text_limit) or None
    return {"role": "assistant", "content": words, "tool_calls": calls}, *results


def render_text(seed: Sequence[Mapping[str, Any]]) -> str:
    """Return a seed as plain text, a third shorter than its messages.

    >>> render_text([{"role": "user", "content": "Count them."}])
    'User: Count them.'
    """
    results = {one["tool_call_id"]: one["content"] for one in seed if one["role"] == "tool"}
    lines: list[str] = []
    for message in seed:
        if message["role"] != "tool" and message["content"]:
            lines.append(f"{message['role'].capitalize()}: {message['content']}")
        for call in message.get("tool_calls", ()):
            function = call["function"]
            lines.append(f"→ {function['name']}{_render_arguments(function['arguments'])}")
            lines.append(f"← {results[call['id']]}")
    return "\n".join(lines)


def _render_arguments(text: str) -> str:
    """Return arguments as written, or a single one alone: most shell calls have only a command."""
    values = list((read_arguments(text) or {}).values())
    if len(values) == 1 and isinstance(values[0], str):
        return f": {values[0]}"
    return f" {text}" if values else ""


def _strip_arguments(text: str) -> str:
    r"""Return arguments without hidden characters, also those that JSON writes as escapes.

    >>> _strip_arguments(r'{"command": "ls\u200b -l"}')
    '{"command": "ls -l"}'
    """
    if _ESCAPE.search(text):
        text = _write_json(_strip_value(read_arguments(text) or {}), is_sorted=False)
    return strip_hidden(text)


def _strip_value(value: object, depth: int = 0) -> object:
    if isinstance(value, str):
        return strip_hidden(value)
    if depth >= _DEPTH_LIMIT and isinstance(value, list | dict):
        return "…"
    if isinstance(value, list):
        return [_strip_value(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {
            strip_hidden(str(name)): _strip_value(one, depth + 1) for name, one in value.items()
        }
    return value


def make_ids_unique(messages: Iterable[Message]) -> list[Message]:
    """Return copies of units' messages in which no two calls have the same id.

    Results follow their calls directly, in the same order. Ids are `c` and eight hexadecimal
    digits, which every API accepts; if two are equal, the later one is changed.
    """
    taken: set[str] = set()
    waiting: list[str] = []
    named: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            named.append(message | {"tool_call_id": waiting.pop(0)})
            continue
        calls: list[Message] = []
        for call in message.get("tool_calls", ()):
            key = call["id"]
            while key in taken:
                key = _make_id(f"{key} again")
            taken.add(key)
            waiting.append(key)
            calls.append(call | {"id": key})
        named.append(message | {"tool_calls": calls} if calls else dict(message))
    return named


def _make_id(content: str) -> str:
    return "c" + blake2b(content.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def read_result_text(result: object) -> str:
    """Return the text of a call's result, whatever it is."""
    if isinstance(result, Mapping) or (
        isinstance(result, list) and not all(isinstance(one, Mapping) for one in result)
    ):
        return _write_json(result)
    return read_text(result)


def _write_json(value: object, *, is_sorted: bool = True) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=is_sorted, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(value)
