"""Stacked bar charts: one bar per day, week or run."""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.text import align
from relight.web.charts.chart import (
    HEIGHT,
    SERIES,
    UNKNOWN,
    Cell,
    Chart,
    Formatter,
    SeriesLink,
    colour_of,
    draw_grid,
    draw_labels,
    frame,
    make_legend,
)
from relight.web.charts.svg import block, draw_plot, find_ticks


class StackedBar(Struct, frozen=True, kw_only=True):
    """A bar of several parts; None is an unknown part, which is not drawn.

    The total is a lower bound if `is_partial`: of some part more is unknown.
    """

    label: str
    parts: Sequence[float | None]
    link: str | None = None
    note: str = ""
    is_partial: bool = False


def draw_bars(
    title: str,
    bars: Sequence[StackedBar],
    *,
    names: Sequence[str],
    formatter: Formatter,
    links: Sequence[SeriesLink | None] = (),
    height: float = HEIGHT,
    unknown: str = UNKNOWN,
) -> Chart:
    """Return a chart of stacked bars, each linked to its list; `unknown` is the word for None.

    Series after the last colour are merged into one, so the largest must come first. A single one
    more keeps its name.
    """
    if len(names) > SERIES + 1:
        names = [*names[:SERIES], f"{len(names) - SERIES} more"]
        bars, links = [_merge(bar) for bar in bars], links[:SERIES]
    sums = [math.fsum(part or 0.0 for part in bar.parts) for bar in bars]
    ticks = find_ticks(max(sums, default=0.0))
    drawn = draw_grid(ticks, formatter, height)
    blocks: dict[str, list[str]] = {}
    for place, bar in enumerate(bars):
        for kind, own in _draw_bar(bar, place, scale=height / ticks[-1], height=height):
            blocks.setdefault(kind, []).append(own)
    hits = [
        ("\n".join(_write_tip(bar, names, total, formatter)), bar.link)
        for bar, total in zip(bars, sums, strict=True)
    ]
    drawn.append(draw_plot(blocks, hits, height))
    drawn += draw_labels([bar.label for bar in bars], height)
    columns: list[Sequence[float | None]]
    columns = [[bar.parts[at] for bar in bars] for at in range(len(names))]
    rows = [[Cell(bar.label, bar.link)] for bar in bars]
    for column in columns:
        write = align(formatter, column)
        for row, value in zip(rows, column, strict=True):
            row.append(Cell(unknown if value is None else write(value)))
    if len(names) > 1:
        write = align(formatter, sums)
        for row, bar, total in zip(rows, bars, sums, strict=True):
            known = unknown if bar.is_partial and not total else write(total)
            row.append(Cell(f"≥{known}" if bar.is_partial and total else known))
    peak = max(range(len(sums)), key=sums.__getitem__, default=None)
    summary = f"{title}: together {formatter(math.fsum(sums))}"
    if peak is not None:
        summary += f", most at {bars[peak].label} with {formatter(sums[peak])}"
    return Chart(
        title=title,
        svg=frame(drawn, summary, height),
        head=["", *names, *(["total"] if len(names) > 1 else [])],
        rows=rows,
        legend=make_legend(names, links),
    )


def _merge(bar: StackedBar) -> StackedBar:
    """Return the bar with the parts after the last colour as one, unknown if all of them are."""
    rest = [part for part in bar.parts[SERIES:] if part is not None]
    return replace(bar, parts=[*bar.parts[:SERIES], math.fsum(rest) if rest else None])


def _write_tip(
    bar: StackedBar, names: Sequence[str], total: float, formatter: Formatter
) -> Iterator[str]:
    yield f"{bar.label}: {formatter(total)}"
    if len(names) > 1:
        parts = zip(names, bar.parts, strict=True)
        yield from (f"{name}: {formatter(part)}" for name, part in parts if part)
    if bar.note:
        yield bar.note


def _draw_bar(
    bar: StackedBar, place: int, *, scale: float, height: float
) -> Iterator[tuple[str, str]]:
    """Yield the colour and the block of each part, from the bottom up."""
    floor = height
    for number, part in enumerate(bar.parts):
        if part:
            tall = max(part * scale, 0.5)
            floor -= tall
            yield colour_of(number), block(place + 0.14, floor, 0.72, tall)
