"""Spending and budgets of experiments, and a summary of each experiment."""

from collections.abc import Sequence

from msgspec import Struct

from relight.model import Usage, sum_known
from relight.store import Store
from relight.store.experiments import TrialRun, read_trial_runs
from relight.times import write_time
from relight.work.experiments.plan import ExperimentPlan
from relight.work.experiments.register import (
    is_running,
    now_ms,
    read_experiments,
)
from relight.work.jobs.spending import add_figures


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
