"""The figures of a part of the campaign, and the clock that bounds it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

COLUMNS = ("tried", "lost", "twice", "hung", "leaked")


class Score:
    """What a part tried and what went wrong; a column that has no meaning for it stays None."""

    def __init__(self, part: str, *columns: str) -> None:
        self.part = part
        self.counts: dict[str, int] = dict.fromkeys(("tried", *columns), 0)
        self.problems: list[str] = []
        self.notes: list[str] = []

    def add(self, column: str, problem: str, count: int = 1) -> None:
        """Count something that went wrong; the words say what, so that it can be found."""
        if count:
            self.counts[column] += count
            self.problems.append(f"{column}: {problem}")

    def check(self, is_right: bool, column: str, problem: str) -> None:
        self.counts["tried"] += 1
        if not is_right:
            self.add(column, problem)

    @property
    def is_clean(self) -> bool:
        return not self.problems

    @contextmanager
    def within(self, seconds: float, what: str) -> Iterator[None]:
        """A block that counts as hung if it takes longer."""
        started = time.monotonic()
        yield
        if (took := time.monotonic() - started) > seconds:
            self.add("hung", f"{what} took {took:.1f} s")


class Clock:
    """The time that is left; a part is divided by shares of it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def part(self, share: float) -> "Clock":
        return Clock(self.seconds * share)

    def rounds(self, most: int | None = None) -> Iterator[int]:
        """Count up from 0 until the time is over, at least once."""
        number = 0
        while number == 0 or (not self.is_over and (most is None or number < most)):
            yield number
            number += 1


def format_table(scores: Sequence[Score]) -> list[str]:
    """Return the lines of the table: a row for each part, a dash where a column has no meaning."""
    rows: list[tuple[str, ...]] = [("part", *COLUMNS)]
    for score in scores:
        cells = (score.counts.get(column) for column in COLUMNS)
        rows.append((score.part, *("-" if cell is None else str(cell) for cell in cells)))
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
