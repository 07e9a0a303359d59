"""The few words of SVG that charts are written in, with everything in them escaped."""

import math
import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from relight.text import make_visible

NEWLINE = "&#10;"
TINY = 1e-18  # less, or more than its inverse, is no figure of ours
# most values: nothing in them is to be escaped or made visible
PLAIN = re.compile(r"[\w .,:;%/=+?#()$·-]*", re.ASCII)
NAMES = {"class_": "class", "aria_label": "aria-label", "data_tip": "data-tip"}


def element(name: str, *children: str, **attributes: object) -> Markup:
    """An element; attributes that are None are left out, `class_` and `aria_label` named rightly.

    >>> element("rect", class_="s0", x="10%", data_tip="a & b")
    Markup('<rect class="s0" x="10%" data-tip="a &amp; b"/>')
    """
    told = "".join(
        [
            f' {NAMES.get(key) or key.replace("_", "-")}="{write_value(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    if not children:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{''.join(children)}</{name}>")


def write_value(value: object) -> str:
    """An attribute's value: short numbers, and text that keeps its lines."""
    if isinstance(value, float):
        return short(value)
    text = str(value)
    if PLAIN.fullmatch(text):
        return text
    return str(escape(make_visible(text))).replace("\n", NEWLINE).replace("\t", " ")


def write_text(content: object, **attributes: object) -> Markup:
    return element("text", escape(make_visible(content)), **attributes)


def short(value: float) -> str:
    """A coordinate without needless digits.

    >>> [short(v) for v in (12.0, 0.1234567, -3.5)]
    ['12', '0.123', '-3.5']
    """
    return f"{value:.3f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """A share of the width: charts are as wide as their place, with letters of one size.

    >>> percent(1 / 3)
    '33.333%'
    """
    return f"{short(share * 100)}%"


def points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{short(x)},{short(y)}" for x, y in pairs)


def find_ticks(top: float, *, most: int = 4) -> list[float]:
    """Round values from 0 up to the first that is not below `top`, for the lines of a grid.

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
    """Shapes that tell about themselves, and lead to what is behind them.

    The chart's table has the same links: they would only be in the way of the keyboard here.
    """
    if link is None:
        return element("g", *shapes, data_tip=tip)
    # what it is called is what it tells
    return element("a", *shapes, href=link, tabindex="-1", aria_label=tip, data_tip="")
