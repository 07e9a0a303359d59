"""Tool calls that change files, as diffs; `data/edits.toml` names the tools and their arguments."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.data import read_data
from relight.web.reading.diffs import DiffLine, FileDiff, compare
from relight.web.reading.patches import BEGIN, find_patches

MOST_CHARACTERS = 400_000  # of arguments that are read
MOST_EDITS = 100  # of one call

ToolShape = Literal["replace", "write", "notebook", "tasks"]


class EditTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `edits.toml`."""

    tools: dict[ToolShape, tuple[str, ...]]
    arguments: dict[str, tuple[str, ...]]
    states: dict[Literal["done", "now", "dropped"], frozenset[str]]


@cache
def read_edit_table() -> EditTable:
    return msgspec.convert(tomllib.loads(read_data("edits.toml")), EditTable)


def find_shape(tool: str) -> ToolShape | None:
    """Return what a tool does with its arguments; None for all others.

    >>> [find_shape(name) for name in ("MultiEdit", "mcp__files__write_file", "Bash")]
    ['replace', 'write', None]
    """
    return _read_shapes().get(_plain(tool.rpartition("__")[2]))


@cache
def _read_shapes() -> dict[str, ToolShape]:
    table = read_edit_table().tools
    return {_plain(name): shape for shape, names in table.items() for name in names}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def take(fields: Mapping[str, Any], role: str) -> Any:
    """Return the argument with this role, under the first of its names that is there."""
    names = read_edit_table().arguments[role]
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def find_edits(tool: str, arguments: str) -> list[FileDiff]:
    """Return the files that a call changes, with its lines; empty if it is no edit."""
    if len(arguments) > MOST_CHARACTERS:
        return []
    if BEGIN in arguments:
        return _find_patched(arguments)
    shape = find_shape(tool)
    fields = read_arguments(arguments) if shape in ("replace", "write", "notebook") else None
    if not fields:
        return []
    path = take(fields, "path")
    if shape == "notebook":
        found = list(_read_cell(fields))
    elif shape == "replace" and isinstance(many := take(fields, "edits"), list):
        parts = [_compare_fields(one) for one in many[:MOST_EDITS] if isinstance(one, Mapping)]
        found = _join_parts([part for part in parts if part])
    else:
        # one tool of some agents both writes and replaces
        found = _compare_fields(fields) or list(_read_written(fields))
    if not found or not isinstance(path, str):
        return []
    note = "every occurrence" if fields.get("replace_all") is True else _note(shape, fields)
    is_whole = shape == "write" or all(line.kind == "add" for line in found)
    change: Literal["write", "edit"] = "write" if is_whole else "edit"
    return [FileDiff(path=path, change=change, lines=found, note=note)]


def _find_patched(arguments: str) -> list[FileDiff]:
    """Return the files of the patches in the arguments: raw, or in any text of an object."""
    fields = read_arguments(arguments)
    if fields is None:
        return find_patches(arguments)
    return [diff for text in _find_texts(fields.values()) for diff in find_patches(text)]


def _find_texts(values: Any) -> Iterator[str]:
    """Yield the texts with a patch among these values and those of lists of them."""
    for value in values:
        if isinstance(value, str) and BEGIN in value:
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str) and BEGIN in one)


def _compare_fields(fields: Mapping[str, Any]) -> list[DiffLine]:
    old, new = take(fields, "old"), take(fields, "new")
    if not isinstance(old, str) or not isinstance(new, str | None):
        return []
    return compare(old, new or "")


def _read_written(fields: Mapping[str, Any]) -> Iterator[DiffLine]:
    text = take(fields, "content")
    text = take(fields, "new") if text is None else text
    if isinstance(text, str):
        yield from compare("", text)


def _read_cell(fields: Mapping[str, Any]) -> Iterator[DiffLine]:
    """Yield the lines of a notebook's cell; what they replace is not in the call."""
    if fields.get("edit_mode") == "delete":
        yield DiffLine("hunk", "cell deleted")
    else:
        yield from _read_written(fields)


def _note(shape: ToolShape | None, fields: Mapping[str, Any]) -> str:
    if shape != "notebook":
        return ""
    verb = {"insert": "new cell", "delete": "cell"}.get(str(fields.get("edit_mode")), "cell")
    return f"{verb} {str(fields.get('cell_id') or '')[:40]}".strip()


def _join_parts(parts: Sequence[list[DiffLine]]) -> list[DiffLine]:
    """Return the parts of an edit one after the other, with a mark between them."""
    found: list[DiffLine] = []
    for part in parts:
        found += [DiffLine("hunk", "…"), *part] if found else part
    return found
