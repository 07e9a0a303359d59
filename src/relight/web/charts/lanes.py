"""Outcomes over time, one lane per model, project or source.

Successes stand on a lane's line and failures hang from it, so that position shows the outcome as
well as colour does. Sessions of unknown outcome stand on the successes.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from relight.reports.coverage import count_known
from relight.web.charts.chart import UNKNOWN, Cell, Chart, Legend, draw_labels, frame
from relight.web.charts.svg import block, draw_plot, element, text_element

NAME = 17.0  # height of the name above a lane
LANE = 31.0
LEGEND = [
    Legend("succeeded, above the line", "success"),
    Legend("unknown, above those", "unknown"),
    Legend("failed, below the line", "failure"),
]


class OutcomeCounts(Struct, frozen=True):
    """The number of sessions by outcome."""

    success: int = 0
    failure: int = 0
    unknown: int = 0


class Lane(Struct, frozen=True, kw_only=True):
    """A name with its outcomes in each step, and in all: a session can be in several steps."""

    name: str
    steps: Sequence[OutcomeCounts]
    whole: OutcomeCounts


def draw_lanes(
    title: str, lanes: Sequence[Lane], *, labels: Sequence[str], links: Sequence[str | None]
) -> Chart:
    """Return a chart of lanes to one scale; a step of all lanes is linked to its list."""
    steps = [one for lane in lanes for one in lane.steps]
    up = max((one.success + one.unknown for one in steps), default=0)
    down = max((one.failure for one in steps), default=0)
    scale = LANE / max(up + down, 1)
    drawn = []
    blocks: dict[str, list[str]] = {}
    for number, lane in enumerate(lanes):
        top = number * (NAME + LANE) + NAME
        line = round(top + up * scale, 2)
        drawn.append(text_element(lane.name, class_="name", x=0.0, y=top - 6))
        drawn.append(
            text_element(describe_outcomes(lane.whole), class_="figure", x="100%", y=top - 6)
        )
        drawn.append(element("line", class_="grid base", x2="100%", y1=line, y2=line))
        for place, one in enumerate(lane.steps):
            for kind, own in _draw_step(one, place, line=line, scale=scale):
                blocks.setdefault(kind, []).append(own)
    height = len(lanes) * (NAME + LANE)
    hits = [(_write_tip(label, lanes, place), links[place]) for place, label in enumerate(labels)]
    drawn.append(draw_plot(blocks, hits, height))
    drawn += draw_labels(labels, height)
    rows = [
        [Cell(label, links[place]), *(Cell(describe_outcomes(lane.steps[place])) for lane in lanes)]
        for place, label in enumerate(labels)
    ]
    described = "; ".join(f"{lane.name}: {describe_outcomes(lane.whole)}" for lane in lanes)
    return Chart(
        title=title,
        svg=frame(drawn, f"{title}: {described}", height, kind="chart bare"),
        head=["", *(lane.name for lane in lanes)],
        rows=rows,
        legend=LEGEND,
    )


def _write_tip(label: str, lanes: Sequence[Lane], place: int) -> str:
    """Return the outcomes of a step in each lane that has any; the verb stands once above them."""
    found = [(lane.name, describe_outcomes(lane.steps[place])) for lane in lanes]
    lines = [f"{name}: {words}" for name, words in found if words != UNKNOWN]
    if len(lines) < 2 or " succeeded" not in "".join(lines):
        return "\n".join([label, *lines])
    return "\n".join([f"{label}, succeeded:", *(line.replace(" succeeded", "") for line in lines)])


def _draw_step(
    one: OutcomeCounts, place: int, *, line: float, scale: float
) -> Iterator[tuple[str, str]]:
    """Yield the class and the block of each outcome that occurred."""
    tops = {
        "success": (line - one.success * scale, one.success),
        "unknown": (line - (one.success + one.unknown) * scale, one.unknown),
        "failure": (line, one.failure),
    }
    for name, (top, number) in tops.items():
        if number:
            yield name, block(place + 0.14, top, 0.72, number * scale)


def describe_outcomes(one: OutcomeCounts) -> str:
    """Return numbers of sessions in words.

    >>> describe_outcomes(OutcomeCounts(3, 1, 2)), describe_outcomes(OutcomeCounts())
    ('3 of 4 succeeded, 2 unknown', '–')
    """
    known = one.success + one.failure
    parts = [f"{count_known(one.success, known)} succeeded"] if known else []
    parts += [f"{one.unknown:,} unknown"] if one.unknown else []
    return ", ".join(parts) or UNKNOWN
