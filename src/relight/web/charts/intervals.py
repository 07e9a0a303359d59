"""Estimates with their intervals, one per row on a common scale."""

from collections.abc import Sequence

from msgspec import Struct

from relight.stats.rates import Estimate
from relight.text import align
from relight.web.charts.chart import (
    FOOT,
    UNKNOWN,
    Cell,
    Chart,
    Formatter,
    align_estimates,
    find_ends,
    format_estimate,
    frame,
)
from relight.web.charts.svg import element, link_shapes, percent, text_element

ROW = 34.0


class IntervalRow(Struct, frozen=True, kw_only=True):
    """One row of an interval chart."""

    name: str
    estimate: Estimate | None
    note: str = ""
    colour: str = "s0"


def draw_intervals(
    title: str,
    rows: Sequence[IntervalRow],
    *,
    formatter: Formatter,
    bounds: tuple[float, float],
    of: str = "arm",
) -> Chart:
    """Return the rows, one `of` each, on a scale labelled at both bounds and the middle."""
    low, high = bounds
    centre, height = (low + high) / 2, ROW * len(rows)

    def place(value: float) -> str:
        return percent(min(max((value - low) / (high - low), 0.0), 1.0))

    drawn = [element("line", class_="grid", x1=place(centre), x2=place(centre), y2=height)]
    write = align_estimates(formatter, [row.estimate for row in rows])
    figures = [
        UNKNOWN if row.estimate is None else format_estimate(row.estimate, write) for row in rows
    ]
    for number, (row, words) in enumerate(zip(rows, figures, strict=True)):
        y = ROW * number + 25
        if row.estimate is not None and row.estimate.value is not None:
            begin, end = map(place, find_ends(row.estimate))
            colour, middle = row.colour, place(row.estimate.value)
            shapes = [
                element("line", class_=f"reach {colour}", x1=begin, x2=end, y1=y, y2=y),
                element("circle", class_=colour, cx=middle, cy=y, r=4.5),
            ]
            drawn.append(
                link_shapes(shapes, "\n".join(filter(None, [row.name, words, row.note])), None)
            )
        drawn.append(text_element(row.name, class_="name", x=0.0, y=y - 11))
        drawn.append(text_element(words, class_="figure", x="100%", y=y - 11))
    drawn.append(element("line", class_="grid base", x2="100%", y1=height, y2=height))
    write = align(formatter, (low, centre, high))
    for at, kind in ((low, "label start"), (centre, "label"), (high, "label end")):
        drawn.append(text_element(write(at), class_=kind, x=place(at), y=height + FOOT - 5))
    summary = "; ".join(f"{row.name} {words}" for row, words in zip(rows, figures, strict=True))
    return Chart(
        title=title,
        svg=frame(drawn, f"{title}: {summary}", height, kind="chart bare"),
        head=[of, "estimate and interval", "made of"],
        rows=[
            [Cell(row.name), Cell(words), Cell(row.note)]
            for row, words in zip(rows, figures, strict=True)
        ],
    )
