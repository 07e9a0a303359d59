"""Metrics of experiments drawn for pages: each arm with its interval, and the difference."""

from collections.abc import Sequence

from msgspec import Struct

from relight.stats.rates import Estimate
from relight.text import share
from relight.web.charts.chart import Chart, colour_of
from relight.web.charts.intervals import IntervalRow, draw_intervals
from relight.web.charts.svg import find_ticks
from relight.work.experiments.metrics import METRICS, ArmMetric

ARM_COLOURS = {"cold": "rest", "warm": "s1"}


class Difference(Struct, frozen=True):
    """The difference of two arms, and whether it is `good` or `bad`; empty if uncertain."""

    text: str
    kind: str
    p_value: float | None


class DrawnMetric(Struct, frozen=True):
    """A metric with the chart of its arms, and their difference."""

    name: str
    title: str
    chart: Chart
    difference: Difference | None


def make_arm(name: str, estimate: Estimate | None, *, note: str, number: int = 0) -> IntervalRow:
    """Return the row of an arm; cold and warm have the same colours everywhere."""
    colour = ARM_COLOURS.get(name) or colour_of(number)
    return IntervalRow(name=name, estimate=estimate, note=note, colour=colour)


def draw_metric(
    name: str, arms: Sequence[IntervalRow], difference: Estimate | None, p_value: float | None
) -> DrawnMetric | None:
    """Return a metric with its arms drawn; None if every arm is empty or zero."""
    metric, estimates = METRICS[name], [arm.estimate for arm in arms]
    if not any(estimate is not None and estimate.value for estimate in estimates):
        return None
    bounds = find_scale(metric, estimates)
    return DrawnMetric(
        name=name,
        title=metric.title,
        chart=draw_intervals(metric.title, arms, formatter=metric.format, bounds=bounds),
        difference=format_difference(metric, difference, p_value),
    )


def find_scale(metric: ArmMetric, arms: Sequence[Estimate | None]) -> tuple[float, float]:
    """Return a scale from zero to a round figure; a success rate has all of 0 to 1."""
    if metric.more_is_better and metric.format is share:
        return 0.0, 1.0
    ends = [end for arm in arms if arm for end in (arm.value, arm.high) if end is not None]
    return 0.0, find_ticks(max(ends, default=0.0))[-1]


def format_difference(
    metric: ArmMetric, found: Estimate | None, p_value: float | None
) -> Difference | None:
    """Return a difference with its interval; None if it is unknown."""
    if found is None or found.value is None:
        return None
    is_sure = found.low is not None and found.high is not None and not found.low <= 0 <= found.high
    kind = ""
    if is_sure and metric.more_is_better is not None:
        kind = "good" if (found.value > 0) is metric.more_is_better else "bad"
    return Difference(metric.format_difference(found), kind, p_value)
