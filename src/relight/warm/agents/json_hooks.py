"""Hooks and the status line in settings that are JSON, as Claude Code and Codex have them.

JSON text is edited in place: what is not edited keeps every byte.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.errors import RelightError

_SPACE = re.compile(r"[ \t\n\r]*")
_INDENT = re.compile(r"\n([ \t]+)\S")
_DECODER = json.JSONDecoder()
HOOK_SECONDS = 10
STATUS = "statusLine"
OWN_STATUS = re.compile(r"\brelight\b.* statusline\b")


class JsonNode(Struct, frozen=True):
    """A value's place in a text, with its members if it is an object or a list."""

    start: int
    end: int
    members: "tuple[JsonMember, ...]" = ()

    def find_last(self, key: str) -> "int | None":
        """The index of a key's member; of several, readers of JSON take the last."""
        found = [at for at, member in enumerate(self.members) if member.key == key]
        return found[-1] if found else None


class JsonMember(Struct, frozen=True):
    """A member of an object, which has a key, or of a list."""

    key: str | None
    start: int
    node: JsonNode


def parse_places(text: str) -> JsonNode:
    """Return the places of all values in a text that `json.loads` accepts."""
    return _scan(text, _skip(text, 0))


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _scan(text: str, at: int) -> JsonNode:
    if text[at] not in "{[":
        return JsonNode(at, _DECODER.raw_decode(text, at)[1])
    members = []
    place = _skip(text, at + 1)
    while text[place] not in "}]":
        start, key = place, None
        if text[at] == "{":
            key, place = _DECODER.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)  # behind the colon
        node = _scan(text, place)
        members.append(JsonMember(key, start, node))
        place = _skip(text, node.end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return JsonNode(at, place + 1, tuple(members))


def remove_member(text: str, container: JsonNode, index: int) -> str:
    """Return the text without one member of an object or a list."""
    members = container.members
    if len(members) == 1:
        return text[: container.start + 1] + text[container.end - 1 :]
    if index == len(members) - 1:
        return text[: members[index - 1].node.end] + text[members[index].node.end :]
    return text[: members[index].start] + text[members[index + 1].start :]


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value at a path of keys, in the style of the text.

    A list that is there gets the value as its last item. Missing objects are made.
    """
    node = parse_places(text)
    for depth, key in enumerate(path):
        index = node.find_last(key)
        if index is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _append(text, node, key, value)
        inner = node.members[index].node
        is_last = depth == len(path) - 1
        if text[inner.start] != ("[" if is_last else "{"):  # null, or empty in another way
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return text[: inner.start] + _render(text, inner.start, value) + text[inner.end :]
        node = inner
    (item,) = value
    return _append(text, node, None, item)


def _append(text: str, container: JsonNode, key: str | None, value: Any) -> str:
    """Return the text with a new last member of an object or a list."""
    if not container.members:
        whole = [value] if key is None else {key: value}
        return (
            text[: container.start] + _render(text, container.start, whole) + text[container.end :]
        )
    last = container.members[-1]
    previous = container.members[-2].node.end if len(container.members) > 1 else container.start
    gap = re.sub(r".*[,{\[]", "", text[previous : last.start], flags=re.DOTALL)
    if len(container.members) == 1 and "\n" not in gap:
        gap = " " if _is_spaced(text) else ""
    name = "" if key is None else json.dumps(key) + (": " if _is_spaced(text) else ":")
    rendered = name + _render(text, last.start, value, is_inline="\n" not in gap)
    return f"{text[: last.node.end]},{gap}{rendered}{text[last.node.end :]}"


def _is_spaced(text: str) -> bool:
    return not re.search(r'":(?! )', text)


def _render(text: str, at: int, value: Any, *, is_inline: bool = False) -> str:
    """Return a value as JSON that begins in the line of a place, indented as the text is."""
    indent = _INDENT.search(text)
    if is_inline or (not indent and text.strip() not in ("{}", "[]") and "\n" not in text.strip()):
        separators = (", ", ": ") if _is_spaced(text) else (",", ":")
        return json.dumps(value, ensure_ascii=False, separators=separators)
    unit = indent[1] if indent else "  "
    line = text[text.rfind("\n", 0, at) + 1 : at]
    base = line[: len(line) - len(line.lstrip(" \t"))]
    newline = "\r\n" if "\r\n" in text else "\n"
    rendered = json.dumps(value, ensure_ascii=False, indent=unit)
    return rendered.replace("\n", newline + base)


class JsonHook(Struct, frozen=True):
    """A hook of Relight's in an agent's JSON settings: its words, and the events that call it."""

    words: str
    events: tuple[str, ...]
    # by event, the pattern of the values for which the agent calls the hook
    matchers: Mapping[str, str] = {}

    def has(self, path: Path, text: str, command: str) -> bool:
        found = [(event, given) for event, _, _, given in self.find(path, text)]
        return found == [(event, command) for event in self.events]

    def add(self, path: Path, text: str, command: str) -> str:
        text = text if text.strip() else "{}\n"
        self.find(path, text)
        own = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        for event in self.events:
            only = {"matcher": self.matchers[event]} if event in self.matchers else {}
            text = set_value(text, ("hooks", event), [{**only, "hooks": [own]}])
        return text

    def remove(self, path: Path, text: str, original: str) -> str:
        """Return the settings without the hook, and without what it leaves empty.

        What was empty in the original settings stays.
        """
        while found := self.find(path, text):
            name, group, hook, _ = found[-1]
            settings = parse_places(text)
            at = settings.find_last("hooks") or 0
            events = settings.members[at].node
            event = events.find_last(name) or 0
            groups = events.members[event].node
            listed = groups.members[group].node
            hooks = listed.members[listed.find_last("hooks") or 0].node
            if len(hooks.members) > 1:
                text = remove_member(text, hooks, hook)
            elif len(groups.members) > 1 or f'"{name}"' in original:
                text = remove_member(text, groups, group)
            elif len(events.members) > 1 or '"hooks"' in original:
                text = remove_member(text, events, event)
            else:
                text = remove_member(text, settings, at)
        return text

    def find(self, path: Path, text: str) -> list[tuple[str, int, int, str]]:
        """Return Relight's hooks: the event, the group's number, the one in it, the command."""
        try:
            events = _parse(text).get("hooks") or {}
            return [
                (event, number, place, hook["command"])
                for event in self.events
                for number, group in enumerate(events.get(event) or [])
                for place, hook in enumerate(group.get("hooks") or [])
                if self.words in str(hook.get("command", ""))
            ]
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise _refuse(path, error) from error


def _parse(text: str) -> Any:
    return json.loads(text) if text.strip() else {}


def _refuse(path: Path, error: Exception) -> RelightError:
    # an error of Python about a value of another type says nothing to a person
    reason = error if isinstance(error, ValueError) else "it has an unknown shape"
    return RelightError(
        f"{path} cannot be read as settings: {reason}", "repair it first; it was not changed"
    )


def _find_status(path: Path, text: str) -> str | None:
    """Return the command of the status line; None if there is none."""
    try:
        found = _parse(text).get(STATUS)
        return None if found is None else str(found["command"])
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
        raise _refuse(path, error) from error


def has_status(path: Path, text: str, command: str) -> bool:
    return _find_status(path, text) == command


def add_status(path: Path, text: str, command: str) -> str:
    text = text if text.strip() else "{}\n"
    _find_status(path, text)
    return set_value(text, (STATUS,), {"type": "command", "command": command})


def remove_status(path: Path, text: str, original: str) -> str:
    """Return the settings with the status line of before, or without one."""
    if not OWN_STATUS.search(_find_status(path, text) or ""):
        return text
    settings = parse_places(text)
    place = settings.find_last(STATUS) or 0
    node = settings.members[place].node
    if _find_status(path, original) is None:
        return remove_member(text, settings, place)
    before = parse_places(original)
    earlier = before.members[before.find_last(STATUS) or 0].node
    return text[: node.start] + original[earlier.start : earlier.end] + text[node.end :]
