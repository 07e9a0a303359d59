"""The changes of a tool call: files, as diffs with bounded work, and commits.

`data/edits.toml` names the tools that edit and their arguments. A patch of `apply_patch` is found
in any argument of any tool, also within a shell command.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.data import read_table
from relight.judging.shell import split_stages

MOST_CELLS = 20_000  # of the table by which the kept lines are found
LONGEST_LINE = 500
MOST_CHARACTERS = 400_000  # of arguments that are read
MOST_EDITS = 100  # of one call
# [main 1a2b3c4] Fix it; [main (root-commit) 1a2b3c4] …; [detached HEAD 1a2b3c4] …
PRINTED = re.compile(
    r"^\[(?P<branch>detached HEAD|[^\s\[\]]{1,200})(?: \(root-commit\))? "
    r"(?P<hash>[0-9a-f]{7,40})\] ",
    re.MULTILINE,
)
MOST_COMMITS = 100
LineKind = Literal["add", "del", "same", "hunk"]
FileChange = Literal["edit", "write", "delete", "move"]
ToolShape = Literal["replace", "write", "notebook", "tasks"]
BEGIN, END = "*** Begin Patch", "*** End Patch"
HEAD = re.compile(r"\*\*\* ?(Add|Update|Delete|Move) File: ?(.*)")
MOVED = re.compile(r"\*\*\* ?Move to: ?(.*)")
KINDS: dict[str, LineKind] = {"+": "add", "-": "del", " ": "same", "": "same"}
MOST_PATCHES = 50


class DiffLine(Struct, frozen=True):
    """A line of a diff; what differs within it is between `begin` and `end`."""

    kind: LineKind
    text: str
    begin: int = 0
    end: int = 0


class FileDiff(Struct, frozen=True, kw_only=True):
    """The changes of one file; `note` says what the lines do not show."""

    path: str
    change: FileChange = "edit"
    lines: Sequence[DiffLine] = ()
    note: str = ""

    @property
    def added(self) -> int:
        return sum(line.kind == "add" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "del" for line in self.lines)


Compare = Callable[[str, str], list[DiffLine]]
Mark = Callable[[list[DiffLine]], list[DiffLine]]


def compare_texts(old: str, new: str) -> list[DiffLine]:
    """Return the lines of both texts as a diff.

    >>> [(line.kind, line.text) for line in compare_texts("a\\nb\\nc", "a\\nB\\nc")]
    [('same', 'a'), ('del', 'b'), ('add', 'B'), ('same', 'c')]
    """
    head, before, after, tail = _split(old, new)
    found = [
        *(DiffLine("same", line) for line in head),
        *_align(before, after),
        *(DiffLine("same", line) for line in tail),
    ]
    return mark_changes(found)


def count_changes(old: str, new: str) -> list[DiffLine]:
    """Return as many removed and added lines as `compare` does, without their texts, quickly.

    The longest common subsequence is counted in the bits of one number (Hyyrö's method).

    >>> [line.kind for line in count_changes("a\\nb\\nc", "a\\nB\\nc")]
    ['del', 'add']
    """
    _, before, after, _ = _split(old, new)
    kept = 0
    if len(before) * len(after) <= MOST_CELLS:
        places: dict[str, int] = defaultdict(int)
        for place, line in enumerate(before):
            places[line] |= 1 << place
        every = free = (1 << len(before)) - 1
        for line in after:
            found = free & places.get(line, 0)
            free = ((free + found) | (free - found)) & every
        kept = len(before) - free.bit_count()
    removed, added = len(before) - kept, len(after) - kept
    return [*[DiffLine("del", "")] * removed, *[DiffLine("add", "")] * added]


def _split(old: str, new: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the lines that both texts begin with, those between of each, and the common end."""
    before, after = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    head = _count_common(before, after)
    tail = _count_common(before[head:][::-1], after[head:][::-1])
    end = len(before) - tail
    return before[:head], before[head:end], after[head : len(after) - tail], before[end:]


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return at


def _align(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Yield removed, added and kept lines, so that most are kept; long texts keep none."""
    if len(old) * len(new) > MOST_CELLS:
        yield from (DiffLine("del", line) for line in old)
        yield from (DiffLine("add", line) for line in new)
        return
    kept = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for row in range(len(old) - 1, -1, -1):
        here, below = kept[row], kept[row + 1]
        for column in range(len(new) - 1, -1, -1):
            is_same = old[row] == new[column]
            here[column] = (
                below[column + 1] + 1 if is_same else max(below[column], here[column + 1])
            )
    row = column = 0
    while row < len(old) or column < len(new):
        if row < len(old) and column < len(new) and old[row] == new[column]:
            yield DiffLine("same", old[row])
            row, column = row + 1, column + 1
        elif row < len(old) and (
            column == len(new) or kept[row + 1][column] >= kept[row][column + 1]
        ):
            yield DiffLine("del", old[row])
            row += 1
        else:
            yield DiffLine("add", new[column])
            column += 1


def mark_changes(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """Return the lines, with what differs within a line that replaces another.

    Added lines are paired with those that were removed just before, in their order.
    """
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind)]
    found: list[DiffLine] = []
    for at, run in enumerate(runs):
        before, after = runs[at - 1] if at else [], runs[at + 1] if at + 1 < len(runs) else []
        other = after if run[0].kind == "del" else before
        if other and {run[0].kind, other[0].kind} == {"add", "del"}:
            pairs = zip(run, other, strict=False)
            run[: len(other)] = [_mark_line(line, pair.text) for line, pair in pairs]
        found += run
    return found


def _mark_line(line: DiffLine, other: str) -> DiffLine:
    """Return the line with the part that differs from the other; no part if most differs."""
    text = line.text
    shortest = min(len(text), len(other))
    if max(len(text), len(other)) > LONGEST_LINE:
        return line
    begin = _count_common(text, other)
    end = _count_common(text[begin:][::-1], other[begin:][::-1])
    is_alike = 2 * (begin + end) >= shortest > 0
    return DiffLine(line.kind, text, begin, len(text) - end) if is_alike else line


def find_patches(text: str, mark: Mark) -> list[FileDiff]:
    """Return the files that the patches in a text change, also within a shell command."""
    found: list[FileDiff] = []
    at = text.find(BEGIN)
    while at >= 0 and len(found) < MOST_PATCHES:
        end = text.find(END, at)
        found += _read_files(text[at : end if end >= 0 else len(text)], mark)
        at = text.find(BEGIN, end) if end >= 0 else -1
    return found


def _read_files(patch: str, mark: Mark) -> Iterator[FileDiff]:
    """Yield the files of one patch; a file goes from its head to the next."""
    head: tuple[str, str] | None = None
    note, lines = "", list[DiffLine]()
    for line in patch.split("\n")[1:]:
        if found := HEAD.match(line):
            if head:
                yield _make_diff(*head, note=note, lines=mark(_trim(lines)))
            head, note, lines = (found[1], found[2].strip()), "", []
        elif moved := MOVED.match(line):
            note = f"moved to {moved[1].strip()}"
        elif line.startswith("@@"):
            place = line.strip("@ ")
            if place or lines:
                lines.append(DiffLine("hunk", place or "…"))
        elif line.startswith("***"):  # the end of a file
            continue
        elif head and line[:1] in KINDS:
            lines.append(DiffLine(KINDS[line[:1]], line[1:]))
    if head:
        yield _make_diff(*head, note=note, lines=mark(_trim(lines)))


def _trim(lines: list[DiffLine]) -> list[DiffLine]:
    while lines and lines[-1].kind == "same" and not lines[-1].text:
        lines.pop()
    return lines


def _make_diff(verb: str, path: str, *, note: str, lines: list[DiffLine]) -> FileDiff:
    if verb == "Delete":
        return FileDiff(path=path, change="delete", note="deleted")
    if verb == "Move":
        source, _, target = path.partition(" -> ")
        return FileDiff(path=source, change="move", note=f"moved to {target}")
    change = "write" if verb == "Add" else "edit"
    return FileDiff(
        path=path,
        change=change,  # type: ignore[arg-type]
        lines=lines,
        note=note or ("new" if verb == "Add" else ""),
    )


class EditTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `edits.toml`."""

    tools: dict[ToolShape, tuple[str, ...]]
    arguments: dict[str, tuple[str, ...]]
    states: dict[Literal["done", "now", "dropped"], frozenset[str]]


@cache
def read_edit_table() -> EditTable:
    return read_table("edits.toml", EditTable)


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


def take_argument(fields: Mapping[str, Any], role: str) -> Any:
    """Return the argument with this role, under the first of its names that is there."""
    names = read_edit_table().arguments[role]
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def find_edits(
    tool: str,
    arguments: str,
    *,
    fields: Mapping[str, Any] | None = None,
    diff: Compare = compare_texts,
) -> list[FileDiff]:
    """Return the files that a call changes, with its lines; empty if it is no edit.

    `diff` makes the lines of two texts; `count_changes` is quick if only their number matters.
    `fields` are the arguments as an object, if they were decoded already.
    """
    if len(arguments) > MOST_CHARACTERS:
        return []
    shape, has_patch = find_shape(tool), BEGIN in arguments
    if not has_patch and shape not in ("replace", "write", "notebook"):
        return []
    fields = read_arguments(arguments) if fields is None else fields
    if has_patch:  # raw, or in any text of an object
        texts = [arguments] if fields is None else _find_texts(fields.values())
        mark: Mark = list if diff is count_changes else mark_changes
        return [one for text in texts for one in find_patches(text, mark)]
    if not fields:
        return []
    path = take_argument(fields, "path")
    if shape == "notebook":
        found = list(_read_cell(fields, diff))
    elif shape == "replace" and isinstance(many := take_argument(fields, "edits"), list):
        found = []
        for one in many[:MOST_EDITS]:
            part = _compare_fields(one, diff) if isinstance(one, Mapping) else []
            found += [DiffLine("hunk", "…"), *part] if found and part else part
    else:
        # one tool of some agents both writes and replaces
        found = _compare_fields(fields, diff) or list(_read_written(fields, diff))
    if not found or not isinstance(path, str):
        return []
    note = "every occurrence" if fields.get("replace_all") is True else _note(shape, fields)
    is_whole = shape == "write" or all(line.kind == "add" for line in found)
    change: Literal["write", "edit"] = "write" if is_whole else "edit"
    return [FileDiff(path=path, change=change, lines=found, note=note)]


def _find_texts(values: Any) -> Iterator[str]:
    """Yield the texts with a patch among these values and those of lists of them."""
    for value in values:
        if isinstance(value, str) and BEGIN in value:
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str) and BEGIN in one)


