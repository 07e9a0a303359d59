"""Jobs: when they run next, how their last runs really went, what they cost."""

from collections.abc import Sequence
from typing import Any

from relight.amounts import dollars, seconds
from relight.jobs.job import Job as JobDefinition
from relight.jobs.spending import read_spent
from relight.ledger import read_jobs, read_recent
from relight.reports import is_named
from relight.web.sparks import Block, draw_sparkline, draw_strip
from relight.web.view import View

STRIP = 30
OPEN = ("claimed", "running")
Run = dict[str, Any]
Job = dict[str, Any]


def show(view: View) -> dict[str, Any]:
    """All jobs, those that need attention first."""
    recent = read_recent(view.store, each=STRIP)
    jobs = [
        job | tell_runs(view, job, recent.get(job["job"], []))
        for job in read_jobs(view.store)
        if is_chosen(view, job)
    ]
    jobs.sort(key=lambda job: (not job["trouble"], job["next_run_at"] or "~", job["name"]))
    return {
        "jobs": jobs,
        "budget": view.store.config.budget_usd_per_day,
        "spent": count_spent(view),
        "runs": sum(job["runs"] for job in jobs),
        "successes": sum(job["successes"] for job in jobs),
        "failures": sum(job["failures"] for job in jobs),
    }


def is_chosen(view: View, job: Job) -> bool:
    """Whether a job is of the source and model that the address asks for."""
    source = job["job"].partition(":")[0] if ":" in job["job"] else "relight"
    return view.filters.source in ("", source) and is_named(job["model"], view.filters.model)


def tell_runs(view: View, job: Job, runs: Sequence[Run]) -> dict[str, Any]:
    """What the last runs of a job, newest first, look like."""
    shown = [run for run in runs if run["status"] != "skipped"]
    costs = [run["cost_usd"] for run in shown]
    known = [cost for cost in costs if cost is not None]
    return {
        "strip": draw_strip(job["name"], [_block(view, job, run) for run in reversed(shown)]),
        # jobs take turns with models that have no price: the line goes on past them
        "trend": draw_sparkline("cost of a run", known[::-1], tell=dollars),
        "unpriced": len(costs) - len(known),
        "mean_cost": sum(known) / len(known) if known else None,
        "trouble": find_trouble(job, shown),
        "is_own": ":" not in job["job"],
        "is_running": any(run["status"] in OPEN for run in runs),
    }


def find_trouble(job: Job, runs: Sequence[Run]) -> str | None:
    """Why a person should look at a job; None where all is well. Runs are the newest first."""
    known = [run for run in runs if run["status"] not in OPEN]
    if not known:
        return None
    row = 0
    for run in known:
        if run["outcome"] != "failure":
            break
        row += 1
    if row:
        times = "the last run failed" if row == 1 else f"the last {row} runs failed"
        return times if row < len(runs) or len(runs) < STRIP else f"the last {row} or more failed"
    if known[0]["status"] == "unknown" and known[0]["outcome"] == "unknown" and job["runner"]:
        return "nobody knows how the last run went"
    failed = sum(run["outcome"] == "failure" for run in known)
    return f"{failed} of the last {len(known)} runs failed" if failed * 4 >= len(known) else None


def _block(view: View, job: Job, run: Run) -> Block:
    when = (run["started_at"] or run["scheduled_for"] or "")[:16].replace("T", " ")
    facts = [seconds(run["duration_seconds"]), dollars(run["cost_usd"])]
    why = run["evidence"][0] if run["evidence"] else ""
    return Block(
        outcome=run["outcome"],
        tip=f"{when} UTC: {run['outcome']}\n{', '.join(facts)}\n{why[:160]}".strip(),
        link=view.filters.link(f"/jobs/{job['job']}", run=run["run_id"]),
    )


def count_spent(view: View) -> float:
    """What all runs of our own jobs have cost today, in the store's time zone."""
    anyone = JobDefinition(name="", schedule="")
    return read_spent(view.store, anyone, run_id=0, now=view.now.timestamp()).by_all
