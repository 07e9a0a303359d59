"""Tables and figures for terminals.

rich takes longer to load than a report to make: here it measures only characters whose width is not
plain. What moves is in `progress.py`.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO

import click
from msgspec import Struct

from relight.text import align_money
from relight.text import clean as clean
from relight.text import clean_lines as clean_lines
from relight.text import count as count
from relight.text import dollars as dollars
from relight.text import format_cost as format_cost
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


CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# characters that are not surely one cell wide
UNSURE = re.compile(
    "[^ -~\xa0-\xac\xae-\u02ff\u0370-\u0482\u2010-\u2027\u2190-\u22ff\u2500-\u25fc]"
)
WORD = re.compile(r"\s*\S+\s*")


class Printer:
    """The output of a command: its width, and the styles and colours that it shows."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        given = os.environ.get
        self._stream = stream or sys.stdout
        self.is_terminal = bool(given("FORCE_COLOR")) or self._stream.isatty()
        self._is_plain = not self.is_terminal or given("TERM") in ("dumb", "unknown")
        self._has_colours = not given("NO_COLOR")
        columns = given("COLUMNS", "")
        self.width = int(columns) if columns.isdecimal() and int(columns) else _find_width()

    def paint(self, text: str, style: str) -> str:
        """Return a text in a style such as `bold red`, as far as it can be shown."""
        if self._is_plain or not text:
            return text
        names = [name for name in style.split() if self._has_colours or name in ("bold", "dim")]
        codes = ";".join(CODES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

    def print(self, text: str = "", style: str = "") -> None:
        """Print lines as they are, whatever the width."""
        lines = [self.paint(line, style) for line in text.split("\n")]
        click.echo("\n".join(lines), file=self._stream, color=True)

    def print_words(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Print lines that break between words in a terminal; a pipe gets them as they are."""
        for line in clean_lines(text).split("\n"):
            for part in wrap_text(line, self.width - indent) if self.is_terminal else [line]:
                self.print(f"{' ' * indent}{part}".rstrip(), style)


def _find_width() -> int:
    for number in (0, 1, 2):
        try:
            return os.get_terminal_size(number).columns or 80
        except OSError:
            continue
    return 80


def count_cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if not UNSURE.search(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit_text(text: str, width: int) -> str:
    """Return a text cut or filled up to a width."""
    if not UNSURE.search(text):
        return text[: max(width, 0)].ljust(width)
    from rich.cells import set_cell_size

    return set_cell_size(text, width)


def wrap_text(text: str, width: int) -> list[str]:
    """Return a text as lines of at most a width; a word that is wider is broken.

    >>> wrap_text("a word, and unbreakable", 8)
    ['a word,', 'and', 'unbreaka', 'ble']
    """
    lines, width = [""], max(width, 2)
    for found in WORD.findall(text):
        word = found
        if lines[-1] and count_cells(lines[-1] + word.rstrip()) > width:
            lines.append("")
        while count_cells(word.rstrip()) > width:
            end = next(n for n in range(width, 0, -1) if count_cells(word[:n]) <= width)
            lines[-1:] = [word[:end], ""]
            word = word[end:]
        lines[-1] += word
    return [line.rstrip() for line in lines]


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
    """A column of a table: its heading, its cells, and whether they are numbers or words.

    If a table is too wide, words are cut, except names that people must type. Spare columns are
    left out before words become unreadable.
    """

    heading: str
    cells: Sequence[str] = ()
    is_number: bool = True
    is_name: bool = False
    is_spare: bool = False
    drop: int = 0  # of spare columns, the one with the highest number is left out first
    least: int = READABLE  # characters of words, below which a spare column is left out
    lines: int = 1  # over which words go on before they are cut
    is_title: bool = False  # two of them may look alike when they are cut
    style: str = ""
    colour: Callable[[str], str] | None = None  # of each cell, by its text


class Words(Column, frozen=True):
    """A column of words."""

    is_number: bool = False


def print_columns(*columns: Column) -> None:
    """Print a table whose columns have their cells."""
    print_table(columns, list(zip(*(column.cells for column in columns), strict=True)))


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    total: Sequence[str] | None = None,
) -> None:
    """Print a table that fits the screen: numbers stay whole, words are cut."""
    target = Printer()
    lines, left_out = make_table(columns, rows, target, total=total)
    click.echo("\n".join(lines), color=True)
    if left_out:
        missing = ", ".join(reversed(left_out))
        print_text(f"no room for {missing}: widen the window or use --json", style="dim")


def make_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    target: Printer,
    *,
    total: Sequence[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Return the lines of a table that fits, and the headings of columns that were left out."""
    every = [*rows, *([total] if total else [])]
    aligned = [align_money([row[number] for row in every]) for number in range(len(columns))]
    cells = [[clean(column[place]) for column in aligned] for place in range(len(every))]
    spare = find_spare(columns, cells, target.width)
    left_out = [columns[number].heading for number in spare]
    kept = [number for number in range(len(columns)) if number not in spare]
    columns = [columns[number] for number in kept]
    cells = [[row[number] for number in kept] for row in cells]
    widths = fit_widths(columns, cells, target.width)
    shown: list[list[list[str]]] = []
    for number, (column, width) in enumerate(zip(columns, widths, strict=True)):
        words = [row[number] for row in cells]
        if column.lines > 1 or column.is_title:
            shown.append([wrap_words(word, width, column.lines) for word in words])
        else:
            shown.append([[word] for word in cut_words(words, width)])

    def paint_row(parts: Sequence[Sequence[str]], styles: Sequence[str]) -> Iterator[str]:
        for place in range(max(map(len, parts))):
            line = [
                target.paint(_align(part[place] if place < len(part) else "", width, column), style)
                for part, width, column, style in zip(parts, widths, columns, styles, strict=True)
            ]
            yield "  ".join(line) + " "

    bold = ["bold"] * len(columns)
    whole = sum(widths) + 2 * len(widths) - 1
    lines = [*paint_row([[column.heading] for column in columns], bold), "─" * whole]
    for place, row in enumerate(cells):
        styles = [
            f"{column.style} {column.colour(cell) if column.colour else ''}"
            for column, cell in zip(columns, row, strict=True)
        ]
        if place == len(rows):
            lines.append(" " * whole)
            styles = [f"bold {style}" for style in styles]
        lines += paint_row([column[place] for column in shown], styles)
    return lines, left_out


def _align(text: str, width: int, column: Column) -> str:
    if column.is_number and not column.is_name:
        text = " " * (width - count_cells(text)) + text
    return fit_text(text, width)


def cut_words(words: Sequence[str], width: int) -> list[str]:
    """Return the words cut to a width; those that would then look alike lose their middle.

    >>> cut_words(["claude-sonnet-4-5", "claude-sonnet-4-6", "a-very-long-name"], 12)
    ['claude-s…4-5', 'claude-s…4-6', 'a-very-long…']
    """
    alike: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        alike.setdefault(cut_end(word, width), []).append(word)
    cut: dict[str, str] = {}
    for shown, several in alike.items():
        cut.update(dict.fromkeys(several, shown))
        if len(several) > 1:
            ways = [_cut_middles(several, width, end) for end in range(3, width - 3)]
            best: dict[str, str] = max(ways, key=lambda way: len({*way.values()}), default={})
            cut.update(best)
    return [cut[word] for word in words]


def cut_end(word: str, width: int) -> str:
    if count_cells(word) <= width:
        return word
    return f"{fit_text(word, width - 1).rstrip()}…"


def _cut_middles(words: Sequence[str], width: int, end: int) -> dict[str, str]:
    """Return the words with as many characters at their end, which may be wide ones."""
    room = {word: width - 1 - count_cells(word[-end:]) for word in words}
    return {
        word: f"{fit_text(word, left)}…{word[-end:]}" if left > 0 else cut_end(word, width)
        for word, left in room.items()
    }


def wrap_words(words: str, width: int, lines: int) -> list[str]:
    """Return the words as lines, as many as they need and may have; the rest is cut.

    >>> wrap_words("the ledger says that it failed", 12, 2)
    ['the ledger', 'says that i…']
    """
    found = wrap_text(words, width)
    if len(found) > lines:
        found = [*found[: lines - 1], cut_end(" ".join(found[lines - 1 :]), width)]
    return found


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
        max(count_cells(text) for text in (column.heading, *(row[number] for row in cells)))
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
    Printer().print(clean_lines(text), style)


def last_folder(project: str | None) -> str:
    """Return the last part of a project's folder."""
    return (project or "").rstrip("/").rpartition("/")[2]


def minute(at: str | None) -> str:
    """Return the minute of a JSON time, without its year.

    >>> minute("2026-11-15T03:12:00.218Z"), minute(None)
    ('11-15 03:12', 'unknown')
    """
    return at[5:16].replace("T", " ") if at else "unknown"


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
