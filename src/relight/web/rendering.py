"""Templates: output is escaped, made visible, and a dash if unknown."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_environment
from jinja2.filters import make_attrgetter
from markupsafe import Markup

from relight.errors import as_typed
from relight.reports.coverage import count_known, show_failure_interval, show_rate
from relight.reports.filters import quote_name
from relight.reports.metrics import format_share
from relight.reports.search_query import split_snippet
from relight.text import (
    count,
    dollars,
    find_digits,
    make_line,
    make_visible,
    plural,
    seconds,
    share,
)
from relight.times import read_time
from relight.warm.injection import count_tokens
from relight.warm.library import count_examples
from relight.web.filters import DAY_CHOICES
from relight.web.glossary import index_terms

FOLDER = Path(__file__).parent / "templates"
UNKNOWN = "–"


def make_environment(timezone: str) -> Environment:
    """Return the template environment, with times in the store's zone."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        # an upgrade must not mix new templates with the running old program
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "money": money,
        "digits": digits_of,
        "number": count,
        "plural": plural,
        "duration": seconds,
        "share": share,
        "percent": format_share,
        "rate": show_rate,
        "failure_interval": show_failure_interval,
        "known": count_known,
        "text_tokens": count_tokens,
        "examples": count_examples,
        "moment": moment_writer(timezone),
        "date": moment_writer(timezone, "%Y-%m-%d"),
        "offset": offset,
        "line": make_line,
        "coded": mark_code,
        "typed": as_typed,
        "whole": quote_name,
        "snippet": split_snippet,
    }
    environment.globals |= {"glossary": index_terms(), "day_words": DAY_CHOICES}
    return environment


def make_printable(value: Any) -> Any:
    """Return what a template prints: control characters shown, a dash for None.

    Tabs and line ends stay: they are harmless in a page.
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, str) and not isinstance(value, Markup):
        return make_visible(value)
    return value


def money(
    value: float | None,
    unpriced: int | None = None,
    included: float | None = None,
    digits: int | None = None,
) -> str:
    """Return an amount; if some turns have no price, it is a lower bound.

    `included` is what a plan paid for, at list price. A dash is the cost of nothing: no turn has a
    cost, and none is without a price. `digits` after the point are those of its column.

    >>> [money(None), money(None, 0), money(None, 3), money(12.5), money(12.5, 3)]
    ['no price', '–', 'no price', '$12.50', '≥$12.50']
    """
    if value is None and not included and unpriced == 0:
        return UNKNOWN
    return dollars(value, unpriced=unpriced or 0, included=included, digits=digits)


def mark_code(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code.

    >>> mark_code("Set `hold_out`, or <b>")
    Markup('Set <code>hold_out</code>, or &lt;b&gt;')
    """
    parts = make_visible(text).split("`")
    if len(parts) % 2 == 0:  # one is left over
        return Markup.escape("`".join(parts))
    marked = (
        Markup("<code>{}</code>") if place % 2 else Markup("{}") for place in range(len(parts))
    )
    return Markup("").join(mark.format(part) for mark, part in zip(marked, parts, strict=True))


@pass_environment
def digits_of(environment: Environment, rows: Iterable[Any], *names: str) -> int:
    """Return the digits after the point for a column of money: the rows' fields of these names."""
    readers = [make_attrgetter(environment, name) for name in names]
    return find_digits(read(row) for row in rows for read in readers)


def offset(value: float | None) -> str:
    """Return the time since the beginning.

    >>> [offset(v) for v in (None, 4.2, 75, 7322)]
    ['', '+0:04', '+1:15', '+2:02:02']
    """
    if value is None:
        return ""
    minutes, rest = divmod(int(max(value, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}:{minutes:02}:{rest:02}" if hours else f"+{minutes}:{rest:02}"


def day(value: str | None) -> str:
    """Return a short calendar day.

    >>> day("2026-11-05")
    '5 Nov'
    """
    if value is None:
        return UNKNOWN
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return value
    return f"{found.day} {found:%b}"


def moment_writer(timezone: str, form: str = "%Y-%m-%d %H:%M") -> Callable[[str | int | None], str]:
    """Return a filter that shows a time, ISO-8601 or Unix milliseconds, in this zone."""
    zone = ZoneInfo(timezone)

    def moment(value: str | int | None) -> str:
        at = read_time(value) if isinstance(value, str) else value
        if at is None:
            return UNKNOWN
        found = datetime.fromtimestamp(at / 1000, UTC)
        here = found.astimezone(zone)
        # digits and signs, which need no escaping
        at_utc = found.isoformat(timespec="seconds")
        return Markup(f'<time datetime="{at_utc}">{here:{form}}</time>')

    return moment
