"""All experiments in a line each."""

import time
from typing import Any

from relight.store import Store
from relight.times import write_time
from relight.work.experiments.limits import read_spent
from relight.work.experiments.register import is_running, read_experiments, read_runs


def read_overview(store: Store, *, now: int | None = None) -> list[dict[str, Any]]:
    """The experiments that were started, the newest first, and how each stands."""
    at = int(time.time() * 1000) if now is None else now
    rows = []
    for one in read_experiments(store):
        runs = read_runs(store, one.id)
        is_alive = is_running(store, one, now=at)
        is_killed = one.status == "running" and not is_alive
        spent = read_spent(store, runs)
        rows.append(
            {
                "name": one.name,
                "arms": one.plan.arms,
                "tasks": len(one.plan.tasks),
                "runner": one.plan.runner,
                "status": "stopped" if is_killed else one.status,
                "note": "its process was killed; start it again" if is_killed else one.note,
                "runs_done": sum(run.status in ("done", "skipped") for run in runs),
                "runs_planned": 2 * one.plan.planned_pairs,
                "cost_usd": None if spent.unpriced else spent.usd,
                "tokens": None if spent.uncounted else spent.tokens,
                "created_at": write_time(one.created_at),
                "ended_at": write_time(one.ended_at),
            }
        )
    return rows
