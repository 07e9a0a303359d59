"""The overview: totals of the period, and what needs attention."""

from collections.abc import Sequence
from typing import TypeVar

from markupsafe import Markup

from relight.reports.failed_work import describe_failed, read_failed_totals
from relight.reports.failures import read_spirals
from relight.reports.filters import quote_name
from relight.reports.listing import list_sessions
from relight.reports.metrics import COST, TOKENS, UsageMetric
from relight.reports.totals import MergedRow, ReportRow, merge_rows, report
from relight.store.queries.health import read_set_aside_pieces
from relight.store.queries.listing import Listing, count_outcomes
from relight.store.queries.totals import CostRow, sum_costs
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.chart import Chart
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View
from relight.web.pages.jobs import read_spent_today
from relight.web.periods import count_days, find_before, find_step, today_of, walk_days
from relight.work.jobs.registry import list_jobs

MODELS = 6
TOP = 7
MOST = 20
LATEST = 5
CHARTS = (("cost", "Cost", COST), ("tokens", "Tokens", TOKENS))
Ranked = TypeVar("Ranked", CostRow, MergedRow)


def show(view: View) -> Context:
    """Return the figures of the chosen days by model and project, and the problems."""
    store, chosen = view.store, view.chosen
    days = report(store, ("day", "model"), chosen)
    failed = describe_failed(read_failed_totals(store, chosen))
    aside = read_set_aside_pieces(store)
    if not days.rows:
        return {
            "total": None,
            "failed": failed,
            "aside": aside,
            "latest": list_sessions(store, None, Listing(limit=1)).sessions,
        }
    ranked = sorted(merge_rows(days.rows, "model"), key=costliest_first)
    projects = sorted(
        sum_costs(store, "project", chosen),
        key=lambda row: (-row.worth_usd, -row.sessions),
    )
    before = find_before(store, chosen, today_of(view))
    # models without a price have no known cost, but must be visible here
    shown = [row for at, row in enumerate(ranked) if at < TOP or row.unpriced_turns]
    jobs = list_jobs(store)
    return {
        "total": days.total,
        "before": report(store, (), before).total if before else None,
        "days_before": count_days(before) if before else 0,
        "models": draw_rows(shown[:MOST]),
        "more_models": len(ranked) - len(shown[:MOST]),
        "projects": draw_rows(projects[:TOP]),
        "more_projects": max(len(projects) - TOP, 0),
        **draw_charts(view, [row.name for row in ranked], days.rows),
        "failed": failed,
        "aside": aside,
        "spirals": read_spirals(store, chosen),
        "jobs": [job for job in jobs if job.trouble],
        "has_jobs": bool(jobs),
        "latest": list_sessions(store, chosen, Listing(limit=LATEST)).sessions,
        "outcomes": count_outcomes(store, chosen),
        "budget": store.config.jobs.budget_usd_per_day,
        "spent": read_spent_today(view),
    }


def draw_charts(
    view: View, models: Sequence[str | None], rows: Sequence[ReportRow]
) -> dict[str, Chart]:
    """Return charts of cost and tokens by day and model; models after the first few are merged."""
    step, days = walk_days(view)
    steps: dict[int, list[ReportRow]] = {}
    for row in rows:
        if (place := find_step(days, row.key("day") or "")) is not None:
            steps.setdefault(place, []).append(row)
    figures = {
        (place, row.name): row for place, own in steps.items() for row in merge_rows(own, "model")
    }
    shown, rest = models[:MODELS], models[MODELS:]
    names = [str(model or "unknown model") for model in shown]
    names += [f"{len(rest)} more"] if rest else []
    links = [view.here(model=quote_name(model)) for model in shown]
    charts = {}
    for name, title, metric in CHARTS:
        columns = []
        for place, (_, first, last, label) in enumerate(days):
            parts = [_read(metric, figures.get((place, model))) for model in shown]
            if rest:
                known = [_read(metric, figures.get((place, model))) for model in rest]
                parts.append(sum(part for part in known if part is not None))
            link = view.filters.link("/sessions", since=first, until=last)
            columns.append(StackedBar(label=label, parts=parts, link=link))
        charts[f"{name}_chart"] = draw_bars(
            f"{title} by {step} and model",
            columns,
            names=names,
            formatter=metric.format,
            links=links,
        )
    return charts


def _read(metric: UsageMetric, row: MergedRow | None) -> float | None:
    """Return the metric of a day's row; a day without turns cost nothing."""
    return 0.0 if row is None else metric.read(row)


def costliest_first(row: MergedRow) -> tuple[float, int]:
    return -row.worth_usd, -row.tokens


def draw_rows(rows: Sequence[Ranked]) -> list[tuple[Ranked, Markup]]:
    """Return each row with a bar for its cost at list price."""
    largest = max((row.worth_usd for row in rows), default=0)
    return [(row, draw_share(row.worth_usd, largest)) for row in rows]
