"""What an experiment has spent, and whether its budget lets it go on."""

from collections.abc import Sequence

from msgspec import Struct

from relight.model import Usage
from relight.store import Store
from relight.work.experiments.plan import Plan
from relight.work.experiments.register import Run
from relight.work.jobs.spending import add_figures


class Spent(Struct, frozen=True, kw_only=True):
    """Dollars and tokens of all runs, and of the dearest; runs whose figures nobody knows."""

    usd: float = 0.0
    tokens: int = 0
    largest_usd: float = 0.0
    largest_tokens: int = 0
    unpriced: int = 0
    uncounted: int = 0


def read_spent(store: Store, runs: Sequence[Run]) -> Spent:
    """What the runs have spent; also of one that was interrupted, as far as its sessions tell."""
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
            tokens.append(count_tokens(figures.usage) or 0)
    return Spent(
        usd=sum(nanos) / 1e9,
        tokens=sum(tokens),
        largest_usd=max(nanos, default=0) / 1e9,
        largest_tokens=max(tokens, default=0),
        unpriced=unpriced,
        uncounted=uncounted,
    )


def count_tokens(usage: Usage | None) -> int | None:
    """Fresh, cached and answered tokens together; None if none of them is known."""
    if usage is None:
        return None
    buckets = (usage.input, usage.cache_read, usage.cache_write, usage.output)
    known = [count for count in buckets if count is not None]
    return sum(known) if known else None


def find_limit(plan: Plan, spent: Spent, *, runs: int) -> str | None:
    """Why so many more runs must not begin; they may cost what the dearest so far did."""
    if plan.budget_usd is not None:
        if spent.unpriced:
            return (
                "what a run cost is not known, so a budget in dollars cannot be kept:"
                " set prices in the settings, or give --budget-tokens"
            )
        left = plan.budget_usd - spent.usd
        if left <= 0 or runs * spent.largest_usd > left:
            return f"${max(left, 0):.4f} is left of the budget of ${plan.budget_usd:g}" + (
                f", and {_count(runs)} may cost ${runs * spent.largest_usd:.4f}" if left > 0 else ""
            )
    if plan.budget_tokens is not None:
        if spent.uncounted:
            return "how many tokens a run used is not known, so the budget cannot be kept"
        room = plan.budget_tokens - spent.tokens
        if room <= 0 or runs * spent.largest_tokens > room:
            return f"{max(room, 0):,} are left of the budget of {plan.budget_tokens:,} tokens" + (
                f", and {_count(runs)} may use {runs * spent.largest_tokens:,}" if room > 0 else ""
            )
    return None


def _count(runs: int) -> str:
    return "the next run" if runs == 1 else f"the next {runs} runs"
