"""Experiments in the store: their plans, states, budgets and spending."""

import time
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError, RelightError
from relight.model import Usage
from relight.store import Store
from relight.store import experiments as rows
from relight.store.experiments import TrialRun, read_trial_runs
from relight.times import write_time
from relight.work.experiments.plan import ExperimentPlan, check_experiment_name, check_plan
from relight.work.jobs.leases import is_alive
from relight.work.jobs.spending import add_figures, sum_known

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


class StoppedExperiment(Struct, frozen=True):
    """An experiment that was asked to stop, and how many of its runs are done."""

    name: str
    was_running: bool
    status: str
    note: str | None
    runs_done: int
    runs_planned: int


class ExperimentSummary(Struct, frozen=True, kw_only=True):
    """An experiment in one line."""

    name: str
    arms: list[str]
    tasks: int
    runner: str
    status: str
    note: str | None
    runs_done: int
    runs_planned: int
    cost_usd: float | None
    tokens: int | None
    created_at: str | None
    ended_at: str | None


class ExperimentList(Struct, frozen=True):
    """All experiments, newest first."""

    experiments: list[ExperimentSummary]


class ExperimentSpending(Struct, frozen=True, kw_only=True):
    """Dollars and tokens of all runs and of the most expensive one; runs of unknown cost."""

    usd: float = 0.0
    tokens: int = 0
    largest_usd: float = 0.0
    largest_tokens: int = 0
    unpriced: int = 0
    uncounted: int = 0


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
    decoder = msgspec.json.Decoder(ExperimentPlan)
    return rows.read_experiment_rows(store, Experiment, decoder.decode, name)


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


def sum_spending(store: Store, runs: Sequence[TrialRun]) -> ExperimentSpending:
    """Return what the runs have spent; for interrupted ones, what their sessions show."""
    nanos, tokens = [], []
    unpriced = uncounted = 0
    for run in runs:
        if run.status == "done":
            nanos.append(run.cost_nanos or 0)
            tokens.append(run.tokens or 0)
            unpriced += run.cost_nanos is None
            uncounted += run.tokens is None
        elif run.sessions:
            figures = add_figures(store, run.sessions)
            nanos.append(figures.known_nanos)
            tokens.append(sum_tokens(figures.usage) or 0)
    return ExperimentSpending(
        usd=sum(nanos) / 1e9,
        tokens=sum(tokens),
        largest_usd=max(nanos, default=0) / 1e9,
        largest_tokens=max(tokens, default=0),
        unpriced=unpriced,
        uncounted=uncounted,
    )


def sum_tokens(usage: Usage | None) -> int | None:
    """Return fresh, cached and answered tokens together; None if all are unknown."""
    usage = usage or Usage()
    return sum_known((usage.input, usage.cache_read, usage.cache_write, usage.output))


def find_exceeded(plan: ExperimentPlan, spent: ExperimentSpending, *, runs: int) -> str | None:
    """Return why so many more runs must not begin, or None; each may cost as much as any so far."""
    if plan.budget_usd is not None:
        if spent.unpriced:
            return (
                "the cost of a run is unknown, so a budget in dollars cannot be enforced:"
                " set prices in config.toml, or give --budget-tokens"
            )
        left = plan.budget_usd - spent.usd
        if left <= 0 or runs * spent.largest_usd > left:
            return f"${max(left, 0):.4f} is left of the budget of ${plan.budget_usd:g}" + (
                f", and {_count(runs)} may cost ${runs * spent.largest_usd:.4f}" if left > 0 else ""
            )
    if plan.budget_tokens is not None:
        if spent.uncounted:
            return "the tokens of a run are unknown, so the budget cannot be enforced"
        room = plan.budget_tokens - spent.tokens
        if room <= 0 or runs * spent.largest_tokens > room:
            return f"{max(room, 0):,} are left of the budget of {plan.budget_tokens:,} tokens" + (
                f", and {_count(runs)} may use {runs * spent.largest_tokens:,}" if room > 0 else ""
            )
    return None


def _count(runs: int) -> str:
    return "the next run" if runs == 1 else f"the next {runs} runs"


def summarise_experiments(store: Store, *, now: int | None = None) -> list[ExperimentSummary]:
    """Return all experiments, newest first, with their state and spending."""
    at = now_ms() if now is None else now
    rows = []
    for one in read_experiments(store):
        runs = read_trial_runs(store, one.id)
        is_killed = one.status == "running" and not is_running(store, one, now=at)
        spent = sum_spending(store, runs)
        rows.append(
            ExperimentSummary(
                name=one.name,
                arms=one.plan.arms,
                tasks=len(one.plan.tasks),
                runner=one.plan.runner,
                status="stopped" if is_killed else one.status,
                note="its process was killed; start it again" if is_killed else one.note,
                runs_done=sum(run.status == "done" for run in runs),
                runs_planned=2 * one.plan.planned_pairs,
                cost_usd=None if spent.unpriced else spent.usd,
                tokens=None if spent.uncounted else spent.tokens,
                created_at=write_time(one.created_at),
                ended_at=write_time(one.ended_at),
            )
        )
    return rows
