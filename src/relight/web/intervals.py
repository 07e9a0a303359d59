"""Estimates with their intervals, one below the other on one scale."""

from collections.abc import Sequence

from msgspec import Struct

from relight.stats.rates import Estimate
from relight.web.charts import FOOT, UNKNOWN, Cell, Chart, Tell, find_ends, frame, tell_estimate
from relight.web.svg import element, link_shapes, percent, write_text

ROW = 34.0


class Interval(Struct, frozen=True, kw_only=True):
    """One row of a plot of intervals."""

    name: str
    estimate: Estimate | None
    note: str = ""
    colour: str = "s0"


def draw_intervals(
    title: str, rows: Sequence[Interval], *, tell: Tell, bounds: tuple[float, float]
) -> Chart:
    """The rows on a scale between the bounds, with both ends and the middle told below."""
    low, high = bounds
    centre, height = (low + high) / 2, ROW * len(rows)

    def place(value: float) -> str:
        return percent(min(max((value - low) / (high - low), 0.0), 1.0))

    drawn = [element("line", class_="grid", x1=place(centre), x2=place(centre), y2=height)]
    told = [UNKNOWN if row.estimate is None else tell_estimate(row.estimate, tell) for row in rows]
    for number, (row, words) in enumerate(zip(rows, told, strict=True)):
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
        drawn.append(write_text(row.name, class_="name", x=0.0, y=y - 11))
        drawn.append(write_text(words, class_="figure", x="100%", y=y - 11))
    drawn.append(element("line", class_="grid base", x2="100%", y1=height, y2=height))
    for at, kind in ((low, "label start"), (centre, "label"), (high, "label end")):
        drawn.append(write_text(tell(at), class_=kind, x=place(at), y=height + FOOT - 5))
    said = "; ".join(f"{row.name} {words}" for row, words in zip(rows, told, strict=True))
    return Chart(
        title=title,
        svg=frame(drawn, f"{title}: {said}", height, kind="chart bare"),
        head=["", "estimate and interval", "made of"],
        rows=[
            [Cell(row.name), Cell(words), Cell(row.note)]
            for row, words in zip(rows, told, strict=True)
        ],
    )
