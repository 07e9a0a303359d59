"""Jobs: their next runs, the outcomes of their last runs, their cost."""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec.structs import asdict

from relight.reports.filters import is_model
from relight.reports.runs import RECENT_RUNS, JobReport, read_jobs
from relight.store.queries.runs import RunReport, read_recent_runs
from relight.text import dollars, seconds
from relight.web.charts.sparks import RunBlock, draw_sparkline, draw_strip
from relight.web.page import Context, View
from relight.work.jobs.spending import read_spending

OPEN = ("claimed", "running")


class ShownJob(JobReport, frozen=True, kw_only=True):
    """A job with its last runs as a strip, and their cost."""

    strip: Markup
    trend: Markup | None
    mean_cost: float | None
    priced: str
    is_own: bool
    is_running: bool


def show(view: View) -> Context:
    """All jobs, those that need attention first."""
    recent = read_recent_runs(view.store, each=RECENT_RUNS)
    jobs = [
        show_job(view, job, recent.get(job.job, []))
        for job in read_jobs(view.store)
        if is_chosen(view, job)
    ]
    jobs.sort(key=lambda job: (not job.trouble, job.next_run_at or "~", job.name))
    return {
        "jobs": jobs,
        "budget": view.store.config.jobs.budget_usd_per_day,
        "spent": read_spent_today(view),
        "runs": sum(job.runs for job in jobs),
        "successes": sum(job.successes for job in jobs),
        "failures": sum(job.failures for job in jobs),
    }


def is_chosen(view: View, job: JobReport) -> bool:
    """True if a job is of the source and model in the address."""
    source = job.job.partition(":")[0] if ":" in job.job else "relight"
    return view.filters.source in ("", source) and is_model(
        job.model, view.filters.model, view.store.config.models.aliases
    )


def show_job(view: View, job: JobReport, runs: Sequence[RunReport]) -> ShownJob:
    """A job with its last runs, newest first and none of them skipped."""
    known = [run.cost_usd for run in runs if run.cost_usd is not None]
    return ShownJob(
        **asdict(job),
        strip=draw_strip(job.name, [_block(view, job, run) for run in reversed(runs)]),
        # some runs of a job may use models without a price: the line goes on past them
        trend=draw_sparkline("cost of a run", known[::-1], formatter=dollars),
        # of the runs with a known cost
        mean_cost=sum(known) / len(known) if known else None,
        priced=f"of {len(known)} of the last {len(runs)} runs" if runs else "",
        is_own=":" not in job.job,
        is_running=any(run.status in OPEN for run in runs),
    )


def _block(view: View, job: JobReport, run: RunReport) -> RunBlock:
    when = (run.started_at or run.scheduled_for or "")[:16].replace("T", " ")
    unpriced = run.unpriced_turns or 0
    cost = dollars(run.cost_usd, unpriced=unpriced, included=run.included_usd)
    facts = [seconds(run.duration_seconds), cost]
    why = run.evidence[0] if run.evidence else ""
    return RunBlock(
        outcome=run.outcome,
        tip=f"{when} UTC: {run.outcome}\n{', '.join(facts)}\n{why[:160]}".strip(),
        link=view.filters.link(f"/jobs/{job.job}", run=run.run_id),
    )


def read_spent_today(view: View) -> float:
    """Dollars that all own jobs have spent today, in the store's time zone."""
    return read_spending(view.store, now=view.now.timestamp()).by_all
