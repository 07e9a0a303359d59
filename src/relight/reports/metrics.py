"""The metrics of usage: where a figure comes from, its heading and its format on every face."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct

from relight.text import count, dollars, seconds


class UsageMetric(Struct, frozen=True, kw_only=True):
    """One figure of a report row: its reader, heading and format."""

    name: str
    title: str
    read: Callable[[Any], float | None]
    format: Callable[[float | None], str] = count
    is_lower_bound: bool = False  # with unpriced turns, which add to the cost
    has_dash: bool = False  # a missing cost may be one of nothing

    def show(self, row: Any) -> str:
        """The figure as text; with unpriced turns a cost is a lower bound."""
        value = self.read(row)
        is_of_calls = getattr(row, "turns", 0) is None  # tools make no model calls
        if value is None and (self.has_dash or is_of_calls):
            return "–"
        if self.is_lower_bound:
            return dollars(value, unpriced=row.unpriced_turns or 0)
        return self.format(value)


def format_share(value: float | None) -> str:
    """A part of a whole in percent.

    >>> [format_share(one) for one in (None, 0.125)]
    ['–', '12.5%']
    """
    return "–" if value is None else f"{value:.1%}"


def read_fresh_input(row: Any) -> int | None:
    """Input tokens that no cache served, written to a cache or not."""
    if row.input_tokens is None:
        return None
    return int(row.input_tokens + (row.cache_write_tokens or 0))


def read_failure_rate(row: Any) -> float | None:
    """The share of tool calls that failed."""
    return row.tool_failures / row.tool_calls if row.tool_calls else None


def read_successes(row: Any) -> float | None:
    """The sessions that succeeded; None if no outcome is known."""
    return row.successes if row.successes + row.failures else None


class OutcomeMetric(UsageMetric, frozen=True, kw_only=True):
    """The sessions that succeeded, of those whose outcome is known."""

    def show(self, row: Any) -> str:
        value = self.read(row)
        if value is None:
            return "–"
        if getattr(row, "session", UNSET) is not UNSET:  # the row of one session
            return "yes" if value else "no"
        return f"{value:,}/{row.successes + row.failures:,}"


class MeanMetric(UsageMetric, frozen=True, kw_only=True):
    """A mean of a session; there is none where a row has no session."""

    def show(self, row: Any) -> str:
        return super().show(row) if row.sessions else "–"


def _make(
    name: str,
    title: str,
    shape: type[UsageMetric] = UsageMetric,
    *,
    read: Callable[[Any], float | None] | None = None,
    format: Callable[[float | None], str] = count,
    is_lower_bound: bool = False,
    has_dash: bool = False,
) -> UsageMetric:
    """Return the metric of a field of a row, or of what `read` finds in it."""
    return shape(
        name=name,
        title=title,
        read=read or attrgetter(name),
        format=format,
        is_lower_bound=is_lower_bound,
        has_dash=has_dash,
    )


SUCCESSES = _make("successes", "ok", OutcomeMetric, read=read_successes)
SESSIONS = _make("sessions", "sess.")
TURNS = _make("turns", "turns")
TOKENS = _make("total_tokens", "tokens")
WALL_TIME = _make("wall_seconds", "time", format=seconds)
COST = _make("cost_usd", "cost", format=dollars, is_lower_bound=True)
# at list price, beside the cost: a plan paid for it
INCLUDED = _make("included_usd", "included", format=dollars)
FAILURE_RATE = _make("failure_rate", "failed", read=read_failure_rate, format=format_share)
COST_PER_SUCCESS = _make(
    "cost_per_success_usd", "per ok", format=dollars, is_lower_bound=True, has_dash=True
)
MEAN_TOKENS = _make("mean_tokens", "mean tokens", MeanMetric)
MEAN_COST = _make("mean_cost_usd", "mean cost", MeanMetric, format=dollars, is_lower_bound=True)
USAGE_METRICS = (
    SESSIONS,
    TURNS,
    _make("output_tokens", "output"),
    _make("input_tokens", "input", read=read_fresh_input),
    _make("cache_read_tokens", "cached"),
    TOKENS,
    MEAN_TOKENS,
    COST,
    MEAN_COST,
    INCLUDED,
    FAILURE_RATE,
    SUCCESSES,
    COST_PER_SUCCESS,
    WALL_TIME,
)
CALL_METRICS = (
    SESSIONS,
    _make("tool_calls", "tool calls"),
    _make("tool_failures", "failed"),
    _make("failure_rate", "share", read=read_failure_rate, format=format_share),
    SUCCESSES,
    _make("failed_turns", "model calls failed"),
)


def list_metrics(*, is_of_calls: bool) -> tuple[UsageMetric, ...]:
    """Return the metrics of a table of usage, or of one of tool calls and failures."""
    return CALL_METRICS if is_of_calls else USAGE_METRICS
