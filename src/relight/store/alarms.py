"""The table `alarm`, and the runs that were looked at last."""

import msgspec
from msgspec import Struct

from relight.store import Store
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.sql import Connection, find_next_id, insert, set_meta

SEEN = "alarms_seen"
# a job is watched from so many ended runs on
FEWEST_RUNS = 30
_IS_OPEN = "ended_at is null and acknowledged_at is null"
_ENDED_RUNS = f"""
    select job.full_name, (
        select count(finished_at) from run where run.job_id = job.id
    ) + (
        select count(*) from session where {IS_NAMED_AFTER}
    ) as runs
    from job
"""


class AlarmRow(Struct, frozen=True):
    """A row of `alarm`; `changed` is JSON."""

    id: int
    scope: str
    metric: str
    since: int
    raised_at: int
    before: float
    after: float
    runs_before: int
    failures_before: int
    runs_after: int
    failures_after: int
    changed: str = "[]"
    ended_at: int | None = None
    acknowledged_at: int | None = None


class SeenRuns(Struct, frozen=True):
    """The runs that were looked at: the ended ones of each job, and the models of those watched.

    `watched` has the runs with a known outcome by job and model.
    """

    runs: dict[str, int] = {}
    watched: dict[str, dict[str, int]] = {}


def count_ended_runs(store: Store) -> dict[str, int]:
    """Return how many runs of each job have ended."""
    return dict(store.query(_ENDED_RUNS))


def has_new_runs(store: Store) -> bool:
    """True if a run of a job that is watched has ended since the last look."""
    if not store.has_rows("job"):
        return False
    ended = count_ended_runs(store)
    if all(runs < FEWEST_RUNS for runs in ended.values()):
        return False
    seen = read_last_look(store).runs
    return any(runs >= FEWEST_RUNS and runs != seen.get(job) for job, runs in ended.items())


def needs_a_look(store: Store) -> bool:
    """True if an import may have brought a run that alarms or a model on trial wait for."""
    on_trial = "select 1 from canary where state in ('running', 'promoted') limit 1"
    return bool(store.query(on_trial)) or has_new_runs(store)


def read_last_look(store: Store) -> SeenRuns:
    """Return what was looked at last."""
    found = store.find_meta(SEEN)
    return msgspec.json.decode(found, type=SeenRuns) if found else SeenRuns()


def write_seen(store: Store, seen: SeenRuns) -> None:
    """Record what was looked at."""
    with store.transaction() as database:
        set_meta(database, SEEN, msgspec.json.encode(seen).decode())


def find_last_alarm(store: Store, scope: str, metric: str) -> AlarmRow | None:
    """Return the newest alarm of a series."""
    statement = "select * from alarm where scope = ? and metric = ? order by id desc limit 1"
    return store.find(AlarmRow, statement, (scope, metric))


def read_alarm_rows(store: Store, *, is_open: bool = False) -> list[AlarmRow]:
    """Return all alarms, or the open ones, newest first."""
    test = f"where {_IS_OPEN}" if is_open else ""
    return store.read(AlarmRow, f"select * from alarm {test} order by since desc, id desc")


def add_alarm(store: Store, row: AlarmRow) -> AlarmRow | None:
    """Write a new alarm with the next id; None if its series has an open one already."""
    with store.transaction() as database:
        last = find_last_alarm(store, row.scope, row.metric)
        if last and (last.since >= row.since or not (last.ended_at or last.acknowledged_at)):
            return None  # another process was faster
        added = msgspec.structs.replace(row, id=find_next_id(database, "alarm"))
        insert(database, "alarm", [added])
    return added


def update_alarm(store: Store, row: AlarmRow) -> None:
    """Write the later runs of an alarm, and its end, unless it was acknowledged meanwhile."""
    store.write(
        "update alarm set after = ?, runs_after = ?, failures_after = ?, ended_at = ?"
        f" where id = ? and {_IS_OPEN}",
        (row.after, row.runs_after, row.failures_after, row.ended_at, row.id),
    )


def acknowledge(database: Connection, alarm_id: int, *, at: int) -> None:
    """Record that a person has seen an alarm; the first time counts."""
    statement = "update alarm set acknowledged_at = coalesce(acknowledged_at, ?) where id = ?"
    database.execute(statement, (at, alarm_id))
