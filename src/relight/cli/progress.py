"""Moving parts of a terminal: progress, and a view that is shown again and again."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

import click

from relight.cli.screen import Column, Printer, clean, clean_lines, cut_end, make_table, size

if TYPE_CHECKING:
    from relight.intake.importing import Progress

# work that takes longer shows its progress
QUIET_SECONDS = 2.0
READING = "reading what is new (Ctrl-C answers without it)"


@contextmanager
def live_view() -> Iterator[Callable[[Sequence[Column], Sequence[Sequence[str]], str], None]]:
    """Yield a function that shows a table and a line in place of those before.

    However it ends, the last view stays, the cursor is shown, and the next line begins below.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    target = Console(highlight=False)
    with Live(console=target, auto_refresh=False, vertical_overflow="crop") as live:

        def show(columns: Sequence[Column], rows: Sequence[Sequence[str]], line: str) -> None:
            now = Printer()  # a window may have another width each time
            below = now.paint(cut_end(clean(line), now.width), "dim")
            lines = make_table(columns, rows, now)[0] if rows else []
            text = Text.from_ansi("\n".join([*lines, below]), no_wrap=True, overflow="crop")
            live.update(text, refresh=True)

        yield show


@contextmanager
def progress_bar(label: str, *, is_bytes: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows progress, as a bar on standard error if it is a terminal.

    The bar's thread starts with the first progress: a process with a second thread cannot fork.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
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
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bars.add_task(label, total=None)

    def show(done: int, total: int) -> None:
        bars.start()
        bars.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bars.stop()


class LateProgress:
    """The progress of long work on standard error, shown only if it takes long.

    A terminal gets a bar; anything else gets one line. No thread waits for the moment: a process
    with a second one cannot fork its worker, and would start it ten times as slowly.
    """

    def __init__(self, label: str = READING, describe: Callable[[int], str] = size) -> None:
        self._label, self._describe = label, describe
        self._late_at = time.monotonic() + QUIET_SECONDS
        self._shown = ExitStack()
        self._step: Progress | None = None

    def update(self, done: int, total: int) -> None:
        if self._step is None and time.monotonic() >= self._late_at:
            self._step = self._show(total - done)
        if self._step is not None:
            self._step(done, total)

    def _show(self, left: int) -> "Progress":
        if not sys.stderr.isatty():
            line = f"{self._label.partition(' (')[0]}: {self._describe(left)} left …"
            click.echo(clean_lines(line), err=True)
        is_bytes = self._describe is size
        return self._shown.enter_context(progress_bar(self._label, is_bytes=is_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.close()
