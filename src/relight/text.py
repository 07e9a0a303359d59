"""Text from sessions: numbers, money and times formatted for people."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Protocol

SHOWN_CHARACTERS = 4000
NO_PRICE = "no price"
# the currency that amounts are shown in, and what a dollar costs in it
_currency: ContextVar[tuple[str, float]] = ContextVar("currency", default=("USD", 1.0))
SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩"}
# Sessions hold hostile text. These characters act unseen, in a terminal, on a page or in a prompt:
# controls but tab and newline, marks that turn the direction of text, characters without a width,
# variation selectors, tags, and code points that no document may hold. The two joiners and the
# emoji selector stay: scripts and emoji need them.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufe00-\ufe0e\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
# a spreadsheet takes a cell that begins so for a formula, some of them also the wide forms
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def join_words(words: list[str], last: str = "and") -> str:
    """Return the words as a list in a sentence.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def clean(text: str) -> str:
    """Return the text on one line, each hidden character replaced: safe to print in a terminal.

    >>> clean("a\\x1b[31mred\\u202e")
    'a�[31mred�'
    """
    shown = HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    return shown.replace("\n", " ").replace("\t", " ")


def clean_lines(text: str) -> str:
    """Return the text with its lines, each of them safe to print in a terminal.

    >>> clean_lines("one\\r\\ntwo")
    'one\\ntwo'
    """
    return "\n".join(clean(line) for line in text.replace("\r\n", "\n").split("\n"))


def make_cell(value: object) -> object:
    """Return a value as a cell of CSV: a text on one line that no spreadsheet runs as a formula.

    >>> [make_cell(value) for value in ("=1+1", "-2", "a\\tb", "\\n@sum(a1)", ["a", "b"], -2, None)]
    ["'=1+1", "'-2", 'a b', "' @sum(a1)", 'a b', -2, None]
    """
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def to_text(value: object, *, fallback: str | None = None) -> str:
    """Return any value as text; the fallback, or its type, if `str` raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a foreign value must not raise
        return f"<{type(value).__name__}>" if fallback is None else fallback


def strip_hidden(text: str) -> str:
    """Return the text without hidden characters: a person cannot see them, but a model reads them.

    >>> strip_hidden("Fix\\u200b this\\U000e0041\\U000e0042 now\\x1b[0m")
    'Fix this now[0m'
    """
    return HIDDEN.sub("", text)


def make_visible(text: object) -> str:
    """Return the text with each hidden character shown as a picture or by its number.

    Escaping for HTML comes after this; it leaves these characters as they are.

    >>> make_visible("a\\x1b[31mred\\u202e")
    'a␛[31mred‹202E›'
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():  # most are, and a page has thousands
        return shown
    return HIDDEN.sub(_show_character, shown.replace("\r\n", "\n"))


def _show_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF):
        return "\N{REPLACEMENT CHARACTER}"
    return f"‹{code:04X}›"


def make_line(text: object, limit: int = 200) -> str:
    """Return the visible text on one line of at most `limit` characters.

    >>> make_line("one\\n  two", 5)
    'one …'
    """
    # The text may be huge; only its beginning is needed.
    words = " ".join(make_visible(str(text)[: limit * 8]).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def cut_visible(text: str, limit: int = SHOWN_CHARACTERS) -> tuple[str, int]:
    """Return the beginning of a text, made visible, and the number of characters left out."""
    return make_visible(text[:limit]), max(len(text) - limit, 0)


def count(value: float | None) -> str:
    """Return a count, short enough for a column.

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


def plural(number: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> plural(1, "run"), plural(1200, "run"), plural(2, "line is", "lines are")
    ('1 run', '1,200 runs', '2 lines are')
    """
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def show_in(currency: str, rate: float) -> None:
    """Show the amounts of this thread in another currency from now on; `rate` is for a dollar.

    Only texts and pages do so: records and JSON are in dollars.
    """
    _currency.set((currency, rate))


class Amount(str):
    """An amount of money as text, with the figures it was made of, so that columns align."""

    value: float | None = None
    unpriced: int = 0
    included: float | None = None


def dollars(
    value: float | None,
    *,
    unpriced: int = 0,
    included: float | None = None,
    digits: int | None = None,
) -> Amount:
    """Return an amount of dollars, in the currency of `show_in`.

    None is unknown, not zero; with unpriced parts the amount is a minimum.

    `included` is what a plan pays for, at list price: it is not spent. `digits` are those after
    the point; without them, as many as the amount needs.

    >>> [dollars(v) for v in (None, 0, 0.0000085, 0.0042, 12.5, 1234.5)]
    ['no price', '$0.00', '$0.0000085', '$0.0042', '$12.50', '$1,234.50']
    >>> dollars(12.5, unpriced=3), dollars(0.0042, digits=2)
    ('≥$12.50', '<$0.01')
    >>> dollars(0.0042, unpriced=3, digits=2), dollars(0, unpriced=3)  # never "at least nothing"
    ('>$0.00', 'no price')
    >>> [dollars(v, included=4) for v in (0, 12.5)]
    ['$4.00 included', '$12.50 + $4.00 included']
    """
    is_known = value is not None and (value != 0 or not unpriced)
    text = _write_amount(value or 0, digits, unpriced) if is_known else NO_PRICE
    if included:
        worth = f"{_write_amount(included, digits)} included"
        text = worth if value == 0 and not unpriced else f"{text} + {worth}"
    made = Amount(text)
    made.value, made.unpriced, made.included = value, unpriced, included
    return made


class Priced(Protocol):
    """A row with the cost of some turns."""

    @property
    def cost_usd(self) -> float | None: ...
    @property
    def unpriced_turns(self) -> int | None: ...
    @property
    def included_usd(self) -> float | None: ...


def format_cost(row: Priced) -> str:
    """Return the cost of a row, at least, and what a plan paid for."""
    return dollars(row.cost_usd, unpriced=row.unpriced_turns or 0, included=row.included_usd)


def _write_amount(value: float, digits: int | None, unpriced: int = 0) -> str:
    code, rate = _currency.get()
    sign, value = SYMBOLS.get(code, f"{code} "), value * rate
    least = "≥" if unpriced else ""
    if digits is None and 0 < value < 0.0001:  # not zero: show the first two digits
        return f"{least}{sign}{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0")
    if digits is None:
        digits = 4 if 0 < value < 0.01 else 2
    if 0 < value < 10**-digits:
        return f">{sign}{0:.{digits}f}" if unpriced else f"<{sign}{10**-digits:.{digits}f}"
    return f"{least}{sign}{value:,.{digits}f}"


