"""The brief of the night: runs and sessions since last evening, failures of one cause together."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from relight.reports.alarms import Alarm, read_alarms
from relight.reports.failed_work import FailedWork, list_failed_work
from relight.reports.failures import add_burnt
from relight.store import Store
from relight.store.queries import add_known, group_rows
from relight.store.queries.costs import OtherSessions, sum_sessions_since
from relight.store.queries.filters import Filter
from relight.store.queries.runs import RunReport, read_runs
from relight.text import join_words
from relight.times import format_moment, read_time, write_time

EVENING = 18  # o'clock
MOST_FAILED = 1000
WAITING = ("claimed", "running")
LATEST = "9999"  # later than any time in words


class BriefCause(Struct, frozen=True, kw_only=True):
    """Failed runs and sessions of one cause, and whether another run can help.

    `burnt_usd` is the part of the cost that went into spirals. `next_run_at` is the first of the
    jobs' next runs, `retry` the advice in words, or that the jobs succeeded since. `run_ids` are
    those of the newest failure of each job that can be run again.
    """

    kind: str
    cause: str
    runs: int
    sessions: int
    jobs: list[str]
    last_at: str | None
    evidence: list[str]
    cost_usd: float | None
    unpriced_turns: int
    burnt_usd: float | None
    can_retry: bool | None
    next_run_at: str | None
    retry: str | None
    run_ids: list[str]
    session_ids: list[str]


class Brief(Struct, frozen=True, kw_only=True):
    """The runs and sessions between two moments; `sessions` are those that belong to no run."""

    since: str | None
    until: str | None
    runs: int
    successes: int
    failures: int
    unknown: int
    running: int
    skipped: int
    cost_usd: float | None
    unpriced_turns: int
    sessions: OtherSessions
    causes: list[BriefCause]
    succeeded: list[RunReport]
    alarms: list[Alarm]


def find_last_evening(now: datetime) -> datetime:
    """Return the evening before, in the zone of the moment given.

    >>> find_last_evening(datetime(2026, 11, 16, 7, 30)).isoformat()
    '2026-11-15T18:00:00'
    """
    before = now - timedelta(days=1)
    return before.replace(hour=EVENING, minute=0, second=0, microsecond=0)


def read_brief(
    store: Store,
    *,
    since: int | None = None,
    now: int | None = None,
    slots: Mapping[str, int | None] | None = None,
) -> Brief:
    """Return the brief since a moment, by default since last evening.

    `slots` are the next times of jobs that must wait longer than until their stored next time.
    """
    at = round(time.time() * 1000) if now is None else now
    moment = datetime.fromtimestamp(at / 1000, store.zone)
    start = round(find_last_evening(moment).timestamp() * 1000) if since is None else since
    runs = read_runs(store, since=start)
    ended = [run for run in runs if run.status not in (*WAITING, "skipped")]
    first_day = datetime.fromtimestamp(start / 1000, store.zone).date().isoformat()
    failed = list_failed_work(store, Filter(since=first_day), limit=MOST_FAILED, slots=slots)
    failed = add_burnt(store, [one for one in failed if (read_time(one.at) or 0) >= start])
    alarms = read_alarms(store, is_open=True).alarms if store.has_rows("alarm") else []
    return Brief(
        since=write_time(start),
        until=write_time(at),
        runs=len(ended),
        successes=sum(run.outcome == "success" for run in ended),
        failures=sum(run.outcome == "failure" for run in ended),
        unknown=sum(run.outcome not in ("success", "failure") for run in ended),
        running=sum(run.status in WAITING for run in runs),
        skipped=sum(run.status == "skipped" for run in runs),
        cost_usd=add_known(run.cost_usd for run in ended),
        unpriced_turns=sum(run.unpriced_turns or 0 for run in ended),
        sessions=sum_sessions_since(store, start),
        causes=[_add_recovery(one, ended, store.timezone) for one in group_causes(failed)],
        succeeded=[run for run in ended if run.outcome == "success"],
        alarms=[one for one in alarms if (read_time(one.raised_at) or 0) >= start],
    )


def group_causes(failed: Sequence[FailedWork]) -> list[BriefCause]:
    """Return failures by cause, newest first in each; the cause with most failures comes first."""
    alike = group_rows(failed, lambda one: (one.kind, one.cause))
    found = [_show_cause(own) for own in alike.values()]
    return sorted(found, key=lambda one: -(one.runs + one.sessions))


def _show_cause(own: Sequence[FailedWork]) -> BriefCause:
    runs = [one for one in own if one.what == "run"]
    newest: dict[str, FailedWork] = {}
    for one in runs:
        # other schedulers' runs, which have a source before their name, cannot be run from here
        if one.job is not None and ":" not in one.job:
            newest.setdefault(one.job, one)
    can = {one.can_retry for one in runs}
    advised = [one for one in runs if one.retry]
    soonest = min(advised, key=lambda one: one.next_run_at or LATEST, default=None)
    return BriefCause(
        kind=own[0].kind,
        cause=own[0].cause,
        runs=len(runs),
        sessions=len(own) - len(runs),
        jobs=list(dict.fromkeys(one.name for one in runs if one.name)),
        last_at=own[0].at,
        evidence=own[0].evidence,
        cost_usd=add_known(one.cost_usd for one in own),
        unpriced_turns=sum(one.unpriced_turns for one in own),
        burnt_usd=add_known(one.burnt_usd for one in own),
        can_retry=can.pop() if len(can) == 1 else None,
        next_run_at=min((one.next_run_at for one in runs if one.next_run_at), default=None),
        retry=soonest.retry if soonest else None,
        run_ids=[one.run_id for one in newest.values() if one.run_id and one.retry],
        session_ids=list(dict.fromkeys(one.session_id for one in own if one.session_id)),
    )


def _add_recovery(cause: BriefCause, ended: Sequence[RunReport], timezone: str) -> BriefCause:
    """Return a cause that says so if its jobs have succeeded since."""
    since = {
        run.name: run.started_at
        for run in ended
        if run.outcome == "success" and (run.started_at or "") > (cause.last_at or "")
    }
    if cause.retry or not cause.jobs or not since.keys() >= set(cause.jobs):
        return cause
    at = format_moment(read_time(min(since[one] or "" for one in cause.jobs)) or 0, timezone)
    return replace(cause, retry=f"{join_words(cause.jobs)} succeeded since, at {at}")
