"""The patch format of `apply_patch`: files to add, update, delete and move."""

import re
from collections.abc import Iterator

from relight.web.reading.diffs import DiffLine, FileDiff, LineKind, mark_changes

BEGIN, END = "*** Begin Patch", "*** End Patch"
HEAD = re.compile(r"\*\*\* ?(Add|Update|Delete|Move) File: ?(.*)")
MOVED = re.compile(r"\*\*\* ?Move to: ?(.*)")
KINDS: dict[str, LineKind] = {"+": "add", "-": "del", " ": "same", "": "same"}
MOST_PATCHES = 50


def find_patches(text: str) -> list[FileDiff]:
    """Return the files that the patches in a text change, also within a shell command."""
    found: list[FileDiff] = []
    at = text.find(BEGIN)
    while at >= 0 and len(found) < MOST_PATCHES:
        end = text.find(END, at)
        found += _read_files(text[at : end if end >= 0 else len(text)])
        at = text.find(BEGIN, end) if end >= 0 else -1
    return found


def _read_files(patch: str) -> Iterator[FileDiff]:
    """Yield the files of one patch; a file goes from its head to the next."""
    head: tuple[str, str] | None = None
    note, lines = "", list[DiffLine]()
    for line in patch.split("\n")[1:]:
        if found := HEAD.match(line):
            if head:
                yield _make_diff(*head, note=note, lines=lines)
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
        yield _make_diff(*head, note=note, lines=lines)


def _make_diff(verb: str, path: str, *, note: str, lines: list[DiffLine]) -> FileDiff:
    while lines and lines[-1].kind == "same" and not lines[-1].text:
        lines.pop()
    if verb == "Delete":
        return FileDiff(path=path, change="delete", note="deleted")
    if verb == "Move":
        source, _, target = path.partition(" -> ")
        return FileDiff(path=source, change="move", note=f"moved to {target}")
    change = "write" if verb == "Add" else "edit"
    return FileDiff(
        path=path,
        change=change,  # type: ignore[arg-type]
        lines=mark_changes(lines),
        note=note or ("new" if verb == "Add" else ""),
    )
