"""Numbers, money, times and foreign text as people read them, on any face."""

import math
import re

# control characters, and marks that turn the direction of text: sessions hold hostile text
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """One line of text from a session that cannot move the cursor or turn the line around.

    >>> clean("a\\x1b[31mred\\u202e")
    'a�[31mred�'
    """
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text).replace("\n", " ").replace("\t", " ")


def clean_lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


def count(value: float | None) -> str:
    """A number of things, short enough for a column.

    >>> [count(n) for n in (None, 0, 999, 12_345, 1_234_567)]
    ['–', '0', '999', '12.3k', '1.23M']
    """
    if value is None:
        return "–"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}"


def dollars(value: float | None, *, unpriced: int = 0) -> str:
    """An amount of money; what is not known is not zero, and what lacks some of it is a least.

    >>> [dollars(v) for v in (None, 0, 0.0000085, 0.0042, 12.5, 1234.5)]
    ['unknown', '$0.00', '$0.0000085', '$0.0042', '$12.50', '$1,234.50']
    >>> dollars(12.5, unpriced=3)
    '≥$12.50'
    """
    if value is None:
        return "unknown"
    if 0 < value < 0.0001:  # so little is not nothing
        told = f"${value:.{1 - math.floor(math.log10(value))}f}".rstrip("0")
    else:
        told = f"${value:.4f}" if 0 < value < 0.01 else f"${value:,.2f}"
    return f"≥{told}" if unpriced else told


def seconds(value: float | None) -> str:
    """A duration in its two largest units.

    >>> [seconds(v) for v in (None, 4.2, 59.97, 75, 179.8, 7322, 200_000)]
    ['–', '4.2s', '1m 00s', '1m 15s', '3m 00s', '2h 02m', '2d 07h']
    """
    if value is None:
        return "–"
    if round(value, 1) < 60:
        return f"{value:.1f}s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 24 else f"{hours // 24}d {hours % 24:02}h"


def size(value: float) -> str:
    """Bytes in the unit that reads best.

    >>> [size(v) for v in (900, 12_000, 3_400_000)]
    ['900 B', '12 KB', '3.4 MB']
    """
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} B"
