"""Tables, figures and progress for terminals; the only module that uses rich."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relight.text import align_money
from relight.text import clean as clean
from relight.text import clean_lines as clean_lines
from relight.text import count as count
from relight.text import dollars as dollars
from relight.text import seconds as seconds
from relight.text import share as share
from relight.text import size as size

READABLE = 14  # characters that distinguish most names
# what outcomes and states mean, as a colour
COLOURS = {
    **dict.fromkeys(("success", "yes", "ok", "good enough", "live", "done"), "green"),
    **dict.fromkeys(("failure", "no", "over", "worse", "refused", "overdue", "failed"), "red"),
    **dict.fromkeys(("running", "claimed", "projected over", "paused", "stopped"), "yellow"),
    **dict.fromkeys(("unknown", "success?", "failure?", "skipped", "retired"), "dim"),
}
BLOCKS = " ▏▎▍▌▋▊▉█"


class Screen(Console):
    def on_broken_pipe(self) -> None:
        """Raise for `main`, which treats a closed pipe as no error; rich would exit with 1."""
        raise BrokenPipeError


def console(stream: IO[str] | None = None) -> Console:
    return Screen(file=stream or sys.stdout, highlight=False, emoji=False)


def colour_state(cell: str) -> str:
    """Return the colour of an outcome or state, which may go on after a comma or colon.

    >>> colour_state("over, stops"), colour_state("anything")
    ('red', '')
    """
    return COLOURS.get(cell.partition(",")[0].partition(":")[0], "")


def colour_failures(cell: str) -> str:
    """Return red for a number or share of failures that is not zero."""
    return "" if cell in ("", "–", "0", "0.0%", "0%") else "red"


class Column(Struct, frozen=True):
    """A column of a table: its heading, and whether it contains numbers or words.

    If a table is too wide, words are cut, except names that people must type. Spare columns are
    left out before words become unreadable.
    """

    heading: str
    is_number: bool = True
    is_name: bool = False
    is_spare: bool = False
    drop: int = 0  # of spare columns, the one with the highest number is left out first
    least: int = READABLE  # characters of words, below which a spare column is left out
    lines: int = 1  # over which words go on before they are cut
    is_title: bool = False  # two of them may look alike when they are cut
    style: str = ""
    colour: Callable[[str], str] | None = None  # of each cell, by its text


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    total: Sequence[str] | None = None,
) -> None:
    """Print a table that fits the screen: numbers stay whole, words are cut."""
    target = console()
    table, left_out = make_table(columns, rows, target, total=total)
    target.print(table)
    if left_out:
        missing = ", ".join(reversed(left_out))
        print_text(f"no room for {missing}: widen the window or use --json", style="dim")


def make_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    target: Console,
    *,
    total: Sequence[str] | None = None,
) -> tuple[Table, list[str]]:
    """Return a table that fits a console, and the headings of columns that were left out."""
    table = Table(
        box=SIMPLE_HEAD,
        show_footer=total is not None,
        show_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        footer_style="bold",
    )
    every = [*rows, *([total] if total else [])]
    aligned = [align_money([row[number] for row in every]) for number in range(len(columns))]
    cells = [[clean(column[place]) for column in aligned] for place in range(len(every))]
    spare = find_spare(columns, cells, target.width)
    left_out = [columns[number].heading for number in spare]
    kept = [number for number in range(len(columns)) if number not in spare]
    columns = [columns[number] for number in kept]
    cells = [[row[number] for number in kept] for row in cells]
    widths = fit_widths(columns, cells, target.width)
    if any(column.is_name for column in columns):  # a line may be too long, but a name is never cut
        target.width = max(target.width, sum(widths) + 2 * len(widths) - 1)
    shown = []
    for number, column in enumerate(columns):
        words = [row[number] for row in cells]
        if column.lines > 1 or column.is_title:
            words = [wrap_words(word, widths[number], column.lines) for word in words]
        else:
            words = cut_words(words, widths[number])
        colours = ["" if column.colour is None else column.colour(row[number]) for row in cells]
        shown.append([Text(word, style=one) for word, one in zip(words, colours, strict=True)])
        table.add_column(
            column.heading,
            shown[number][-1] if total else "",
            justify="right" if column.is_number and not column.is_name else "left",
            no_wrap=True,
            overflow="ellipsis",
            style=column.style,
            width=widths[number],
        )
    for place in range(len(rows)):
        table.add_row(*(column[place] for column in shown))
    return table, left_out


def cut_words(words: Sequence[str], width: int) -> list[str]:
    """Return the words cut to a width; those that would then look alike lose their middle.

    >>> cut_words(["claude-sonnet-4-5", "claude-sonnet-4-6", "a-very-long-name"], 12)
    ['claude-s…4-5', 'claude-s…4-6', 'a-very-long…']
    """
    alike: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        alike.setdefault(_cut_end(word, width), []).append(word)
    cut: dict[str, str] = {}
    for shown, several in alike.items():
        cut.update(dict.fromkeys(several, shown))
        if len(several) > 1:
            ways = [_cut_middles(several, width, end) for end in range(3, width - 3)]
            best: dict[str, str] = max(ways, key=lambda way: len({*way.values()}), default={})
            cut.update(best)
    return [cut[word] for word in words]


def _cut_end(word: str, width: int) -> str:
    if cell_len(word) <= width:
        return word
    return f"{set_cell_size(word, max(width - 1, 0)).rstrip()}…"


def _cut_middles(words: Sequence[str], width: int, end: int) -> dict[str, str]:
    """Return the words with as many characters at their end, which may be wide ones."""
    room = {word: width - 1 - cell_len(word[-end:]) for word in words}
    return {
        word: f"{set_cell_size(word, left)}…{word[-end:]}" if left > 0 else _cut_end(word, width)
        for word, left in room.items()
    }


def wrap_words(words: str, width: int, lines: int) -> str:
    """Return the words over as many lines as they need and may have; the rest is cut.

    >>> wrap_words("the ledger says that it failed", 12, 2)
    'the ledger\\nsays that i…'
    """
    found = [line.plain.rstrip() for line in Text(words).wrap(console(), width)]
    if len(found) > lines:
        rest = " ".join(found[lines - 1 :])
        found = [*found[: lines - 1], _cut_end(rest, width)]
    return "\n".join(found)


@contextmanager
def live_view() -> Iterator[Callable[[Sequence[Column], Sequence[Sequence[str]], str], None]]:
    """Yield a function that shows a table and a line in place of those before.

    However it ends, the last view stays, the cursor is shown, and the next line begins below.
    """
    from rich.console import Group
    from rich.live import Live

    target = console()
    with Live(console=target, auto_refresh=False, vertical_overflow="crop") as live:

        def show(columns: Sequence[Column], rows: Sequence[Sequence[str]], line: str) -> None:
            text = Text(clean(line), style="dim", no_wrap=True, overflow="ellipsis")
            parts = [make_table(columns, rows, target)[0]] if rows else []
            live.update(Group(*parts, text), refresh=True)

        yield show


def find_spare(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], available: int
) -> list[int]:
    """Return the indexes of spare columns to leave out, by their number, then from the right."""
    widths = measure(columns, cells)
    least = [
        width if column.is_number or column.is_name else min(width, column.least)
        for width, column in zip(widths, columns, strict=True)
    ]
    needed, found = sum(least) + 2 * len(least) - 1, []
    for number in sorted(range(len(columns)), key=lambda one: (-columns[one].drop, -one)):
        if needed > available and columns[number].is_spare:
            needed -= least[number] + 2
            found.append(number)
    return found


def measure(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(cell_len(text) for text in (column.heading, *(row[number] for row in cells)))
        for number, column in enumerate(columns)
    ]


def fit_widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], available: int
) -> list[int]:
    """Return a width for each column; if they do not fit, spare words are cut first, then others.

    Of these the widest is cut.
    """
    widths = measure(columns, cells)
    words = [number for number, one in enumerate(columns) if not one.is_number and not one.is_name]
    spare = {number: columns[number].least for number in words if columns[number].is_spare}
    least = dict.fromkeys(words, 8 if any(column.is_name for column in columns) else 4)
    for limits in (spare, least):
        while sum(widths) + 2 * len(widths) - 1 > available:
            wide = [number for number, limit in limits.items() if widths[number] > limit]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def print_text(text: str, *, style: str = "") -> None:
    console().print(Text(clean_lines(text)), style=style, soft_wrap=True)


def bar(value: float, largest: float, *, width: int = 8) -> str:
    """Return a small bar for a value among others.

    >>> bar(5, 10, width=4)
    '██'
    """
    eighths = round(width * 8 * value / largest) if largest > 0 else 0
    if value > 0:
        eighths = max(eighths, 1)
    return "█" * (eighths // 8) + BLOCKS[eighths % 8].strip()


def trend(values: Sequence[float | None], *, highest: float | None = None) -> str:
    """Return a small line of values, one per day; a dot where a value is missing.

    >>> trend([0, 1, None, 4], highest=4)
    '▁▃·█'
    """
    top = highest or max((value for value in values if value is not None), default=0) or 1
    marks = "▁▂▃▄▅▆▇█"
    return "".join(
        "·" if value is None else marks[round(min(value / top, 1) * 7)] for value in values
    )


@contextmanager
def progress_bar(label: str, *, is_bytes: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows progress, as a bar on standard error if it is a terminal.

    The bar's thread starts with the first progress: a process with a second thread cannot fork.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if is_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=console(sys.stderr), transient=True)
    task = bars.add_task(label, total=None)

    def show(done: int, total: int) -> None:
        bars.start()
        bars.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bars.stop()
