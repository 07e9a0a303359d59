"""Budgets: what was spent in the running day, week or month, and what it will end with.

The projection draws the rest of the period from the last weeks: see docs/decisions.
"""

import os
import re
import shlex
import time
import zlib
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from msgspec import Struct

from relight.errors import MissingError, RelightError, as_typed
from relight.reports.filters import find_jobs, is_in_project, read_filter
from relight.stats.projection import DrawGroup, ProjectedSum, project_sum
from relight.store import Store
from relight.store import budgets as rows
from relight.store.budgets import BudgetRow
from relight.store.queries.filters import Filter, find_day_start, find_first_day
from relight.text import dollars
from relight.times import format_moment, write_time

Period = Literal["day", "week", "month"]
BudgetStanding = Literal["ok", "projected_over", "over"]

PERIODS: tuple[Period, ...] = get_args(Period)
AMOUNT = re.compile(r"\$?(\d{1,9}(?:\.\d{1,9})?)/(day|week|month)", re.ASCII)
HISTORY_DAYS = 28
# with fewer days before today nothing is projected; weekdays and weekends apart only with these
LEAST_DAYS, LEAST_ALIKE = 3, 5
# the variable by which an agent goes on in spite of its budgets
SWITCH = "RELIGHT_BUDGET"


class BudgetState(Struct, frozen=True, kw_only=True):
    """A budget and its running period. The range holds the end of the period 8 times of 10.

    Projections are None if fewer than three days are recorded before today. With unpriced turns
    the sums are lower bounds. What a plan includes is not spent.
    """

    scope: str
    period: Period
    limit_usd: float
    spent_usd: float
    unpriced_turns: int
    projected_usd: float | None
    projected_low_usd: float | None
    projected_high_usd: float | None
    state: BudgetStanding
    # agents are stopped when it is used up
    stops: bool
    started_at: str | None
    ends_at: str | None


class BudgetList(Struct, frozen=True):
    """All budgets with their running periods."""

    budgets: list[BudgetState]


class _Span(Struct, frozen=True):
    """The days of a running period, the first one after it, and today."""

    first: date
    after: date
    today: date


def read_budgets(store: Store, *, now: float | None = None) -> BudgetList:
    """Return every budget with what was spent and what is projected."""
    at = time.time() if now is None else now
    return BudgetList([_examine(store, row, now=at) for row in rows.read_rows(store)])


def parse_amount(text: str) -> tuple[int, Period]:
    """Return the nano-dollars and the period of `5/day`, `$20/week` or `99.50/month`."""
    found = AMOUNT.fullmatch(text.strip())
    nanos = round(float(found[1]) * 1e9) if found else 0
    if found is None or not nanos:
        raise RelightError(
            f"{text!r} is not an amount a period", "write dollars: 5/day, 20/week or 99.50/month"
        )
    return nanos, next(one for one in PERIODS if one == found[2])


def make_scope(
    store: Store,
    *,
    project: str | None = None,
    source: str | None = None,
    job: str | None = None,
) -> str:
    """Return the scope of at most one of these; raise for a source or a job that is not known."""
    given = {
        kind: name
        for kind, name in {"project": project, "source": source, "job": job}.items()
        if name
    }
    if len(given) > 1:
        raise RelightError("a budget has one scope", "give one of --project, --source and --job")
    if job:
        names = find_jobs(store, job)
        if len(names) > 1:
            raise RelightError(f"{job!r} names {len(names)} jobs", f"name one: {', '.join(names)}")
        return f"job:{names[0]}"
    if source:
        read_filter(store, source=source)
    return next((f"{kind}:{name}" for kind, name in given.items()), "all")


def check_project(store: Store, name: str) -> None:
    """Raise if no session ran in a project of this name and no folder has it: nothing would count.

    A folder may get its budget before its first session.
    """
    if find_first_day(store, _choose(f"project:{name}")) or Path(name.strip('"')).is_dir():
        return
    from relight.reports.narrowing import find_near

    near = find_near(store, "project", name)
    raise MissingError(
        f"no session ran in a project {name!r}",
        f"did you mean {near!r}?" if near else "name its folder",
    )


def set_limit(store: Store, scope: str, text: str, *, stops: bool) -> None:
    """Set the budget of a scope from `5/day`; another amount of the same period is replaced."""
    nanos, period = parse_amount(text)
    rows.set_budget(store, BudgetRow(scope, period, nanos, int(stops)))


def remove_limit(store: Store, scope: str, period: str) -> None:
    """Remove the budget of a scope and period; raise if there is none."""
    if not rows.remove_budget(store, scope, period):
        raise RelightError(
            f"there is no budget a {period} for {describe_scope(scope)}",
            "`relight budget` lists them",
        )


def describe_scope(scope: str) -> str:
    """Return a scope in words.

    >>> describe_scope("all"), describe_scope("project:/home/dev/shop")
    ('everything', 'the project /home/dev/shop')
    """
    kind, _, name = scope.partition(":")
    return f"the {kind} {name}" if name else "everything"


def describe_budget(budget: BudgetState) -> str:
    """Return one sentence on a budget that is over or projected over."""
    limit, spent = dollars(budget.limit_usd), dollars(budget.spent_usd)
    name = f"The budget of {limit} a {budget.period} for {describe_scope(budget.scope)}"
    if budget.state == "over":
        return f"{name} is used up: {spent} spent"
    low, high = (dollars(one) for one in (budget.projected_low_usd, budget.projected_high_usd))
    end = dollars(budget.projected_usd)
    return f"{name} will be exceeded: {spent} spent, {end} at the end ({low} to {high})"


