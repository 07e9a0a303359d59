"""Jobs: their next runs, the outcomes of their last runs, their cost."""

from collections.abc import Sequence
from typing import Any

from relight.reports.filters import is_named
from relight.reports.runs import LATELY, read_jobs, read_recent
from relight.text import dollars, seconds
from relight.web.charts.sparks import RunBlock, draw_sparkline, draw_strip
from relight.web.page import View
from relight.work.jobs.spending import read_spending

OPEN = ("claimed", "running")
Run = dict[str, Any]
Job = dict[str, Any]


def show(view: View) -> dict[str, Any]:
    """All jobs, those that need attention first."""
    recent = read_recent(view.store, each=LATELY)
    jobs = [
        job | describe_runs(view, job, recent.get(job["job"], []))
        for job in read_jobs(view.store)
        if is_chosen(view, job)
    ]
    jobs.sort(key=lambda job: (not job["trouble"], job["next_run_at"] or "~", job["name"]))
    return {
        "jobs": jobs,
        "budget": view.store.config.jobs.budget_usd_per_day,
        "spent": read_spent_today(view),
        "runs": sum(job["runs"] for job in jobs),
        "successes": sum(job["successes"] for job in jobs),
        "failures": sum(job["failures"] for job in jobs),
    }


def is_chosen(view: View, job: Job) -> bool:
    """True if a job matches the filters for source and model."""
    source = job["job"].partition(":")[0] if ":" in job["job"] else "relight"
    return view.filters.source in ("", source) and is_named(job["model"], view.filters.model)


def describe_runs(view: View, job: Job, runs: Sequence[Run]) -> dict[str, Any]:
    """Charts and means of a job's last runs, given newest first and without skipped ones."""
    known = [run["cost_usd"] for run in runs if run["cost_usd"] is not None]
    return {
        "strip": draw_strip(job["name"], [_block(view, job, run) for run in reversed(runs)]),
        # the line skips runs without a known price
        "trend": draw_sparkline("cost of a run", known[::-1], formatter=dollars),
        # the mean of the known costs; an unknown cost may be smaller or larger
        "mean_cost": sum(known) / len(known) if known else None,
        "priced": f"of {len(known)} of the last {len(runs)} runs" if runs else "",
        "is_own": ":" not in job["job"],
        "is_running": any(run["status"] in OPEN for run in runs),
    }


def _block(view: View, job: Job, run: Run) -> RunBlock:
    when = (run["started_at"] or run["scheduled_for"] or "")[:16].replace("T", " ")
    cost = dollars(run["cost_usd"], unpriced=run["unpriced_turns"] or 0)
    facts = [seconds(run["duration_seconds"]), cost]
    why = run["evidence"][0] if run["evidence"] else ""
    return RunBlock(
        outcome=run["outcome"],
        tip=f"{when} UTC: {run['outcome']}\n{', '.join(facts)}\n{why[:160]}".strip(),
        link=view.filters.link(f"/jobs/{job['job']}", run=run["run_id"]),
    )


def read_spent_today(view: View) -> float:
    """Dollars that all own jobs have spent today, in the store's time zone."""
    return read_spending(view.store, now=view.now.timestamp()).by_all
