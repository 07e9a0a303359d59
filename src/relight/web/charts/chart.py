"""The parts that all charts share: grid, labels, legend and frame."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct

from relight.stats.rates import Estimate
from relight.text import align
from relight.web.charts.svg import element, percent, text_element

SERIES = 6  # colours of series; what comes after them is grey
REST = "rest"
HEIGHT = 180.0
FOOT = 20.0  # height of the labels below
LABELS = 7  # at most; every other one is hidden on a phone
UNKNOWN = "–"
Formatter = Callable[[float], str]


class Cell(Struct, frozen=True):
    """A formatted figure, and a link to the list behind it."""

    text: str
    link: str | None = None


class SeriesLink(Struct, frozen=True):
    """The link of a series: its page with this series alone; with all again if it `is_on`."""

    address: str
    is_on: bool = False


class Legend(Struct, frozen=True):
    name: str
    colour: str
    link: SeriesLink | None = None


class Chart(Struct, frozen=True, kw_only=True):
    """A drawing, its legend, and its figures as a table."""

    title: str
    svg: Markup
    head: list[str]
    rows: list[list[Cell]]
    legend: list[Legend] = []

    @property
    def has_legend(self) -> bool:
        """True if there are several series, or one by which the page is filtered."""
        return len(self.legend) > 1 or any(one.link and one.link.is_on for one in self.legend)


def colour_of(place: int) -> str:
    """Return the class of a series; those after the last colour are grey.

    >>> colour_of(2), colour_of(99)
    ('s2', 'rest')
    """
    return f"s{place}" if place < SERIES else REST


def find_runs(
    found: Sequence[Estimate | None],
) -> Iterator[list[tuple[int, Estimate]]]:
    """Yield the stretches without a gap, as indexed points."""
    for is_known, run in groupby(enumerate(found), key=lambda one: one[1] is not None):
        if is_known:
            yield [(at, point) for at, point in run if point is not None]


def find_ends(point: Estimate) -> tuple[float, float]:
    """The error bar; unknown bounds collapse to the point."""
    value = point.value or 0.0
    return (
        value if point.low is None else point.low,
        value if point.high is None else point.high,
    )


def align_estimates(formatter: Formatter, found: Iterable[Estimate | None]) -> Formatter:
    """Return the formatter of a column of estimates with their intervals."""
    known = [point for point in found if point is not None]
    return align(formatter, [one for point in known for one in (point.value, *find_ends(point))])


def format_estimate(point: Estimate, formatter: Formatter) -> str:
    """Return a formatted figure, with its interval if known."""
    if point.value is None:
        return UNKNOWN
    low, high = find_ends(point)
    return formatter(point.value) + (
        f" ({formatter(low)} to {formatter(high)})" if low < high else ""
    )


def draw_grid(ticks: Sequence[float], formatter: Formatter, height: float) -> list[Markup]:
    """Return horizontal lines at round figures, from 0 at the bottom to the last at the top."""
    drawn, formatter = [], align(formatter, ticks)
    for tick in ticks:
        y = height - tick / ticks[-1] * height
        drawn.append(element("line", class_="grid" if tick else "grid base", x2="100%", y1=y, y2=y))
        drawn.append(text_element(formatter(tick), class_="tick", x=-8.0, y=y + 4))
    return drawn


def draw_labels(labels: Sequence[str], height: float) -> list[Markup]:
    """Return as many labels as fit; every other one is shown only on a wide screen."""
    every = max(math.ceil(len(labels) / LABELS), 1)
    chosen = list(range(len(labels) - 1, -1, -every))
    drawn = []
    for number, at in enumerate(chosen):
        kind = "label minor" if number % 2 else "label"
        is_last = at == len(labels) - 1 and len(labels) > 1  # keep it inside the frame
        place = "100%" if is_last else percent((at + 0.5) / len(labels))
        drawn.append(
            text_element(
                labels[at], class_="label end" if is_last else kind, x=place, y=height + FOOT - 5
            )
        )
    return drawn


def make_legend(names: Sequence[str], links: Sequence[SeriesLink | None]) -> list[Legend]:
    """Return the legend in colour order; `links` belong to the first names."""
    wanted = [*links, *[None] * len(names)]
    return [Legend(name, colour_of(at), wanted[at]) for at, name in enumerate(names)]


def frame(drawn: Sequence[Markup], summary: str, height: float, *, kind: str = "chart") -> Markup:
    """Return the whole drawing with its summary for screen readers."""
    return element(
        "svg",
        *drawn,
        class_=kind,
        width="100%",
        height=height + FOOT,
        role="group",
        aria_label=summary,
    )