def find_stop(
    store: Store,
    *,
    source: str | None,
    project: str | None,
    job: str | None = None,
    now: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """Return why an agent must not go on: a budget with a stop that is used up; None if it may.

    Nothing is projected, so that it takes a millisecond.
    """
    if (os.environ if environment is None else environment).get(SWITCH) == "off":
        return None
    at = time.time() if now is None else now
    for row in rows.read_rows(store):
        kind, _, name = row.scope.partition(":")
        mine = {
            "all": True,
            "source": name == source,
            "project": is_in_project(project, name),
            "job": name == job,
        }
        if not (row.stops and mine[kind]):
            continue
        span = _find_span(row.period, now=at, timezone=store.timezone)
        spent = rows.read_spent(store, _choose(row.scope, span))
        if spent.cost_nanos >= row.limit_nanos:
            return _describe_stop(store, row, spent.cost_nanos, span)
    return None


def _describe_stop(store: Store, row: BudgetRow, nanos: int, span: _Span) -> str:
    limit, spent = dollars(row.limit_nanos / 1e9), dollars(nanos / 1e9)
    again = format_moment(find_day_start(span.after.isoformat(), store.timezone), store.timezone)
    kind, _, name = row.scope.partition(":")
    option = f" --{kind} {shlex.quote(name)}" if name else ""
    command = as_typed(f"relight budget set AMOUNT/{row.period}{option} --stop")
    return (
        f"Relight's budget of {limit} a {row.period} for {describe_scope(row.scope)} is used up:"
        f" {spent} spent. The next {row.period} begins {again}. To go on, raise it with"
        f" `{command}`, or start the agent with {SWITCH}=off."
    )


def _examine(store: Store, row: BudgetRow, *, now: float) -> BudgetState:
    span = _find_span(row.period, now=now, timezone=store.timezone)
    spent = rows.read_spent(store, _choose(row.scope, span))
    projected = _project(store, row, span, spent.cost_nanos / 1e9, now=now)
    state: BudgetStanding = "ok"
    if spent.cost_nanos >= row.limit_nanos:
        state = "over"
    elif projected is not None and projected.value > row.limit_nanos / 1e9:
        state = "projected_over"
    first, after = (
        write_time(find_day_start(day.isoformat(), store.timezone))
        for day in (span.first, span.after)
    )
    return BudgetState(
        scope=row.scope,
        period=next(one for one in PERIODS if one == row.period),
        limit_usd=row.limit_nanos / 1e9,
        spent_usd=spent.cost_nanos / 1e9,
        unpriced_turns=spent.unpriced_turns,
        projected_usd=None if projected is None else round(projected.value, 6),
        projected_low_usd=None if projected is None else round(projected.low, 6),
        projected_high_usd=None if projected is None else round(projected.high, 6),
        state=state,
        stops=bool(row.stops),
        started_at=first,
        ends_at=after,
    )


def _project(
    store: Store, row: BudgetRow, span: _Span, spent: float, *, now: float
) -> ProjectedSum | None:
    """Return what a period will end with; None if too few days are recorded before today."""
    chosen = _choose(row.scope)
    begin = find_first_day(store, chosen)
    earliest = span.today - timedelta(days=HISTORY_DAYS)
    first = max(date.fromisoformat(begin), earliest) if begin else span.today
    past = [first + timedelta(days=number) for number in range((span.today - first).days)]
    if len(past) < LEAST_DAYS:
        return None
    known = {
        one.day: one.cost_nanos / 1e9
        for one in rows.read_day_costs(
            store, _choose(row.scope, _Span(first, span.today, span.today))
        )
    }
    clock = datetime.fromtimestamp(now, store.zone).time()
    zone = store.zone
    like_today = _alike(past, span.today)
    moments = {
        day.isoformat(): round(datetime.combine(day, clock, zone).timestamp() * 1000)
        for day in like_today
    }
    later = rows.read_later_costs(
        store, _choose(row.scope, _Span(first, span.today, span.today)), moments
    )
    groups = [DrawGroup([later.get(day.isoformat(), 0) / 1e9 for day in like_today])]
    ahead = [
        span.today + timedelta(days=number) for number in range(1, (span.after - span.today).days)
    ]
    for is_weekend in (False, True):
        days = [day for day in ahead if _is_weekend(day) == is_weekend]
        if days:
            values = [known.get(day.isoformat(), 0.0) for day in _alike(past, days[0])]
            groups.append(DrawGroup(values, len(days)))
    seed = zlib.crc32(f"{row.scope} {row.period} {span.today}".encode())
    return project_sum(spent, groups, seed=seed)


def _alike(past: list[date], day: date) -> list[date]:
    """Return the past days that are weekdays or weekends like a day; all if they are too few."""
    same = [one for one in past if _is_weekend(one) == _is_weekend(day)]
    return same if len(same) >= LEAST_ALIKE else past


def _is_weekend(day: date) -> bool:
    return day.weekday() >= 5


def _find_span(period: str, *, now: float, timezone: str) -> _Span:
    today = datetime.fromtimestamp(now, ZoneInfo(timezone)).date()
    if period == "day":
        return _Span(today, today + timedelta(days=1), today)
    if period == "week":
        monday = today - timedelta(days=today.weekday())
        return _Span(monday, monday + timedelta(days=7), today)
    first = today.replace(day=1)
    return _Span(first, (first + timedelta(days=32)).replace(day=1), today)


def _choose(scope: str, span: _Span | None = None) -> Filter:
    """Return the filter of a scope and of the days of a span."""
    kind, _, name = scope.partition(":")
    return Filter(
        since=span.first.isoformat() if span else None,
        until=(span.after - timedelta(days=1)).isoformat() if span else None,
        source=name if kind == "source" else None,
        project=name if kind == "project" else None,
        jobs=(name,) if kind == "job" else (),
    )
