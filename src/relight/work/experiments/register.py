"""Experiments and their runs on record: each written down before it begins, and when it is done."""

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError, RelightError
from relight.store import Store
from relight.work.experiments.plan import Plan, check_name, check_plan
from relight.work.jobs.leases import is_alive

Status = Literal["running", "stopped", "done"]
RunStatus = Literal["running", "done", "interrupted", "skipped"]
# how an experiment that is running is to stop
AFTER_RUN, AT_ONCE = 1, 2
_COLUMNS = "id, name, definition, status, note, holder, lease_until, stop, created_at, ended_at"
_RUN_COLUMNS = (
    "task, round, arm, status, attempts, session, sessions, outcome, evidence, template,"
    " similarity, cost_nanos, tokens, duration_ms, started_at, finished_at"
)


class Experiment(Struct, frozen=True, kw_only=True):
    """An experiment: what was asked for, and how it stands."""

    id: int
    name: str
    plan: Plan
    status: Status
    note: str | None
    holder: str | None
    lease_until: int | None
    stop: int
    created_at: int
    ended_at: int | None


class Run(Struct, frozen=True, kw_only=True):
    """One task in one arm. `sessions` are all that it took, `session` the one that counts."""

    task: str
    round: int
    arm: str
    status: RunStatus
    attempts: int
    session: str | None
    sessions: list[str]
    outcome: str | None
    evidence: list[str]
    template: str | None
    similarity: float | None
    cost_nanos: int | None
    tokens: int | None
    duration_ms: int | None
    started_at: int
    finished_at: int | None


def add_experiment(store: Store, name: str, plan: Plan, *, now: int) -> Experiment:
    """Keep a new experiment; a name that is taken is an error, since its plan cannot change."""
    check_name(name)
    check_plan(plan)
    definition = msgspec.json.encode(plan).decode()
    with store.transaction() as database:
        if database.execute("select 1 from experiment where name = ?", (name,)).fetchone():
            raise RelightError(
                f"there is an experiment {name!r} already",
                f"`relight experiment start {name}` goes on with it; give another name",
            )
        database.execute(
            "insert into experiment (name, definition, status, created_at)"
            " values (?, ?, 'stopped', ?)",
            (name, definition, now),
        )
    return find_experiment(store, name)


def change_limits(
    store: Store, name: str, *, budget_usd: float | None, budget_tokens: int | None
) -> Experiment:
    """Give an experiment other budgets, the only part of its plan that may change."""
    found = find_experiment(store, name)
    usd = found.plan.budget_usd if budget_usd is None else budget_usd
    tokens = found.plan.budget_tokens if budget_tokens is None else budget_tokens
    plan = check_plan(replace(found.plan, budget_usd=usd, budget_tokens=tokens))
    with store.transaction() as database:
        database.execute(
            "update experiment set definition = ? where id = ?",
            (msgspec.json.encode(plan).decode(), found.id),
        )
    return find_experiment(store, name)


def find_experiment(store: Store, name: str) -> Experiment:
    """The experiment of a name."""
    rows = store.query(f"select {_COLUMNS} from experiment where name = ?", (name,))
    if not rows:
        raise MissingError(
            f"there is no experiment {name!r}", "`relight experiment list` shows them"
        )
    return _make(rows[0])


def read_experiments(store: Store) -> list[Experiment]:
    """All experiments, the newest first."""
    rows = store.query(f"select {_COLUMNS} from experiment order by created_at desc, id desc")
    return [_make(row) for row in rows]


def _make(row: tuple[Any, ...]) -> Experiment:
    known = dict(zip(_COLUMNS.split(", "), row, strict=True))
    plan = msgspec.json.decode(known.pop("definition"), type=Plan)
    return Experiment(plan=plan, **known)


def read_runs(store: Store, experiment_id: int) -> list[Run]:
    """The runs that were begun or skipped, in the order they began."""
    rows = store.query(
        f"select {_RUN_COLUMNS} from experiment_run where experiment_id = ?"
        " order by started_at, task, arm",
        (experiment_id,),
    )
    names = [name.strip() for name in _RUN_COLUMNS.split(",")]
    runs = []
    for row in rows:
        known = dict(zip(names, row, strict=True))
        for name in ("sessions", "evidence"):
            known[name] = msgspec.json.decode(known[name] or "[]")
        runs.append(Run(**known))
    return runs


def is_running(store: Store, experiment: Experiment, *, now: int) -> bool:
    """Whether a process is at it, and still alive."""
    return (
        experiment.status == "running"
        and experiment.holder is not None
        and is_alive(
            store.config.home, experiment.holder, lease_until=experiment.lease_until, now=now
        )
    )


