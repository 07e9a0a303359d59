"""The search for alarms in series that have new runs."""

import math
from collections.abc import Hashable, Sequence
from datetime import datetime
from statistics import median
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.reports.alarms import METRICS, Metric, find_changes, list_jobs, list_models
from relight.stats import alarms as detectors
from relight.stats.alarms import FEWEST_RUNS, SeriesChange
from relight.store import Store
from relight.store import alarms as queries
from relight.store.alarms import AlarmRow, SeenRuns
from relight.store.queries.run_series import SeriesRun, read_job_series, read_model_series

# the newest runs of a series that are looked at
MOST_RUNS = 2000
# a series is frequent, and its weekends are a separate kind, from here on
FREQUENT_RUNS_A_DAY, FREQUENT_DAYS = 4, 14
FEWEST_RUNS_A_YEAR = 50.0
_DAY_MS = 86_400_000


class _Point(Struct, frozen=True):
    """A run of a series whose figure is known."""

    run: SeriesRun
    value: float


def refresh_alarms(store: Store) -> list[int]:
    """Look at the series with new runs; return the ids of new alarms."""
    if not store.can_write or not queries.has_new_runs(store):
        return []
    seen, ended = queries.read_last_look(store), queries.count_ended_runs(store)
    due = [job for job, runs in ended.items() if runs != seen.runs.get(job)]
    watched = {job: models for job, models in seen.watched.items() if job in ended}
    series: dict[str, Sequence[SeriesRun]] = {}
    for job in due:
        if ended[job] >= FEWEST_RUNS:
            runs = read_job_series(store, job, most=MOST_RUNS)
            watched[job] = _count_models(runs)
            series[f"job:{job}"] = runs
    models = list_models(watched)
    for model in models:
        if any(model in watched[job] for job in due if job in watched):
            series[f"model:{model}"] = read_model_series(store, model, most=MOST_RUNS)
    number = len(METRICS) * (len(list_jobs(watched)) + len(models))
    found = [
        raised
        for scope, runs in series.items()
        for metric in METRICS
        for raised in _watch(store, scope, metric, runs, number)
    ]
    queries.write_seen(store, SeenRuns(ended, watched))
    return found


