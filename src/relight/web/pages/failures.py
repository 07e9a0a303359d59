"""Failures by kind and tool, and spirals."""

from collections import Counter
from typing import Any

from markupsafe import Markup
from msgspec.structs import asdict

from relight.reports.failures import read_failures
from relight.store.queries.failures import FailureGroup, count_days, count_tools
from relight.text import count
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View
from relight.web.periods import find_step, walk_days

KINDS = 6
TOP = 40


class ShownFailure(FailureGroup, frozen=True):
    """Failures of one kind and tool, with a bar for their number."""

    bar: Markup


def show(view: View) -> Context:
    """Return the failures of the chosen days, the most frequent first."""
    found = read_failures(view.store, view.chosen)
    tools = count_tools(view.store, view.chosen)
    kinds: Counter[str] = Counter()
    for one in found.failures:
        kinds[one.kind] += one.count
    largest = max((one.count for one in found.failures), default=0)
    spirals = found.spirals
    costs = [one.cost_usd for one in spirals if one.cost_usd is not None]
    return {
        "failures": [
            ShownFailure(**asdict(one), bar=draw_share(one.count, largest, kind="failure"))
            for one in found.failures[:TOP]
        ],
        "more": max(len(found.failures) - TOP, 0),
        "spirals": spirals[:TOP],
        "all_spirals": len(spirals),
        "burnt": sum(costs) if costs else None,
        "unpriced": sum(one.unpriced_turns for one in spirals),
        "kinds": kinds,
        "calls": sum(one.calls for one in tools),
        "failed": sum(one.failed for one in tools),
        "tools": tools[:TOP],
        "chart": draw_days(view, [kind for kind, _ in kinds.most_common()]) if kinds else None,
    }


def draw_days(view: View, kinds: list[str]) -> Any:
    """Return a chart of failures by day and kind; kinds after the first few are merged."""
    step, days = walk_days(view)
    counts: Counter[tuple[int, str]] = Counter()
    for one in count_days(view.store, view.chosen):
        if (place := find_step(days, one.day)) is not None:
            counts[place, one.kind] += one.failures
    shown, rest = kinds[:KINDS], kinds[KINDS:]
    columns = []
    for place, (_, first, last, label) in enumerate(days):
        parts: list[float | None] = [float(counts[place, kind]) for kind in shown]
        if rest:
            parts.append(float(sum(counts[place, kind] for kind in rest)))
        link = view.filters.link("/sessions", since=first, until=last, sort="failures")
        columns.append(StackedBar(label=label, parts=parts, link=link))
    names = [kind.replace("_", " ") for kind in shown]
    names += [f"{len(rest)} more"] if rest else []
    links = [view.filters.link("/sessions", failure=kind) for kind in shown]
    return draw_bars(
        f"Failures by {step} and kind",
        columns,
        names=names,
        formatter=count,
        links=links,
        height=140,
    )
