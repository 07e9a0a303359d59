"""Experiments and their runs in the store; each run is recorded before it begins."""

import time
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError, RelightError
from relight.store import Store
from relight.store import experiments as rows
from relight.work.experiments.plan import ExperimentPlan, check_experiment_name, check_plan
from relight.work.jobs.leases import is_alive

Status = Literal["running", "stopped", "done"]
# how a running experiment is to stop
AFTER_RUN, AT_ONCE = 1, 2


class Experiment(Struct, frozen=True):
    """An experiment: its plan and its state."""

    id: int
    name: str
    plan: ExperimentPlan
    status: str
    note: str | None
    holder: str | None
    lease_until: int | None
    stop: int
    created_at: int
    ended_at: int | None


def add_experiment(store: Store, name: str, plan: ExperimentPlan, *, now: int) -> Experiment:
    """Record a new experiment; raise if the name is taken, since a plan cannot change."""
    check_experiment_name(name)
    definition = msgspec.json.encode(check_plan(plan)).decode()
    with store.transaction() as database:
        if not rows.insert_experiment(database, name, definition, now=now):
            raise RelightError(
                f"there is an experiment {name!r} already",
                f"`relight experiment start {name}` continues it; give another name",
            )
    return find_experiment(store, name)


def change_limits(
    store: Store, name: str, *, budget_usd: float | None, budget_tokens: int | None
) -> Experiment:
    """Change the budgets of an experiment, the only part of its plan that may change."""
    found = find_experiment(store, name)
    usd = found.plan.budget_usd if budget_usd is None else budget_usd
    tokens = found.plan.budget_tokens if budget_tokens is None else budget_tokens
    plan = check_plan(replace(found.plan, budget_usd=usd, budget_tokens=tokens))
    rows.update_definition(store, found.id, msgspec.json.encode(plan).decode())
    return find_experiment(store, name)


def find_experiment(store: Store, name: str) -> Experiment:
    """Return the experiment of a name; raise if it does not exist."""
    found = read_experiments(store, name)
    if not found:
        raise MissingError(
            f"there is no experiment {name!r}", "`relight experiment list` shows them"
        )
    return found[0]


def read_experiments(store: Store, name: str | None = None) -> list[Experiment]:
    """Return all experiments, newest first, or the one of a name."""
    return rows.read_experiment_rows(store, Experiment, _read_plan, name)


def _read_plan(definition: str) -> ExperimentPlan:
    return msgspec.json.decode(definition, type=ExperimentPlan)


def is_running(store: Store, experiment: Experiment, *, now: int) -> bool:
    """True if a live process runs the experiment."""
    return (
        experiment.status == "running"
        and experiment.holder is not None
        and is_alive(
            store.config.home, experiment.holder, lease_until=experiment.lease_until, now=now
        )
    )


def claim(store: Store, name: str, holder: str, *, now: int) -> Experiment:
    """Take an experiment for this process; raise if another process runs it."""
    with store.transaction() as database:
        found = find_experiment(store, name)
        if is_running(store, found, now=now):
            raise RelightError(
                f"{name} is being run already, by {found.holder}",
                f"`relight experiment stop {name}` ends it",
            )
        rows.claim_experiment(database, found.id, holder)
    return find_experiment(store, name)


def ask_stop(store: Store, name: str, *, at_once: bool, now: int) -> bool:
    """Ask the process that runs an experiment to stop; False if no process runs it."""
    found = find_experiment(store, name)
    if not is_running(store, found, now=now):
        if found.status == "running":  # its process was killed
            rows.release_experiment(
                store, found.id, status="stopped", note="its process was killed", now=now
            )
        return False
    rows.request_stop(store, found.id, AT_ONCE if at_once else AFTER_RUN)
    return True


def delete_experiment(store: Store, name: str, *, now: int) -> None:
    """Delete an experiment with its runs; their sessions stay."""
    found = find_experiment(store, name)
    if is_running(store, found, now=now):
        raise RelightError(f"{name} is being run", f"`relight experiment stop {name}` ends it")
    rows.delete_experiment_rows(store, found.id)


def read_stop(store: Store, experiment_id: int) -> int:
    """Return how an experiment is asked to stop: 0, AFTER_RUN or, if it is gone, AT_ONCE."""
    stop = rows.find_stop_request(store, experiment_id)
    return AT_ONCE if stop is None else stop


def now_ms() -> int:
    """Return the present in Unix milliseconds."""
    return int(time.time() * 1000)
