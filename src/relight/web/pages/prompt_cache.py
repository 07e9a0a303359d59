"""Turns that rebuilt the prompt cache: causes, days, lengths of pauses, the costliest ones."""

from collections import Counter
from collections.abc import Sequence

from relight.reports.cache_rebuilds import RebuiltDay, describe_rebuilds, read_cache_report
from relight.text import dollars
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.chart import Chart
from relight.web.page import Context, View
from relight.web.periods import find_step, walk_days

TOP = 40


def show(view: View) -> Context:
    """Return the rebuilds of the chosen days."""
    # steps are left out: their numbers need the texts of every session in the list
    found = read_cache_report(view.store, view.chosen, limit=TOP, with_steps=False)
    return {
        "found": found,
        "sentences": describe_rebuilds(found),
        "pause": next(one for one in found.causes if one.cause == "pause"),
        "chart": draw_days(view, found.days) if found.turns else None,
    }


def draw_days(view: View, rebuilt: Sequence[RebuiltDay]) -> Chart:
    """Return a chart of what rebuilds cost by day: after pauses, and for other causes."""
    step, days = walk_days(view)
    pauses: Counter[int] = Counter()
    others: Counter[int] = Counter()
    for one in rebuilt:
        if (place := find_step(days, one.day)) is not None:
            pauses[place] += round(one.pauses_usd * 1e9)
            others[place] += round((one.usd - one.pauses_usd) * 1e9)
    columns = [
        StackedBar(
            label=one.label,
            parts=[pauses[place] / 1e9, others[place] / 1e9],
            link=view.filters.link("/cache", since=one.first, until=one.last),
        )
        for place, one in enumerate(days)
    ]
    return draw_bars(
        f"Cost of rebuilds by {step}",
        columns,
        names=["after pauses", "other causes"],
        formatter=dollars,
        height=140,
    )