def claim(store: Store, name: str, holder: str, *, now: int) -> Experiment:
    """Make an experiment this process' own; what a dead one was at counts as interrupted."""
    with store.transaction() as database:
        found = find_experiment(store, name)
        if is_running(store, found, now=now):
            raise RelightError(
                f"{name} is being run already, by {found.holder}",
                f"`relight experiment stop {name}` ends it",
            )
        database.execute(
            "update experiment set status = 'running', note = null, holder = ?, stop = 0,"
            " ended_at = null where id = ?",
            (holder, found.id),
        )
        database.execute(
            "update experiment_run set status = 'interrupted'"
            " where experiment_id = ? and status = 'running'",
            (found.id,),
        )
    return find_experiment(store, name)


def begin_run(
    store: Store,
    experiment: Experiment,
    key: tuple[str, int, str],
    *,
    template: str | None,
    similarity: float | None,
    lease_until: int,
    now: int,
) -> None:
    """Put a run on record before its work begins."""
    with store.transaction() as database:
        database.execute(
            "update experiment set lease_until = ? where id = ?", (lease_until, experiment.id)
        )
        database.execute(
            "insert into experiment_run (experiment_id, task, round, arm, status, attempts,"
            " sessions, template, similarity, started_at)"
            " values (?, ?, ?, ?, 'running', 0, '[]', ?, ?, ?)"
            " on conflict do update set status = 'running', template = excluded.template,"
            " similarity = excluded.similarity, started_at = excluded.started_at",
            (experiment.id, *key, template, similarity, now),
        )


def note_attempt(
    store: Store, experiment: Experiment, key: tuple[str, int, str], session: str | None
) -> None:
    """Count an attempt, with the session that it will have where that is known."""
    where = "experiment_id = ? and task = ? and round = ? and arm = ?"
    with store.transaction() as database:
        (known,) = database.execute(
            f"select sessions from experiment_run where {where}", (experiment.id, *key)
        ).fetchone()
        sessions = [*msgspec.json.decode(known), *([session] if session else [])]
        database.execute(
            f"update experiment_run set attempts = attempts + 1, sessions = ? where {where}",
            (msgspec.json.encode(sessions).decode(), experiment.id, *key),
        )


def finish_run(
    store: Store,
    experiment: Experiment,
    key: tuple[str, int, str],
    *,
    status: RunStatus,
    session: str | None = None,
    sessions: list[str] | None = None,
    outcome: str | None = None,
    evidence: list[str] | None = None,
    cost_nanos: int | None = None,
    tokens: int | None = None,
    duration_ms: int | None = None,
    now: int,
) -> None:
    """Write down what came of a run."""
    told = msgspec.json.encode(evidence or []).decode()
    left = None if sessions is None else msgspec.json.encode(sessions).decode()
    with store.transaction() as database:
        database.execute(
            "update experiment_run set status = ?, session = ?, sessions = coalesce(?, sessions),"
            " outcome = ?, evidence = ?, cost_nanos = ?, tokens = ?, duration_ms = ?,"
            " finished_at = ?"
            " where experiment_id = ? and task = ? and round = ? and arm = ?",
            (
                *(status, session, left, outcome, told, cost_nanos, tokens, duration_ms, now),
                *(experiment.id, *key),
            ),
        )


def close(
    store: Store, experiment: Experiment, status: Status, *, note: str | None, now: int
) -> None:
    """Let go of an experiment that has ended or stands still."""
    with store.transaction() as database:
        database.execute(
            "update experiment set status = ?, note = ?, holder = null, lease_until = null,"
            " stop = 0, ended_at = ? where id = ?",
            (status, note, now, experiment.id),
        )


def ask_stop(store: Store, name: str, *, at_once: bool, now: int) -> bool:
    """Ask the process that runs an experiment to stop; False if none does."""
    found = find_experiment(store, name)
    if not is_running(store, found, now=now):
        if found.status == "running":  # it was killed
            close(store, found, "stopped", note="its process was killed", now=now)
        return False
    with store.transaction() as database:
        database.execute(
            "update experiment set stop = max(stop, ?) where id = ?",
            (AT_ONCE if at_once else AFTER_RUN, found.id),
        )
    return True


def delete_experiment(store: Store, name: str, *, now: int) -> None:
    """Delete an experiment with its runs; the sessions that they left stay."""
    found = find_experiment(store, name)
    if is_running(store, found, now=now):
        raise RelightError(f"{name} is being run", f"`relight experiment stop {name}` ends it")
    with store.transaction() as database:
        database.execute("delete from experiment_run where experiment_id = ?", (found.id,))
        database.execute("delete from experiment where id = ?", (found.id,))


def read_stop(store: Store, experiment_id: int) -> int:
    rows = store.query("select stop from experiment where id = ?", (experiment_id,))
    return int(rows[0][0]) if rows else AT_ONCE
