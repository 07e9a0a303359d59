"""SVG elements with every value escaped."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup, escape

from relight.text import make_visible

NEWLINE = "&#10;"
# values outside this range and its inverse are not drawn to scale
TINY = 1e-18
# most values need no escaping
PLAIN = re.compile(r"[\w .,:;%/=+?#()$·-]*", re.ASCII)
NAMES = {"class_": "class", "aria_label": "aria-label", "data_tip": "data-tip"}


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; attributes that are None are left out.

    >>> element("rect", class_="s0", x="10%", data_tip="a & b")
    Markup('<rect class="s0" x="10%" data-tip="a &amp; b"/>')
    """
    written = "".join(
        [
            f' {NAMES.get(key) or key.replace("_", "-")}="{format_value(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    if not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{''.join(children)}</{name}>")


def format_value(value: object) -> str:
    """Return an attribute's value: short numbers, and text with its line breaks."""
    if isinstance(value, float):
        return short(value)
    text = str(value)
    if PLAIN.fullmatch(text):
        return text
    return str(escape(make_visible(text))).replace("\n", NEWLINE).replace("\t", " ")


def text_element(content: object, **attributes: object) -> Markup:
    return element("text", escape(make_visible(content)), **attributes)


def short(value: float) -> str:
    """Return a coordinate with at most three decimals.

    >>> [short(v) for v in (12.0, 0.1234567, -3.5)]
    ['12', '0.123', '-3.5']
    """
    return f"{value:.3f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share of the width as a percentage.

    >>> percent(1 / 3)
    '33.333%'
    """
    return f"{short(share * 100)}%"


def points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{short(x)},{short(y)}" for x, y in pairs)


def find_ticks(top: float, *, most: int = 4) -> list[float]:
    """Return round values from 0 up to the first that is at least `top`.

    >>> find_ticks(37.2)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    if not TINY < top < 1 / TINY:
        return [0.0, 1.0]
    power = math.floor(math.log10(top / most))
    step = next(
        size * 10.0**power for size in (1, 2, 5, 10, 20) if size * 10.0**power * most >= top
    )
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def link_shapes(shapes: Sequence[Markup], tip: str, link: str | None) -> Markup:
    """Return shapes with a tooltip, linked to the list behind them.

    The keyboard skips these links: the chart's table has the same ones.
    """
    if link is None:
        return element("g", *shapes, data_tip=tip)
    # the accessible name is the tooltip
    return element("a", *shapes, href=link, tabindex="-1", aria_label=tip, data_tip="")


def block(left: float, top: float, width: float, height: float) -> str:
    """Return a rectangle as a part of a path, a third as long as an element.

    >>> block(0.14, 3.0, 0.72, 9.5)
    'M.14 3h.72v9.5h-.72z'
    """
    first, last = round(top, 2), round(top + height, 2)  # what touches it still does
    across = _shorter(width)
    return f"M{_shorter(left)} {_shorter(first)}h{across}v{_shorter(last - first)}h-{across}z"


def _shorter(value: float) -> str:
    """Return a number of a path, which needs no zero before its point."""
    return f"{value:.2f}".rstrip("0").rstrip(".").removeprefix("0") or "0"


def draw_plot(
    blocks: Mapping[str, Sequence[str]],
    hits: Sequence[tuple[str, str | None]],
    height: float,
) -> Markup:
    """Return equally wide steps: one path for the blocks of each class, a tooltip for each step.

    Blocks are in steps across and pixels down. Each hit is the tip of a step and its link.
    """
    drawn = [element("path", class_=kind, d="".join(own)) for kind, own in blocks.items()]
    for place, (tip, link) in enumerate(hits):
        shape = element("rect", class_="hit", x=place)
        drawn.append(link_shapes([shape], tip, link))
    return element(
        "svg",
        *drawn,
        class_="plot",
        width="100%",
        height=height,
        viewBox=f"0 0 {max(len(hits), 1)} {short(height)}",
        preserveAspectRatio="none",
    )
