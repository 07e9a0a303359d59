"""Jobs: their next runs, the outcomes of their last runs, their cost."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import asdict

from relight.reports.alarms import read_alarms
from relight.reports.filters import is_model
from relight.reports.narrowing import NoMatch, explain_no_match
from relight.reports.runs import RECENT_RUNS, JobReport
from relight.store.queries.filters import find_day_start
from relight.store.queries.runs import RunReport, read_recent_runs, read_runs_since
from relight.text import dollars, format_cost, seconds
from relight.web.charts.sparks import RunBlock, draw_plain_strip, draw_sparkline, draw_strip
from relight.web.page import Context, View
from relight.web.paging import cut_page
from relight.web.periods import today_of
from relight.work.jobs.registry import list_jobs

OPEN = ("claimed", "running")
# Jobs of a page, and those whose runs are links one by one: a strip of links takes 9 KB.
SHOWN, LINKED = 40, 8


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
    every = list_jobs(view.store)
    jobs = [job for job in every if is_chosen(view, job)]
    jobs.sort(key=lambda job: (not job.trouble, job.next_run_at or "~", job.name))
    part = cut_page(view, jobs, SHOWN)
    is_linked = len(part.rows) <= LINKED
    return {
        "why": explain_no_job(view, every) if every and not jobs else None,
        "jobs": [
            show_job(view, job, recent.get(job.job, []), is_linked=is_linked) for job in part.rows
        ],
        "part": part,
        "troubled": sum(bool(job.trouble) for job in jobs),
        "alarms": read_alarms(view.store, is_open=True).alarms,
        "budget": view.store.config.jobs.budget_usd_per_day,
        "spent": read_spent_today(view),
        "runs": sum(job.runs for job in jobs),
        "successes": sum(job.successes for job in jobs),
        "failures": sum(job.failures for job in jobs),
    }


def explain_no_job(view: View, jobs: Sequence[JobReport]) -> NoMatch:
    names = ("source", "model")
    given = {name: value for name in names if (value := getattr(view.filters, name))}
    return explain_no_match(
        view.store, "job", given, lambda rest: sum(is_chosen(view, job, rest) for job in jobs)
    )


def is_chosen(view: View, job: JobReport, given: Mapping[str, str] | None = None) -> bool:
    """True if a job is of the source and model in the address, or of those given."""
    if given is None:
        given = {"source": view.filters.source, "model": view.filters.model}
    source = job.job.partition(":")[0] if ":" in job.job else "relight"
    return given.get("source", "") in ("", source) and is_model(
        job.model, given.get("model", ""), view.store.config.models.aliases
    )


def show_job(view: View, job: JobReport, runs: Sequence[RunReport], *, is_linked: bool) -> ShownJob:
    """A job with its last runs, newest first and none of them skipped."""
    # a run that died before a model answered says nothing about the cost of the work
    worked = [run for run in runs if run.input_tokens or run.cache_read_tokens or run.output_tokens]
    known = [run.cost_usd for run in worked if run.cost_usd is not None and not run.unpriced_turns]
    return ShownJob(
        **asdict(job),
        strip=draw_strip(job.name, [_block(view, job, run) for run in reversed(runs)])
        if is_linked
        else draw_plain_strip(job.name, [run.outcome for run in reversed(runs)]),
        # some runs of a job may use models without a price: the line goes on past them
        trend=draw_sparkline("cost of a run", known[::-1], formatter=dollars),
        mean_cost=sum(known) / len(known) if known else None,
        priced=_describe_priced(len(known), len(worked), len(runs)),
        is_own=":" not in job.job,
        is_running=any(run.status in OPEN for run in runs),
    )


def _describe_priced(known: int, worked: int, runs: int) -> str:
    """Return which runs the mean cost is of, or why there is none."""
    if known:
        return f"of {known} of the last {runs} runs"
    return "no price is known" if worked else "no run used a model" if runs else ""


def _block(view: View, job: JobReport, run: RunReport) -> RunBlock:
    when = (run.started_at or run.scheduled_for or "")[:16].replace("T", " ")
    facts = [seconds(run.duration_seconds), format_cost(run)]
    why = run.evidence[0] if run.evidence else ""
    return RunBlock(
        outcome=run.outcome,
        tip=f"{when} UTC: {run.outcome}\n{', '.join(facts)}\n{why[:160]}".strip(),
        link=view.filters.link(f"/jobs/{job.job}", run=run.run_id),
    )


class SpentToday(Struct, frozen=True):
    """Dollars that runs of jobs have cost today: ours, which budgets limit, and all others."""

    own: float
    others: float
    unpriced: int


def read_spent_today(view: View) -> SpentToday:
    """The cost of all runs since midnight in the store's time zone."""
    since = find_day_start(today_of(view).isoformat(), view.store.timezone)
    runs = read_runs_since(view.store, since)
    costs = [(":" not in run.run_id, run.cost_usd or 0.0) for run in runs]
    return SpentToday(
        own=sum(cost for is_own, cost in costs if is_own),
        others=sum(cost for is_own, cost in costs if not is_own),
        unpriced=sum(run.unpriced_turns or 0 for run in runs),
    )
