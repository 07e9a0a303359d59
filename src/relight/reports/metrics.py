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


SUCCESSES = OutcomeMetric(name="successes", title="ok", read=read_successes)
SESSIONS = UsageMetric(name="sessions", title="sess.", read=attrgetter("sessions"))
TURNS = UsageMetric(name="turns", title="turns", read=attrgetter("turns"))
TOKENS = UsageMetric(name="total_tokens", title="tokens", read=attrgetter("total_tokens"))
WALL_TIME = UsageMetric(
    name="wall_seconds", title="time", read=attrgetter("wall_seconds"), format=seconds
)
COST = UsageMetric(
    name="cost_usd",
    title="cost",
    read=attrgetter("cost_usd"),
    format=dollars,
    is_lower_bound=True,
)
# at list price, beside the cost: a plan paid for it
INCLUDED = UsageMetric(
    name="included_usd", title="included", read=attrgetter("included_usd"), format=dollars
)
FAILURE_RATE = UsageMetric(
    name="failure_rate",
    title="failed",
    read=read_failure_rate,
    format=format_share,
)
COST_PER_SUCCESS = UsageMetric(
    name="cost_per_success_usd",
    title="per ok",
    read=attrgetter("cost_per_success_usd"),
    format=dollars,
    is_lower_bound=True,
    has_dash=True,
)
MEAN_TOKENS = MeanMetric(name="mean_tokens", title="mean tokens", read=attrgetter("mean_tokens"))
MEAN_COST = MeanMetric(
    name="mean_cost_usd",
    title="mean cost",
    read=attrgetter("mean_cost_usd"),
    format=dollars,
    is_lower_bound=True,
)
USAGE_METRICS = (
    SESSIONS,
    TURNS,
    UsageMetric(name="output_tokens", title="output", read=attrgetter("output_tokens")),
    UsageMetric(name="input_tokens", title="input", read=read_fresh_input),
    UsageMetric(name="cache_read_tokens", title="cached", read=attrgetter("cache_read_tokens")),
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
    UsageMetric(name="tool_calls", title="tool calls", read=attrgetter("tool_calls")),
    UsageMetric(name="tool_failures", title="failed", read=attrgetter("tool_failures")),
    UsageMetric(
        name="failure_rate",
        title="share",
        read=read_failure_rate,
        format=format_share,
    ),
    SUCCESSES,
    UsageMetric(name="failed_turns", title="model calls failed", read=attrgetter("failed_turns")),
)


def list_metrics(*, is_of_calls: bool) -> tuple[UsageMetric, ...]:
    """Return the metrics of a table of usage, or of one of tool calls and failures."""
    return CALL_METRICS if is_of_calls else USAGE_METRICS
