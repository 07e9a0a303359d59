"""Diffs as HTML: what was added, removed and kept."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup, escape

from relight.judging.edits import LONGEST_LINE, DiffLine, FileDiff
from relight.text import make_visible

MOST_LINES = 400  # that are shown of one file
CONTEXT = 3  # kept lines around a change; longer runs are left out
SIGNS = {"add": "+", "del": "−", "same": " ", "hunk": " "}


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
