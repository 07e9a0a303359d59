"""Figures over time for a chart: by hour, day, week or month, and by model, project or source."""

from collections.abc import Sequence
from typing import Literal, cast

from msgspec import Struct

from relight.reports.totals import make_figures
from relight.store import Store
from relight.store.queries.filters import Filter, find_day_start
from relight.store.queries.sums import GroupSums
from relight.store.queries.totals import sum_groups
from relight.times import write_time

TimeStep = Literal["hour", "day", "week", "month"]
SeriesKey = Literal["model", "project", "source"]
HOUR_MS = 3_600_000


class SeriesPoint(Struct, frozen=True, kw_only=True):
    """The figures of one model, project or source in one step of time; None is unknown.

    `step` is a day, an ISO week, a month, or the moment at which an hour begins. A session counts
    in every step in which it used the model.
    """

    step: str
    name: str | None
    turns: int
    tokens: int | None
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    successes: int | None
    failures: int | None
    unknown: int | None

    @property
    def worth_usd(self) -> float | None:
        """The cost with what a plan paid for, at list price; None if no price is known."""
        if self.cost_usd is None and not self.included_usd:
            return None
        return (self.cost_usd or 0.0) + self.included_usd


def read_series(
    store: Store, step: TimeStep, by: SeriesKey, chosen: Filter, *, has_outcomes: bool = True
) -> list[SeriesPoint]:
    """Return the figures by time and one other key; hours need a first day.

    Outcomes are unknown unless asked for: counting sessions takes half of the time.
    """
    if step != "hour":
        groups = sum_groups(store, (step, by), chosen, has_outcomes=has_outcomes)
        names = [str(one.keys[step]) for one in groups]
    else:
        from relight.store.queries.hours import sum_hours

        start = find_day_start(cast(str, chosen.since), store.timezone)
        groups = sum_hours(store, by, chosen, start=start, has_outcomes=has_outcomes)
        hours = [cast(int, one.keys["hour"]) for one in groups]
        names = [write_time(start + hour * HOUR_MS) or "" for hour in hours]
    points = zip(names, groups, strict=True)
    return [_make_point(name, by, one, has_outcomes=has_outcomes) for name, one in points]


def _make_point(step: str, by: SeriesKey, one: GroupSums, *, has_outcomes: bool) -> SeriesPoint:
    figures = make_figures(one.sums)
    successes, failures = one.outcomes.successes, one.outcomes.failures
    return SeriesPoint(
        step=step,
        name=cast("str | None", one.keys[by]),
        turns=figures.turns or 0,
        tokens=figures.total_tokens,
        cost_usd=figures.cost_usd,
        included_usd=figures.included_usd or 0.0,
        unpriced_turns=figures.unpriced_turns or 0,
        successes=successes if has_outcomes else None,
        failures=failures if has_outcomes else None,
        unknown=figures.sessions - successes - failures if has_outcomes else None,
    )


def rank_names(points: Sequence[SeriesPoint]) -> list[str | None]:
    """Return the names in the order of their cost at list price, then of their tokens."""
    worth: dict[str | None, tuple[float, int]] = {}
    for one in points:
        usd, tokens = worth.get(one.name, (0.0, 0))
        worth[one.name] = usd + (one.worth_usd or 0.0), tokens + (one.tokens or 0)
    return sorted(worth, key=lambda name: (-worth[name][0], -worth[name][1], name or ""))
