"""Stacked bars: a figure of several parts for each day, week or run."""

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup
from msgspec import Struct

from relight.web.charts import (
    HEIGHT,
    UNKNOWN,
    Cell,
    Chart,
    Tell,
    colour_of,
    draw_grid,
    draw_labels,
    frame,
    make_legend,
)
from relight.web.svg import element, find_ticks, link_shapes, percent


class Column(Struct, frozen=True, kw_only=True):
    """A bar of several parts; a part that is not known is not drawn, and told as unknown."""

    label: str
    parts: Sequence[float | None]
    link: str | None = None
    note: str = ""


def draw_bars(
    title: str,
    columns: Sequence[Column],
    *,
    names: Sequence[str],
    tell: Tell,
    links: Sequence[str | None] = (),
    height: float = HEIGHT,
) -> Chart:
    """Stacked bars, one a column, each a link to what it is made of."""
    sums = [math.fsum(part or 0.0 for part in column.parts) for column in columns]
    ticks = find_ticks(max(sums, default=0.0))
    drawn = draw_grid(ticks, tell, height)
    for place, (column, total) in enumerate(zip(columns, sums, strict=True)):
        tip = "\n".join(_tell_column(column, names, total, tell))
        box = (place / len(columns), 1 / len(columns))
        drawn.append(_draw_column(column, tip, box, scale=height / ticks[-1], height=height))
    drawn += draw_labels([column.label for column in columns], height)
    rows = []
    for column, total in zip(columns, sums, strict=True):
        parts = [Cell(UNKNOWN if part is None else tell(part)) for part in column.parts]
        whole = [Cell(tell(total))] if len(names) > 1 else []
        rows.append([Cell(column.label, column.link), *parts, *whole])
    peak = max(range(len(sums)), key=sums.__getitem__, default=None)
    told = f"{title}: together {tell(math.fsum(sums))}"
    if peak is not None:
        told += f", most at {columns[peak].label} with {tell(sums[peak])}"
    return Chart(
        title=title,
        svg=frame(drawn, told, height),
        head=["", *names, *(["total"] if len(names) > 1 else [])],
        rows=rows,
        legend=make_legend(names, links),
    )


def _tell_column(column: Column, names: Sequence[str], total: float, tell: Tell) -> Iterator[str]:
    yield f"{column.label}: {tell(total)}"
    if len(names) > 1:
        parts = zip(names, column.parts, strict=True)
        yield from (f"{name}: {tell(part)}" for name, part in parts if part)
    if column.note:
        yield column.note


def _draw_column(
    column: Column, tip: str, box: tuple[float, float], *, scale: float, height: float
) -> Markup:
    left, width = box
    place: dict[str, str] = {
        "x": percent(left + width * 0.14),
        "width": percent(width * 0.72),
    }
    shapes = [
        element("rect", class_="hit", x=percent(left), y=0.0, width=percent(width), height=height)
    ]
    floor = height
    for number, part in enumerate(column.parts):
        if part:
            tall = max(part * scale, 0.5)
            floor -= tall
            shapes.append(element("rect", class_=colour_of(number), y=floor, height=tall, **place))
    return link_shapes(shapes, tip, column.link)