def _compare_fields(fields: Mapping[str, Any], diff: Compare) -> list[DiffLine]:
    old, new = take_argument(fields, "old"), take_argument(fields, "new")
    if not isinstance(old, str) or not isinstance(new, str | None):
        return []
    return diff(old, new or "")


def _read_written(fields: Mapping[str, Any], diff: Compare) -> Iterator[DiffLine]:
    text = take_argument(fields, "content")
    text = take_argument(fields, "new") if text is None else text
    if isinstance(text, str):
        yield from diff("", text)


def _read_cell(fields: Mapping[str, Any], diff: Compare) -> Iterator[DiffLine]:
    """Yield the lines of a notebook's cell; what they replace is not in the call."""
    if fields.get("edit_mode") == "delete":
        yield DiffLine("hunk", "cell deleted")
    else:
        yield from _read_written(fields, diff)


def _note(shape: ToolShape | None, fields: Mapping[str, Any]) -> str:
    if shape != "notebook":
        return ""
    verb = {"insert": "new cell", "delete": "cell"}.get(str(fields.get("edit_mode")), "cell")
    return f"{verb} {str(fields.get('cell_id') or '')[:40]}".strip()


class PrintedCommit(Struct, frozen=True):
    """A commit with its hash as git printed it, which is '' if it printed none."""

    hash: str
    branch: str | None = None


def find_commits(command: str | list[str] | None, result: str) -> list[PrintedCommit]:
    """Return the commits that a command made; one without a hash if git printed nothing.

    >>> find_commits("git commit -am x", "[main 1a2b3c4] x\\n 1 file changed")
    [PrintedCommit(hash='1a2b3c4', branch='main')]
    """
    if not command or "commit" not in str(command):
        return []
    stages = split_stages(command)
    if not any(one.program == "git" and "commit" in one.words for one in stages):
        return []
    found = [
        PrintedCommit(one["hash"], None if one["branch"] == "detached HEAD" else one["branch"])
        for one in PRINTED.finditer(result)
    ]
    return list(dict.fromkeys(found[:MOST_COMMITS])) or [PrintedCommit("")]
