"""Alarms: jobs and models that fail more, or cost more a run, than before.

`alarm_watch` looks at series that have new runs and writes what it finds; everything else reads the
few rows that it wrote. A series is the runs of a job, whatever its model, or those of a model in
several jobs, each compared with its own job.
"""

import time
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError
from relight.reports.alarm_causes import ChangedFact, format_day
from relight.stats.alarms import FALSE_ALARMS, FEWEST_RUNS
from relight.store import Store
from relight.store.alarms import (
    AlarmRow,
    acknowledge,
    read_alarm_rows,
    read_last_look,
)
from relight.text import dollars, join_words
from relight.times import read_time, write_time

METRICS: tuple["Metric", ...] = ("success", "cost")
_DAY_MS = 86_400_000
SHOWN = 5  # other alarms of the same change in a sentence

Metric = Literal["success", "cost"]


class Alarm(Struct, frozen=True, kw_only=True):
    """A change for the worse, its likely first moment, and what changed at the same time.

    `before` and `after` are shares of success, or median costs of a run in dollars.
    """

    id: int
    scope: str
    metric: Metric
    since: str
    raised_at: str
    before: float
    after: float
    runs_before: int
    failures_before: int
    runs_after: int
    failures_after: int
    changed: list[ChangedFact]
    ended_at: str | None
    acknowledged_at: str | None
    sentence: str
    # other open alarms of the same day that have the same change; acknowledged with this one
    also: list[str] = []
    also_ids: list[int] = []


class AlarmList(Struct, frozen=True):
    """Alarms, newest first, and how many series are watched."""

    alarms: list[Alarm]
    series: int


def read_alarms(store: Store, *, is_open: bool = False) -> AlarmList:
    """Return all alarms, newest first, or the open ones, of which those of one change are one."""
    watched = read_last_look(store).watched
    series = len(METRICS) * (len(list_jobs(watched)) + len(list_models(watched)))
    rows = read_alarm_rows(store, is_open=is_open)
    found = [_show(row, store.timezone, series) for row in rows]
    return AlarmList(_join(found, watched) if is_open else found, series)


def _join(alarms: Sequence[Alarm], watched: dict[str, dict[str, int]]) -> list[Alarm]:
    """Return alarms with those of the same change added to the first; a model's comes first."""
    joined: list[Alarm] = []
    for one in sorted(alarms, key=lambda one: one.scope.startswith("job:")):
        for place, head in enumerate(joined):
            if _is_same_change(head, one, watched):
                joined[place] = replace(
                    head, also=[*head.also, one.scope], also_ids=[*head.also_ids, one.id]
                )
                break
        else:
            joined.append(one)
    return sorted((_add_others(one) for one in joined), key=lambda one: one.since, reverse=True)


def _is_same_change(head: Alarm, one: Alarm, watched: dict[str, dict[str, int]]) -> bool:
    """True if two alarms began within a day, on a model and its job or with the same change."""
    apart = abs((read_time(head.since) or 0) - (read_time(one.since) or 0))
    if head.metric != one.metric or apart > _DAY_MS:
        return False
    kind, _, model = head.scope.partition(":")
    if kind == "model" and model in watched.get(one.scope.partition(":")[2], {}):
        return True
    facts = [
        {(c.kind, c.name, c.before, c.after) for c in two.changed if c.at} for two in (head, one)
    ]
    return bool(facts[0] & facts[1])


def _add_others(one: Alarm) -> Alarm:
    if not one.also:
        return one
    names = [scope.replace(":", " ", 1) for scope in one.also]
    shown = join_words(names if len(names) <= SHOWN else [*names[:SHOWN], "others"])
    return replace(one, sentence=f"{one.sentence} The same day: {shown}.")


def read_id(text: str) -> int:
    """Return the id of an alarm as typed; raise if it is not a number."""
    if not text.isdecimal() or len(text) > 9:
        raise _refuse(text)
    return int(text)


def acknowledge_alarm(store: Store, alarm_id: int, *, now: int | None = None) -> Alarm:
    """Record that a person has seen an alarm: what it found is the usual state from then on."""
    at = round(time.time() * 1000) if now is None else now
    alike = [one for one in read_alarms(store, is_open=True).alarms if one.id == alarm_id]
    with store.transaction() as database:
        for one in (alarm_id, *(other for head in alike for other in head.also_ids)):
            acknowledge(database, one, at=at)
    found = [one for one in read_alarms(store).alarms if one.id == alarm_id]
    if not found:
        raise _refuse(alarm_id)
    return found[0]


def _refuse(alarm_id: object) -> MissingError:
    return MissingError(f"there is no alarm {alarm_id}", "`relight alarms --all` lists them")


def list_jobs(watched: dict[str, dict[str, int]]) -> list[str]:
    return [job for job, models in watched.items() if sum(models.values()) >= FEWEST_RUNS]


def list_models(watched: dict[str, dict[str, int]]) -> list[str]:
    """Return the models that ran several jobs often enough; that of one job is in its series."""
    jobs: dict[str, list[int]] = {}
    for models in watched.values():
        for model, runs in models.items():
            jobs.setdefault(model, []).append(runs)
    return [model for model, runs in jobs.items() if len(runs) > 1 and sum(runs) >= FEWEST_RUNS]


def _show(row: AlarmRow, timezone: str, series: int) -> Alarm:
    changed = msgspec.json.decode(row.changed, type=list[ChangedFact])
    return Alarm(
        id=row.id,
        scope=row.scope,
        metric="success" if row.metric == "success" else "cost",
        since=write_time(row.since) or "",
        raised_at=write_time(row.raised_at) or "",
        before=row.before,
        after=row.after,
        runs_before=row.runs_before,
        failures_before=row.failures_before,
        runs_after=row.runs_after,
        failures_after=row.failures_after,
        changed=changed,
        ended_at=write_time(row.ended_at),
        acknowledged_at=write_time(row.acknowledged_at),
        sentence=" ".join(
            [_describe(row, timezone), *(f"{one.text}." for one in changed), _doubt(series)]
        ),
    )


def _describe(row: AlarmRow, timezone: str) -> str:
    """Return what was found, without its causes."""
    day = format_day(row.since, timezone)
    kind, _, name = row.scope.partition(":")
    who = name if kind == "job" else f"{name} in all its jobs"
    ended = (
        f" It was as before again on {format_day(row.ended_at, timezone)}." if row.ended_at else ""
    )
    if row.metric == "success":
        return (
            f"Since about {day} {who} fails more: {row.failures_after:,} of {row.runs_after:,}"
            f" runs, {row.failures_before:,} of {row.runs_before:,} before.{ended}"
        )
    return (
        f"Since about {day} a run of {who} costs {row.after / row.before:.1f} times as much:"
        f" {dollars(row.after)}, {dollars(row.before)} before (median of {row.runs_after:,} and"
        f" {row.runs_before:,} runs).{ended}"
    )


def _doubt(series: int) -> str:
    if series > FALSE_ALARMS:
        return f"Chance makes such an alarm about once a month over all {series} series."
    return f"Chance makes such an alarm at most {series} times a year over all {series} series."