def _count_models(runs: Sequence[SeriesRun]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for run in runs:
        if run.model is not None and run.success is not None:
            counts[run.model] = counts.get(run.model, 0) + 1
    return counts


def _watch(
    store: Store, scope: str, metric: Metric, runs: Sequence[SeriesRun], series: int
) -> list[int]:
    """Follow the open alarm of a series to its end, and find the next ones; return their ids."""
    points = _choose_points(metric, runs)
    raised: list[int] = []
    while True:
        last = queries.find_last_alarm(store, scope, metric)
        if last is not None and last.ended_at is None and last.acknowledged_at is None:
            last = _follow_up(last, points)
            queries.update_alarm(store, last)
            if last.ended_at is None:
                return raised
        part, begin = _choose_part(points, last)
        change = _find_change(metric, part, begin, series, scope=scope, timezone=store.timezone)
        if change is None:
            return raised
        row = _make_row(store, scope, metric, part, change, runs)
        added = queries.add_alarm(store, row)
        if added is None:
            return raised
        raised.append(added.id)


def _choose_points(metric: Metric, runs: Sequence[SeriesRun]) -> list[_Point]:
    """Return the runs whose figure is known: 1 for a failure, or the cost in dollars."""
    if metric == "success":
        return [_Point(run, 1.0 - run.success) for run in runs if run.success is not None]
    return [_Point(run, run.nanos / 1e9) for run in runs if run.nanos]


def _choose_part(points: Sequence[_Point], last: AlarmRow | None) -> tuple[Sequence[_Point], int]:
    """Return the runs that a next change is looked for in, and the first that may show it.

    A change that is over stays in the baseline: without its runs, one that was chance would leave a
    baseline that is too good, and be followed by others. An acknowledged one begins the baseline.
    """
    if last is None:
        return points, 0
    if last.ended_at is not None:
        return points, sum(one.run.at <= last.ended_at for one in points)
    return [one for one in points if one.run.at >= last.since], 0


def _find_change(
    metric: Metric,
    points: Sequence[_Point],
    begin: int,
    series: int,
    *,
    scope: str,
    timezone: str,
) -> SeriesChange | None:
    if len(points) <= FEWEST_RUNS:
        return None
    days = [(one.run.at - points[0].run.at) / _DAY_MS for one in points]
    find_limit = detectors.find_failure_limit if metric == "success" else detectors.find_cost_limit
    limits = [
        find_limit(max(FEWEST_RUNS_A_YEAR, 365 * place / max(day, 1.0)), series)
        for place, day in enumerate(days)
    ]
    are_streams = scope.startswith("model:")
    kinds: Sequence[Hashable] | None = None
    if are_streams:
        kinds = [one.run.job for one in points]
    elif days[-1] >= FREQUENT_DAYS and len(points) / days[-1] >= FREQUENT_RUNS_A_DAY:
        zone = ZoneInfo(timezone)
        kinds = [datetime.fromtimestamp(one.run.at / 1000, zone).weekday() >= 5 for one in points]
    values = [one.value for one in points]
    if metric == "success":
        return detectors.find_more_failures(
            [bool(value) for value in values],
            limits,
            kinds=kinds,
            are_streams=are_streams,
            begin=begin,
        )
    return detectors.find_higher_costs(
        values, days, limits, kinds=kinds, are_streams=are_streams, begin=begin
    )


def _make_row(
    store: Store,
    scope: str,
    metric: Metric,
    points: Sequence[_Point],
    change: SeriesChange,
    runs: Sequence[SeriesRun],
) -> AlarmRow:
    before, after = points[: change.since], points[change.since : change.shown_by + 1]
    since = points[change.since].run.at
    changed = find_changes(store, runs, since, has_model=scope.startswith("job:"))
    return AlarmRow(
        id=0,
        scope=scope,
        metric=metric,
        since=since,
        raised_at=points[change.shown_by].run.at,
        before=_summarise(metric, before),
        after=_summarise(metric, after),
        runs_before=len(before),
        failures_before=_count_failures(before),
        runs_after=len(after),
        failures_after=_count_failures(after),
        changed=msgspec.json.encode(changed).decode(),
    )


def _summarise(metric: Metric, points: Sequence[_Point]) -> float:
    """Return the share of success, or the median cost."""
    values = [one.value for one in points]
    return 1 - sum(values) / len(values) if metric == "success" else median(values)


def _count_failures(points: Sequence[_Point]) -> int:
    return sum(one.run.success == 0 for one in points)


def _follow_up(row: AlarmRow, points: Sequence[_Point]) -> AlarmRow:
    """Return an open alarm with its runs until now, and with its end if it is over."""
    shown = [one for one in points if row.since <= one.run.at <= row.raised_at]
    later = [one for one in points if one.run.at > row.raised_at]
    if not later:
        return row
    values = [one.value for one in later]
    if row.metric == "success":
        failing = sum(one.value for one in shown) / len(shown) if shown else 1 - row.after
        end = detectors.find_end_of_failures(
            [bool(value) for value in values], before=1 - row.before, after=failing
        )
    else:
        dear = median([one.value for one in shown]) if shown else row.after
        end = detectors.find_end_of_costs(
            [math.log(value) for value in values],
            before=math.log(row.before),
            after=math.log(dear),
            spread=max(math.log(dear / row.before), detectors.LEAST_SPREAD),
        )
    if end is not None:
        return replace(row, ended_at=later[end].run.at)
    own = [*shown, *later]
    metric: Metric = "success" if row.metric == "success" else "cost"
    return replace(
        row,
        after=_summarise(metric, own),
        runs_after=len(own),
        failures_after=_count_failures(own),
    )
