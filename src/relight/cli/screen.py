"""Tables, figures and progress for people; the one home of rich."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

BLOCKS = " ▏▎▍▌▋▊▉█"
# control characters, and marks that turn the direction of text: sessions hold hostile text
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text from a session that cannot move the cursor or turn the line around.

    >>> clean("a\\x1b[31mred\\u202e")
    'a�[31mred�'
    """
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text).replace("\n", " ").replace("\t", " ")


def console(stream: IO[str] | None = None) -> Console:
    return Console(file=stream or sys.stdout, highlight=False, emoji=False)


class Column:
    """A column of a table: its heading, and whether it holds numbers or words."""

    def __init__(self, heading: str, *, is_number: bool = True, style: str = "") -> None:
        self.heading = heading
        self.is_number = is_number
        self.style = style


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    total: Sequence[str] | None = None,
) -> None:
    """A table that fits the screen: numbers stand to the right and whole, words give way."""
    target = console()
    table = Table(
        box=SIMPLE_HEAD,
        show_footer=total is not None,
        show_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        footer_style="bold",
    )
    cells = [[clean(cell) for cell in row] for row in (*rows, *([total] if total else []))]
    widths = fit_widths(columns, cells, target.width)
    for number, column in enumerate(columns):
        table.add_column(
            column.heading,
            Text(clean(total[number])) if total else "",
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            style=column.style,
            width=widths[number],
        )
    for row in cells[: len(rows)]:
        table.add_row(*map(Text, row))
    target.print(table)


def fit_widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], available: int
) -> list[int]:
    """A width for each column; where they do not fit, the widest words are cut first."""
    widths = [
        max(cell_len(text) for text in (column.heading, *(row[number] for row in cells)))
        for number, column in enumerate(columns)
    ]
    words = [number for number, column in enumerate(columns) if not column.is_number]
    while words and sum(widths) + 2 * len(widths) - 1 > available:
        widest = max(words, key=widths.__getitem__)
        if widths[widest] <= 4:
            break
        widths[widest] -= 1
    return widths


def print_text(text: str, *, style: str = "") -> None:
    console().print(Text(clean_lines(text)), style=style, soft_wrap=True)


def clean_lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


def count(value: float | None) -> str:
    """A number of things, short enough for a column.

    >>> [count(n) for n in (None, 0, 999, 12_345, 1_234_567)]
    ['–', '0', '999', '12.3k', '1.23M']
    """
    if value is None:
        return "–"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """An amount of money; what is not known is not zero.

    >>> [dollars(v) for v in (None, 0, 0.0042, 12.5, 1234.5)]
    ['unknown', '$0.00', '$0.0042', '$12.50', '$1,234.50']
    """
    if value is None:
        return "unknown"
    return f"${value:.4f}" if 0 < value < 0.01 else f"${value:,.2f}"


def seconds(value: float | None) -> str:
    """A duration in its two largest units.

    >>> [seconds(v) for v in (None, 4.2, 75, 7322, 200_000)]
    ['–', '4.2s', '1m 15s', '2h 02m', '2d 07h']
    """
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.1f}s"
    if value < 3600:
        return f"{value // 60:.0f}m {value % 60:02.0f}s"
    if value < 86400:
        return f"{value // 3600:.0f}h {value % 3600 // 60:02.0f}m"
    return f"{value // 86400:.0f}d {value % 86400 // 3600:02.0f}h"


def size(value: float) -> str:
    """Bytes in the unit that reads best.

    >>> [size(v) for v in (900, 12_000, 3_400_000)]
    ['900 B', '12 KB', '3.4 MB']
    """
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} B"


def bar(value: float, largest: float, *, width: int = 8) -> str:
    """A small bar for a value among others.

    >>> bar(5, 10, width=4)
    '██'
    """
    eighths = round(width * 8 * value / largest) if largest > 0 else 0
    if value > 0:
        eighths = max(eighths, 1)
    return "█" * (eighths // 8) + BLOCKS[eighths % 8].strip()


def trend(values: Sequence[float | None], *, highest: float | None = None) -> str:
    """A small line of values, one a day; a dot where there is none.

    >>> trend([0, 1, None, 4], highest=4)
    '▁▃·█'
    """
    top = highest or max((value for value in values if value is not None), default=0) or 1
    marks = "▁▂▃▄▅▆▇█"
    return "".join(
        "·" if value is None else marks[round(min(value / top, 1) * 7)] for value in values
    )


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function to tell progress to; on a screen it is a bar on standard error."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
