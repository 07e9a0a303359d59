"""Alarms: jobs and models that fail more, or cost more a run, than before, and what changed then.

`alarm_watch` looks at series that have new runs and writes what it finds; everything else reads the
few rows that it wrote. A series is the runs of a job, whatever its model, or those of a model in
several jobs, each compared with its own job. What changed is a model, a skill, an agent, a prompt,
a template, or a tool that fails.
"""

import time
from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError
from relight.stats.alarms import FALSE_ALARMS, FEWEST_RUNS
from relight.store import Store
from relight.store.alarms import (
    AlarmRow,
    acknowledge,
    read_alarm_rows,
    read_last_look,
)
from relight.store.queries import group_rows, take_fields
from relight.store.queries.run_series import RunFact, SeriesRun, read_run_facts
from relight.text import dollars, join_words
from relight.times import read_time, write_time

# runs on either side of the change that are compared
BESIDE = 40
# the true change is rarely further from the named run than this, and mostly before it
EARLIER, LATER = 12, 4
# a switch is clear if so many of ten runs on each side agree
SIDE, AGREEING, FEWEST_BEFORE, FEWEST_AFTER = 10, 0.8, 5, 3
# a tool's failures are named if they are in so many runs more
FEWEST_FAILURES, LEAST_SHARE, TIMES_AS_OFTEN, MOST_TOOLS = 3, 0.25, 3, 2
NOT_USED = "none"
METRICS: tuple["Metric", ...] = ("success", "cost")
_DAY_MS = 86_400_000
SHOWN = 5  # other alarms of the same change in a sentence
Metric = Literal["success", "cost"]


class ChangedFact(Struct, frozen=True, kw_only=True):
    """Something that changed at the same time as a series; `at` is the first run with it."""

    kind: str
    name: str | None
    before: str | None
    after: str | None
    at: str | None
    text: str


def find_changes(
    store: Store, runs: Sequence[SeriesRun], since: int, *, has_model: bool = True
) -> list[ChangedFact]:
    """Return what changed about the runs of a series near a moment; never a cause, only a time."""
    center = sum(run.at < since for run in runs)
    near = runs[max(0, center - BESIDE) : center + BESIDE]
    center -= max(0, center - BESIDE)
    sessions = sorted({run.session_id for run in near if run.session_id is not None})
    facts = group_rows(read_run_facts(store, sessions), lambda one: one.session_id)
    found = []
    for kind, name, values in _list_values(near, facts, has_model=has_model):
        switch = find_switch(values, center)
        if switch is not None:
            place, before, after = switch
            at, day = near[place].at, format_day(near[place].at, store.timezone)
            text = f"On {day} {_describe_change(kind, name, before, after)}"
            found.append(
                ChangedFact(
                    kind=kind,
                    name=name,
                    before=None if before is None else str(before),
                    after=None if after is None else str(after),
                    at=write_time(at),
                    text=text,
                )
            )
    return [*found, *_find_failing_tools(near, facts, center)]


def find_switch(values: Sequence[Hashable], center: int) -> tuple[int, Hashable, Hashable] | None:
    """Return the run near the center from which on a value is another, and both values.

    None is an unknown value. A value that goes to and fro is no switch.

    >>> find_switch(["2.1"] * 20 + ["2.2"] * 9, 24)
    (20, '2.1', '2.2')
    >>> find_switch(["a", "b"] * 15, 15)
    """
    best: tuple[float, int, Hashable, Hashable] | None = None
    for place in range(max(1, center - EARLIER), min(len(values), center + LATER)):
        before = [one for one in values[max(0, place - SIDE) : place] if one is not None]
        after = [one for one in values[place : place + SIDE] if one is not None]
        if len(before) < FEWEST_BEFORE or len(after) < FEWEST_AFTER:
            continue
        (old, olds), (new, news) = (
            Counter(before).most_common(1)[0],
            Counter(after).most_common(1)[0],
        )
        shares = olds / len(before), news / len(after)
        if old == new or min(shares) < AGREEING or values[place] != new:
            continue
        if best is None or sum(shares) > best[0]:
            best = (sum(shares), place, old, new)
    return best and best[1:]


