"""Line charts with error bands: one point per day."""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from relight.stats.rates import Estimate
from relight.web.charts.chart import (
    HEIGHT,
    UNKNOWN,
    Cell,
    Chart,
    Formatter,
    SeriesLink,
    align_estimates,
    colour_of,
    draw_grid,
    draw_labels,
    find_ends,
    find_runs,
    format_estimate,
    frame,
    make_legend,
)
from relight.web.charts.svg import element, find_ticks, link_shapes, percent, points

WIDTH = 1000.0  # of the part that is stretched to the container


class Series(Struct, frozen=True, kw_only=True):
    """An estimate for each label; None leaves a gap."""

    name: str
    points: Sequence[Estimate | None]
    link: SeriesLink | None = None


def draw_lines(
    title: str,
    lines: Sequence[Series],
    *,
    labels: Sequence[str],
    formatter: Formatter,
    top: float | None = None,
    notes: Sequence[str] = (),
    marks: Sequence[int] = (),
    height: float = HEIGHT,
) -> Chart:
    """Return a line chart over common labels, with an optional note per label.

    At the places in `marks` a line stands across the chart.
    """
    known = [point for line in lines for point in line.points if point is not None]
    highest = max((max(find_ends(point)) for point in known), default=0.0)
    ticks = find_ticks(highest if top is None else top)
    step = 1 / max(len(labels), 1)
    drawn = draw_grid(ticks, formatter, height)
    for at in marks:
        x = percent(at * step)
        drawn.append(element("line", class_="cut", x1=x, x2=x, y1=0.0, y2=height))
    drawn += _draw_strokes(lines, step=step, scale=height / ticks[-1], height=height)
    writers = [align_estimates(formatter, line.points) for line in lines]
    rows = []
    for at, label in enumerate(labels):
        here = [line.points[at] if at < len(line.points) else None for line in lines]
        cells = [
            UNKNOWN if one is None else format_estimate(one, write)
            for one, write in zip(here, writers, strict=True)
        ]
        facts = [f"{line.name}: {cell}" for line, cell in zip(lines, cells, strict=True)]
        note = [notes[at]] if at < len(notes) and notes[at] else []
        hit = element(
            "rect", class_="hit", x=percent(at * step), y=0.0, width=percent(step), height=height
        )
        drawn.append(link_shapes([hit], "\n".join([label, *facts, *note]), None))
        rows.append([Cell(label), *map(Cell, cells)])
    drawn += draw_labels(labels, height)
    last = [
        f"{line.name} {formatter(value)}"
        for line in lines
        if (value := next((one.value for one in line.points[::-1] if one), None)) is not None
    ]
    return Chart(
        title=title,
        svg=frame(drawn, f"{title}; last: {', '.join(last) or 'nothing known'}", height),
        head=["", *(line.name for line in lines)],
        rows=rows,
        legend=make_legend([line.name for line in lines], [line.link for line in lines]),
    )


def _draw_strokes(
    lines: Sequence[Series], *, step: float, scale: float, height: float
) -> list[Markup]:
    """Return the lines with their bands, and a dot at both ends of each stretch."""
    bands, strokes, dots = [], [], []
    for number, line in enumerate(lines):
        colour = colour_of(number)
        for run in find_runs(line.points):
            places = [(WIDTH * step * (at + 0.5), point, find_ends(point)) for at, point in run]
            upper = [(x, height - high * scale) for x, _, (_, high) in places]
            lower = [(x, height - low * scale) for x, _, (low, _) in places]
            middle = [(x, height - (point.value or 0.0) * scale) for x, point, _ in places]
            bands.append(
                element("polygon", class_=f"band {colour}", points=points([*upper, *lower[::-1]]))
            )
            strokes.append(element("polyline", class_=f"line {colour}", points=points(middle)))
            dots += [
                element("circle", class_=colour, cx=percent(x / WIDTH), cy=y, r=2.2)
                for x, y in ([middle[0], middle[-1]] if len(middle) > 1 else middle)
            ]
    if not strokes:
        return []
    # only this inner drawing is stretched; its strokes keep their width
    stretched = element(
        "svg",
        *bands,
        *strokes,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        preserveAspectRatio="none",
        width="100%",
        height=height,
    )
    return [stretched, *dots]