def align_money(cells: Sequence[str]) -> list[str]:
    """Return the cells of one column, all amounts with as many digits after the point.

    >>> align_money([dollars(12.5), dollars(0.0042), "–"])
    ['$12.50', '<$0.01', '–']
    >>> align_money([dollars(0.06), dollars(0.0099), dollars(None)])
    ['$0.0600', '$0.0099', 'no price']
    """
    amounts = [cell for cell in cells if isinstance(cell, Amount)]
    digits = find_digits(value for one in amounts for value in (one.value, one.included))
    return [
        dollars(cell.value, unpriced=cell.unpriced, included=cell.included, digits=digits)
        if isinstance(cell, Amount)
        else cell
        for cell in cells
    ]


def find_digits(amounts: Iterable[float | None]) -> int:
    """Return the digits after the point for the amounts of one column, in dollars.

    Two are enough beside an amount of 1; amounts that are all smaller have four, if one needs them.

    >>> find_digits([12.5, 0.0042]), find_digits([0.06, 0.0099, None]), find_digits([0.06])
    (2, 4, 2)
    """
    _, rate = _currency.get()
    values = [value * rate for value in amounts if value]
    return 4 if values and min(values) < 0.01 and max(values) < 1 else 2


def seconds(value: float | None) -> str:
    """Return a duration in its two largest units.

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


def share(value: float | None, *, digits: int | None = None) -> str:
    """Return a percentage. `digits` are those after the point; without them, as many as it needs.

    >>> [share(None), share(0.0), share(0.0004), share(0.125), share(0.5), share(1.0)]
    ['–', '0%', '<0.1%', '12.5%', '50%', '100%']
    """
    if value is None:
        return "–"
    if 0 < value < 0.001:
        return "<0.1%"
    if digits is None:
        digits = 0 if value in (0, 0.25, 0.5, 0.75, 1) else 1
    return f"{value:.{digits}%}"


def align(formatter: Callable[..., str], values: Iterable[float | None]) -> Callable[..., str]:
    """Return the formatter of a column or scale: all its figures have as many digits.

    >>> list(map(align(dollars, [0.005, 0.01]), [0.005, 0.01]))
    ['$0.0050', '$0.0100']
    >>> list(map(align(share, [0.5, 0.125]), [0.5, 0.125])), align(share, [0.5, 0.2])(0.2)
    (['50.0%', '12.5%'], '20%')
    """
    if formatter is dollars:
        return partial(dollars, digits=find_digits(values))
    if formatter is share:
        is_whole = all(abs(value * 100 - round(value * 100)) < 1e-6 for value in values if value)
        return partial(share, digits=0 if is_whole else 1)
    return formatter


def size(value: float) -> str:
    """Return a number of bytes in the unit that reads best.

    >>> [size(v) for v in (900, 12_000, 3_400_000)]
    ['900 B', '12 KB', '3.4 MB']
    """
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} B"


def hide_secrets(to: str) -> str:
    """Return the target of a delivery without what follows a webhook's host, usually a secret.

    >>> hide_secrets("webhook:https://hooks.example.com/T0/B0/s3cr3t")
    'webhook:https://hooks.example.com/…'
    """
    kind, _, target = to.partition(":")
    if kind != "webhook":
        return to
    scheme, _, rest = target.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{kind}:{scheme}://{host.rpartition('@')[2]}{'' if host == rest else '/…'}"


def show_url(url: str) -> str:
    """Return the address of a database without its password.

    >>> show_url("postgresql://anna:secret@db.example/relight?password=x")
    'postgresql://anna@db.example/relight'
    """
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


def make_csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV.

    Texts of sessions are untrusted: no escape sequences, and no formulas of spreadsheets.
    """
    import csv
    import io

    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(map(make_cell, row) for row in rows)
    return made.getvalue()


def make_markdown(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    is_number: Callable[[str], bool],
) -> str:
    """Return a Markdown table with numbers to the right; None is a dash.

    >>> rows = [["a", dollars(2.5)], ["b", dollars(0.0042)]]
    >>> print(make_markdown(["name", "cost"], rows, is_number="cost".__eq__))
    | name | cost |
    | --- | ---: |
    | a | $2.50 |
    | b | <$0.01 |
    """

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(clean(text).replace("|", "\\|") for text in cells) + " |"

    texts = [["–" if cell is None else _write_cell(cell) for cell in row] for row in rows]
    columns = map(align_money, zip(*texts, strict=True))
    rules = ["---:" if is_number(name) else "---" for name in names]
    return "\n".join([line(names), line(rules), *map(line, zip(*columns, strict=True))])


def _write_cell(cell: object) -> str:
    return cell if isinstance(cell, str) else str(cell)
