"""The lines of an edit: what was added, removed and kept, with bounded work."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from markupsafe import Markup, escape
from msgspec import Struct

from relight.text import make_visible

MOST_LINES = 400  # that are shown of one file
MOST_CELLS = 20_000  # of the table by which the kept lines are found
LONGEST_LINE = 500
CONTEXT = 3  # kept lines around a change; longer runs are left out
SIGNS = {"add": "+", "del": "−", "same": " ", "hunk": " "}

LineKind = Literal["add", "del", "same", "hunk"]
FileChange = Literal["edit", "write", "delete", "move"]


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


def compare(old: str, new: str) -> list[DiffLine]:
    """Return the lines of both texts as a diff.

    >>> [(line.kind, line.text) for line in compare("a\\nb\\nc", "a\\nB\\nc")]
    [('same', 'a'), ('del', 'b'), ('add', 'B'), ('same', 'c')]
    """
    before, after = _split(old), _split(new)
    head = _count_common(before, after)
    tail = _count_common(before[head:][::-1], after[head:][::-1])
    middle = _align(before[head : len(before) - tail], after[head : len(after) - tail])
    found = [
        *(DiffLine("same", line) for line in before[:head]),
        *middle,
        *(DiffLine("same", line) for line in before[len(before) - tail :]),
    ]
    return mark_changes(found)


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


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
    begin = 0
    while begin < shortest and text[begin] == other[begin]:
        begin += 1
    end = 0
    while end < shortest - begin and text[-1 - end] == other[-1 - end]:
        end += 1
    is_alike = 2 * (begin + end) >= shortest > 0
    return DiffLine(line.kind, text, begin, len(text) - end) if is_alike else line


def draw_diff(diff: FileDiff) -> Markup:
    """Return a file's diff as HTML, with its path and how many lines it adds and removes."""
    shown = list(_choose_lines(diff.lines))
    rest = len(shown) - MOST_LINES
    rows = "".join(map(_draw_line, shown[:MOST_LINES]))
    more = f'<span class="dl gap">… {rest:,} lines more</span>' if rest > 0 else ""
    note = (
        Markup(' <span class="soft">{}</span>').format(make_visible(diff.note)) if diff.note else ""
    )
    head = Markup('<p class="diffhead"><span class="code"><bdi>{}</bdi></span> {}{}</p>').format(
        make_visible(diff.path[:300]), draw_counts(diff.added, diff.removed), note
    )
    lines = Markup(f'<pre class="diff">{rows}{more}</pre>') if diff.lines else Markup("")
    return Markup('<div class="edit">{}{}</div>').format(head, lines)


def draw_counts(added: int, removed: int) -> Markup:
    """Return how many lines were added and removed.

    >>> draw_counts(2, 1)
    Markup('<span class="plus">+2</span> <span class="minus">−1</span>')
    """
    return Markup('<span class="plus">+{:,}</span> <span class="minus">−{:,}</span>').format(
        added, removed
    )


def _choose_lines(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Yield the changed lines with some around them; a run of kept lines in between is counted."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind == "same")]
    for at, run in enumerate(runs):
        if run[0].kind != "same" or len(run) <= 2 * CONTEXT + 1:
            yield from run
            continue
        head, tail = CONTEXT if at else 0, CONTEXT if at + 1 < len(runs) else 0
        yield from run[:head]
        yield DiffLine("hunk", f"… {len(run) - head - tail:,} lines unchanged")
        yield from run[len(run) - tail :]


def _draw_line(line: DiffLine) -> str:
    begin, end = (line.begin, line.end) if line.begin < line.end else (0, 0)
    text, more = line.text[:LONGEST_LINE], len(line.text) - LONGEST_LINE
    parts = [escape(make_visible(part)) for part in (text[:begin], text[begin:end], text[end:])]
    middle = f"<b>{parts[1]}</b>" if parts[1] else ""
    rest = f'<span class="soft">… {more:,} characters more</span>' if more > 0 else ""
    sign = SIGNS[line.kind]
    return f'<span class="dl {line.kind}"><i>{sign}</i>{parts[0]}{middle}{parts[2]}{rest}\n</span>'
