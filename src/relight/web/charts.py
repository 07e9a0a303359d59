"""What a chart is, and what all drawings share.

Charts are drawn here as SVG, and not in the browser. A chart is as wide as its place, so places
along the width are percentages and heights are pixels: letters keep their size on a telephone.
Colours are classes (`s0` … `s7`), which the style sheet fills in for light and dark. No chart is
the only place of a figure: each comes with its table.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct

from relight.stats.rates import Estimate
from relight.web.svg import element, percent, write_text

COLOURS = 8
HEIGHT = 180.0
FOOT = 20.0  # for the labels below
LABELS = 7  # as many fit below a chart on a desk; on a telephone every other one is hidden
UNKNOWN = "–"
Tell = Callable[[float], str]


class Cell(Struct, frozen=True):
    """A figure in words, and the list behind it."""

    text: str
    link: str | None = None


class Legend(Struct, frozen=True):
    name: str
    colour: str
    link: str | None = None


class Chart(Struct, frozen=True, kw_only=True):
    """A drawing, what its colours mean, and all its figures again as a table."""

    title: str
    svg: Markup
    head: list[str]
    rows: list[list[Cell]]
    legend: list[Legend] = []


def colour_of(place: int) -> str:
    """The class of a series; those beyond the last colour share it.

    >>> colour_of(2), colour_of(99)
    ('s2', 's7')
    """
    return f"s{min(place, COLOURS - 1)}"


def find_runs(
    found: Sequence[Estimate | None],
) -> Iterator[list[tuple[int, Estimate]]]:
    """Stretches without a gap."""
    for is_known, run in groupby(enumerate(found), key=lambda one: one[1] is not None):
        if is_known:
            yield [(at, point) for at, point in run if point is not None]


def find_ends(point: Estimate) -> tuple[float, float]:
    """How far an estimate may be off; where nobody knows, it is where it is."""
    value = point.value or 0.0
    return (
        value if point.low is None else point.low,
        value if point.high is None else point.high,
    )


def tell_estimate(point: Estimate, tell: Tell) -> str:
    """A figure in words, with its interval where that is known."""
    if point.value is None:
        return UNKNOWN
    low, high = find_ends(point)
    return tell(point.value) + (f" ({tell(low)} to {tell(high)})" if low < high else "")


def draw_grid(ticks: Sequence[float], tell: Tell, height: float) -> list[Markup]:
    """Lines across at round figures, from 0 at the foot to the last at the top."""
    drawn = []
    for tick in ticks:
        y = height - tick / ticks[-1] * height
        drawn.append(element("line", class_="grid" if tick else "grid base", x2="100%", y1=y, y2=y))
        drawn.append(write_text(tell(tick), class_="tick", x=-8.0, y=y + 4))
    return drawn


def draw_labels(labels: Sequence[str], height: float) -> list[Markup]:
    """As many labels below as fit; of those every other one only where there is room."""
    every = max(math.ceil(len(labels) / LABELS), 1)
    chosen = list(range(len(labels) - 1, -1, -every))
    drawn = []
    for number, at in enumerate(chosen):
        kind = "label minor" if number % 2 else "label"
        is_last = at == len(labels) - 1 and len(labels) > 1  # it must not stand out at the side
        place = "100%" if is_last else percent((at + 0.5) / len(labels))
        drawn.append(
            write_text(
                labels[at], class_="label end" if is_last else kind, x=place, y=height + FOOT - 5
            )
        )
    return drawn


def make_legend(names: Sequence[str], links: Sequence[str | None]) -> list[Legend]:
    """What the colours mean, in their order; the links are those of the first names."""
    wanted = [*links, *[None] * len(names)]
    return [Legend(name, colour_of(at), wanted[at]) for at, name in enumerate(names)]


def frame(drawn: Sequence[Markup], told: str, height: float, *, kind: str = "chart") -> Markup:
    """The drawing as a whole, as wide as its place, with what it tells in words."""
    return element(
        "svg",
        *drawn,
        class_=kind,
        width="100%",
        height=height + FOOT,
        role="group",
        aria_label=told,
    )
