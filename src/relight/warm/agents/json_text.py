"""Edits of JSON text in place: what is not edited keeps every byte."""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

_SPACE = re.compile(r"[ \t\n\r]*")
_INDENT = re.compile(r"\n([ \t]+)\S")
_DECODER = json.JSONDecoder()


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
