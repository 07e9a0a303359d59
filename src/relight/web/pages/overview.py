"""What it all came to lately, and what wants attention."""

from collections.abc import Sequence
from typing import Any

from relight.reports.failures import read_spirals
from relight.reports.filters import quote_name
from relight.reports.listing import Listing, count_outcomes, list_sessions
from relight.reports.runs import read_jobs
from relight.reports.totals import merge_rows, report, sum_costs
from relight.text import count, dollars
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.sparks import draw_share
from relight.web.page import View
from relight.web.pages.jobs import count_spent
from relight.web.periods import find_before, find_step, today_of, walk_days

MODELS = 6
TOP = 7
MOST = 20
LATEST = 5
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
Row = dict[str, Any]


def show(view: View) -> dict[str, Any]:
    """The figures of the chosen days, by model, project and what went wrong."""
    store, chosen = view.store, view.chosen
    days = report(store, ("day", "model"), chosen)
    if not days.rows:
        return {"total": None, "latest": list_sessions(store, None, Listing(limit=1))["sessions"]}
    ranked = sorted(merge_rows(days.rows, "model"), key=dearest_first)
    projects = sorted(
        sum_costs(store, "project", chosen),
        key=lambda row: (-(row["cost_usd"] or 0), -row["sessions"]),
    )
    before = find_before(chosen, today_of(view))
    # those without a price cost nothing that is known, and are what one looks for here
    shown = [row for at, row in enumerate(ranked) if at < TOP or row["unpriced_turns"]]
    jobs = read_jobs(store)
    return {
        "total": days.total | {"tokens": count_tokens(days.total)},
        "before": report(store, (), before).total if before else None,
        "models": draw_rows(shown[:MOST]),
        "more_models": len(ranked) - len(shown[:MOST]),
        "projects": draw_rows(projects[:TOP]),
        "more_projects": max(len(projects) - TOP, 0),
        **draw_charts(view, [row["model"] for row in ranked], days.rows),
        "spirals": read_spirals(store, chosen),
        "jobs": [job for job in jobs if job["trouble"]],
        "has_jobs": bool(jobs),
        "latest": list_sessions(store, chosen, Listing(limit=LATEST))["sessions"],
        "outcomes": count_outcomes(store, chosen),
        "budget": store.config.jobs.budget_usd_per_day,
        "spent": count_spent(view) if store.config.jobs.budget_usd_per_day else 0.0,
    }


def draw_charts(view: View, models: Sequence[str | None], rows: Sequence[Row]) -> dict[str, Any]:
    """Cost and tokens by day and model; models beyond the first few are one."""
    step, days = walk_days(view)
    steps: dict[int, list[Row]] = {}
    for row in rows:
        if (place := find_step(days, row["day"])) is not None:
            steps.setdefault(place, []).append(row)
    figures = {
        (place, row["model"]): row
        for place, own in steps.items()
        for row in merge_rows(own, "model")
    }
    shown, rest = models[:MODELS], models[MODELS:]
    names = [str(model or "unknown model") for model in shown]
    names += [f"{len(rest)} more"] if rest else []
    links = [view.here(model=quote_name(model)) for model in shown]
    charts = {}
    for name, title, tell in (("cost", "Cost", dollars), ("tokens", "Tokens", count)):
        columns = []
        for place, (_, first, last, label) in enumerate(days):
            parts = [_measure(figures.get((place, model)), name) for model in shown]
            if rest:
                known = [_measure(figures.get((place, model)), name) for model in rest]
                parts.append(sum(part for part in known if part is not None))
            link = view.filters.link("/sessions", since=first, until=last)
            columns.append(StackedBar(label=label, parts=parts, link=link))
        charts[f"{name}_chart"] = draw_bars(
            f"{title} by {step} and model", columns, names=names, formatter=tell, links=links
        )
    return charts


def _measure(row: Row | None, name: str) -> float | None:
    """A day without any turns cost nothing; one without a price, nobody knows what."""
    if row is None:
        return 0.0
    return row["cost_usd"] if name == "cost" else float(count_tokens(row))


def count_tokens(row: Row) -> int:
    return sum(row[name] or 0 for name in TOKENS)


def dearest_first(row: Row) -> tuple[float, int]:
    return -(row["cost_usd"] or 0), -count_tokens(row)


def draw_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows with bars for their cost, the longest for the dearest."""
    largest = max((row["cost_usd"] or 0 for row in rows), default=0)
    return [row | {"bar": draw_share(row["cost_usd"], largest)} for row in rows]