def format_day(at: int, timezone: str) -> str:
    """Return a day as people say it.

    >>> format_day(1793664000000, "UTC")
    '3 Nov 2026'
    """
    moment = datetime.fromtimestamp(at / 1000, ZoneInfo(timezone))
    return f"{moment.day} {moment:%b %Y}"


def _list_values(
    runs: Sequence[SeriesRun], facts: dict[int, list[RunFact]], *, has_model: bool
) -> list[tuple[str, str | None, list[str | None]]]:
    """Return each fact that may have changed, by kind and name, with its value in every run."""
    listed: list[tuple[str, str | None, list[str | None]]] = []
    if has_model:
        listed.append(("model", None, [run.model for run in runs]))
    own = [facts.get(run.session_id or 0, []) for run in runs]
    names = {(one.kind, one.name) for found in own for one in found if one.kind != "tool failure"}
    for kind, name in sorted(names, key=lambda one: (one[0], one[1] or "")):
        values: list[str | None] = []
        for found in own:
            value = next((one.value for one in found if (one.kind, one.name) == (kind, name)), None)
            # a session without a skill or a template has none; one without a version does not say
            is_none = value is None and bool(found) and kind in ("skill", "template")
            values.append(NOT_USED if is_none else value)
        listed.append((kind, name, values))
    return listed


def _describe_change(kind: str, name: str | None, before: Hashable, after: Hashable) -> str:
    if kind == "prompt":
        return "its prompt changed"
    what = {"skill": f"its skill {name}", "agent version": name}.get(kind, f"its {kind}")
    return f"{what} went from {_shorten(before)} to {_shorten(after)}"


def _shorten(value: Hashable) -> str:
    """Return a version in a sentence; of a hash the first digits."""
    text = str(value)
    return text[:15] if text.startswith("sha256:") else text


def _find_failing_tools(
    runs: Sequence[SeriesRun], facts: dict[int, list[RunFact]], center: int
) -> list[ChangedFact]:
    """Return the failures of tools that are in many more runs than before."""
    counts: tuple[Counter[tuple[str | None, str | None]], ...] = (Counter(), Counter())
    sessions = [0, 0]
    for place, run in enumerate(runs):
        if run.session_id is None:
            continue
        side = int(place >= center)
        sessions[side] += 1
        for one in facts.get(run.session_id, []):
            if one.kind == "tool failure":
                counts[side][one.name, one.value] += 1
    found = []
    for (tool, kind), number in counts[1].most_common():
        share, earlier = number / sessions[1], counts[0][tool, kind]
        usual = (earlier + 0.5) / (sessions[0] + 1)
        if number < FEWEST_FAILURES or share < max(LEAST_SHARE, TIMES_AS_OFTEN * usual):
            continue
        text = (
            f"{tool} fails{f' with {kind}' if kind else ''} in {number} of {sessions[1]} runs"
            f" ({earlier} of {sessions[0]} before)"
        )
        found.append(
            ChangedFact(
                kind="tool failure",
                name=tool,
                before=str(earlier),
                after=str(number),
                at=None,
                text=text,
            )
        )
    return found[:MOST_TOOLS]


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
    for place, head in enumerate(joined):
        if head.also:
            names = [scope.replace(":", " ", 1) for scope in head.also]
            shown = join_words(names if len(names) <= SHOWN else [*names[:SHOWN], "others"])
            joined[place] = replace(head, sentence=f"{head.sentence} The same day: {shown}.")
    return sorted(joined, key=lambda one: one.since, reverse=True)


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
    parts = [_describe(row, timezone), *(f"{one.text}." for one in changed), _doubt(series)]
    made = ("since", "raised_at", "changed", "ended_at", "acknowledged_at")
    return Alarm(
        **take_fields(row, Alarm, but=made),
        since=write_time(row.since) or "",
        raised_at=write_time(row.raised_at) or "",
        changed=changed,
        ended_at=write_time(row.ended_at),
        acknowledged_at=write_time(row.acknowledged_at),
        sentence=" ".join(parts),
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
