"""One job: its runs, and one of them with its evidence and its answer."""

from pathlib import Path
from typing import Any

from relight.errors import MissingError, RelightError
from relight.reports.canaries import CanaryList, describe_switch, read_canary_list
from relight.reports.retries import judge_run_retry
from relight.reports.runs import RECENT_RUNS, JobReport
from relight.reports.sessions import find_session, read_head
from relight.store.queries.runs import RunReport, find_job_names, find_run, read_runs
from relight.text import NO_PRICE, dollars
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.page import Context, View
from relight.web.pages.jobs import show_job
from relight.web.reading.markdown import render_markdown
from relight.web.rendering import day
from relight.work.jobs.registry import list_jobs

SHOWN = 100
LONGEST_ANSWER, SHOWN_ANSWER = 200_000, 4000


def show(view: View) -> Context:
    """One job, with the run given in the address or else its last run."""
    store, name = view.store, view.path["name"]
    names = find_job_names(store, name)
    job = next((one for one in list_jobs(store) if one.job in names), None)
    runs = read_runs(store, name, limit=SHOWN)
    if job is None:
        raise MissingError(
            f"there is no job {name!r} any more", "`relight job history` has its runs"
        )
    asked, outcome = view.query.get("run"), view.query.get("outcome")
    found = find_chosen(view, runs, asked) if asked else None
    chosen = found or (runs[0] if runs else None)
    lately = [run for run in runs if run.status != "skipped"][:RECENT_RUNS]
    done = [run.duration_seconds for run in lately if run.duration_seconds is not None]
    return {
        "job": show_job(view, job, lately, is_linked=True),
        "runs": runs,
        "listed": read_runs(store, name, limit=SHOWN, has_failed=True)
        if outcome == "failure"
        else [run for run in runs if outcome in (None, run.outcome)],
        "outcome": outcome,
        "skipped": sum(run.status == "skipped" for run in runs),
        "chosen": chosen,
        "missing": asked if not found else None,
        "retry": find_retry(view, job, chosen, runs),
        "answer": read_run_answer(view, chosen) if chosen else None,
        "chart": draw_run_costs(view, job, lately) if any(run.cost_usd for run in lately) else None,
        "mean_seconds": sum(done) / len(done) if done else None,
        "timed": len(done),
        "shown": SHOWN_ANSWER,
        "read": render_markdown,
        "trials": read_trials(view, job),
        "describe_switch": describe_switch,
    }


def read_trials(view: View, job: JobReport) -> CanaryList | None:
    """The models on trial in the job and its switches; None if there are none."""
    if not view.store.has_rows("canary") and not view.store.has_rows("job_switch"):
        return None
    found = read_canary_list(view.store, job.job)
    return found if found.canaries or found.switches else None


def find_chosen(view: View, runs: list[RunReport], asked: str) -> RunReport | None:
    """The run that the address names: of those listed, else an older one that was bookmarked."""
    listed = next((run for run in runs if run.run_id == asked), None)
    return listed or find_run(view.store, view.path["name"], asked)


def find_retry(
    view: View, job: JobReport, chosen: RunReport | None, runs: list[RunReport]
) -> str | None:
    """The advice about a retry, if the chosen run is the last and failed."""
    last = next((run for run in runs if run.status != "skipped"), None)
    if last is None or chosen is None or chosen.run_id != last.run_id:
        return None
    zone = view.store.timezone
    now = round(view.now.timestamp() * 1000)
    advice = judge_run_retry(last, next_run_at=job.next_run_at, timezone=zone, now=now)
    return advice.words if advice else None


def draw_run_costs(view: View, job: JobReport, runs: list[RunReport]) -> Any:
    columns = [
        StackedBar(
            label=day((run.started_at or run.scheduled_for or "")[:10]),
            parts=[run.cost_usd],
            link=view.filters.link(f"/jobs/{job.job}", run=run.run_id),
            note=run.outcome,
        )
        for run in reversed(runs)
    ]
    title = "Cost of each run"
    return draw_bars(
        title, columns, names=["cost"], formatter=dollars, height=110, unknown=NO_PRICE
    )


def read_run_answer(view: View, run: RunReport) -> str | None:
    """The answer of a run, from its file, else from its session."""
    if run.answer_file:
        path, home = Path(run.answer_file).resolve(), view.store.config.home.resolve()
        try:
            if path.is_relative_to(home):
                with path.open(encoding="utf-8", errors="replace") as file:
                    return _strip_facts(file.read(LONGEST_ANSWER))
        except OSError:
            pass  # it was removed: the session may still have it
    if run.session_id:
        try:
            found = find_session(view.store, run.session_id)
        except RelightError:
            return None  # it was forgotten
        return read_head(view.store, found).answer
    return None


def _strip_facts(text: str) -> str:
    """The answer without the facts about its run above it."""
    if text.startswith("---\n"):
        _, found, rest = text[4:].partition("\n---\n")
        return rest.strip() if found else text
    return text
