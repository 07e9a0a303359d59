"""Word-sized drawings for tables: sparkline, strip of runs, time span, share."""

import math
from collections.abc import Sequence
from functools import lru_cache

from markupsafe import Markup
from msgspec import Struct

from relight.stats.rates import Estimate
from relight.web.charts.chart import Formatter, find_runs
from relight.web.charts.svg import element, link_shapes, percent, points

MOST_POINTS = 46
TALL = {"success": 14, "failure": 22}


class RunBlock(Struct, frozen=True, kw_only=True):
    """One run in a strip: `success`, `failure` or `unknown`."""

    outcome: str
    tip: str
    link: str | None = None


def draw_sparkline(title: str, values: Sequence[float | None], *, formatter: Formatter) -> Markup:
    """Return a word-sized line; None leaves a gap."""
    known = [value for value in values if value is not None]
    if not known:
        return Markup('<span class="muted">–</span>')
    low, high, last = map(formatter, (min(known), max(known), known[-1]))
    # more points than two pixels apart cannot be seen; the last one is among them
    values = values[:: -math.ceil(len(values) / MOST_POINTS)][::-1]
    top, step = max(*known, 0.0) or 1.0, 100 / len(values)
    found = [None if value is None else Estimate(value, None, None) for value in values]
    drawn = []
    for run in find_runs(found):
        # a tenth of a pixel cannot be seen, and a list has hundreds of points
        middle = [
            (round(step * (at + 0.5), 1), round(20 - (one.value or 0.0) / top * 18, 1))
            for at, one in run
        ]
        drawn.append(
            element("polyline", class_="line s0", points=points(middle))
            if len(middle) > 1
            else element("circle", class_="s0", cx=middle[0][0], cy=middle[0][1], r=1.5)
        )
    summary = f"{title}: from {low} to {high}, last {last}"
    return element(
        "svg",
        *drawn,
        class_="spark",
        viewBox="0 0 100 22",
        role="img",
        aria_label=summary,
        data_tip="",  # the same
    )


def draw_strip(title: str, blocks: Sequence[RunBlock], *, places: int = 30) -> Markup:
    """Return the last runs as blocks, the newest on the right.

    Height shows the outcome as well as colour: failures are tallest, unknown ones shortest.
    """
    shown = blocks[-places:]
    drawn = [
        link_shapes(_draw_block(number * 8, block.outcome), block.tip, block.link)
        for number, block in enumerate(shown, start=places - len(shown))
    ]
    return _frame_strip(title, drawn, [one.outcome for one in shown], places)


def draw_plain_strip(title: str, outcomes: Sequence[str], *, places: int = 30) -> Markup:
    """Return the strip of a long list of jobs: one shape for each outcome, and no links."""
    shown = outcomes[-places:]
    blocks: dict[str, list[str]] = {}
    for number, outcome in enumerate(shown, start=places - len(shown)):
        kind, tall = _find_kind(outcome)
        blocks.setdefault(kind, []).append(f"M{number * 8 + 1} {22 - tall}h6v{tall}h-6z")
    drawn = [element("path", class_=kind, d="".join(own)) for kind, own in blocks.items()]
    return _frame_strip(title, drawn, shown, places)


def _frame_strip(
    title: str, drawn: Sequence[Markup], outcomes: Sequence[str], places: int
) -> Markup:
    good, bad = (sum(one == name for one in outcomes) for name in ("success", "failure"))
    vacant = [
        element("rect", class_="vacant", x=number * 8.0 + 1, y=20.0, width=6.0, height=2.0)
        for number in range(places - len(outcomes))
    ]
    summary = f"{title}: of the last {len(outcomes)} runs {good} succeeded and {bad} failed"
    return element(
        "svg",
        *drawn,
        *vacant,
        class_="strip",
        viewBox=f"0 0 {places * 8} 22",
        role="group",
        aria_label=summary,
    )


def _find_kind(outcome: str) -> tuple[str, int]:
    return (outcome, TALL[outcome]) if outcome in TALL else ("unknown", 7)


@lru_cache(maxsize=256)
def _draw_block(left: int, outcome: str) -> tuple[Markup, Markup]:
    """Return the shapes of one run; cached because a list of jobs draws hundreds."""
    kind, tall = _find_kind(outcome)
    return (
        element("rect", class_="hit", x=left, y=0, width=8, height=22),
        element("rect", class_=kind, x=left + 1, y=22 - tall, width=6, height=tall, rx=1),
    )


def draw_span(begin: float, end: float, *, kind: str, tip: str) -> Markup:
    """Return a bar from `begin` to `end`, both shares of the whole."""
    begin = min(max(begin, 0.0), 1.0)
    width = max(min(end, 1.0) - begin, 0.0)
    # keep a span of no length visible
    shape = element(
        "rect",
        class_=kind,
        x=percent(min(begin, 0.994)),
        y=3.0,
        width=percent(max(width, 0.006)),
        height=8.0,
        rx=1.5,
    )
    return element("svg", shape, class_="span", height=14.0, role="img", aria_label=tip)


def draw_share(value: float | None, largest: float, *, kind: str = "s0") -> Markup:
    """Return a bar beside a figure in a table, hidden from screen readers."""
    share = (value or 0.0) / largest if largest > 0 else 0.0
    bar = element("rect", class_=kind, width=percent(min(max(share, 0.0), 1.0)), height=6.0, rx=1.0)
    return element("svg", bar, class_="share", height=6.0, aria_hidden="true")
