"""Failed runs and sessions by cause, failed calls by kind and tool, and spirals."""

from collections import Counter
from typing import Any

from markupsafe import Markup
from msgspec.structs import asdict, replace

from relight.errors import MissingError
from relight.reports.failures import KINDS, explain_no_failure, read_failures
from relight.reports.filters import find_jobs
from relight.reports.metrics import read_failure_rate
from relight.store.queries.failures import FailureGroup, count_failures_by_day, read_failure_groups
from relight.store.queries.filters import Filter
from relight.store.queries.tool_sums import count_tools
from relight.text import count
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View
from relight.web.periods import find_step, walk_days
from relight.work.jobs.registry import find_allowed_slots

TOP, MOST = 25, 1000
NEWEST, CURES = 20, 12


HEADINGS = {
    "position": "calls of the session",
    "length": "tool calls in all",
    "category": "kind of work",
}
# what the table of failed calls is by: the parameter of the address, the keys, the words
GROUPINGS = {
    "": (KINDS, "kind and tool"),
    "position": (("position",), "place in the session"),
    "length": (("length",), "length of the session"),
    "category": (("category",), "kind of work"),
    "category,position": (("category", "position"), "kind of work and place"),
}


class ShownFailure(FailureGroup, frozen=True, kw_only=True):
    """A row of failed calls, with a bar for their number."""

    bar: Markup

    @property
    def failure_rate(self) -> float | None:
        """The share of tool calls that failed; None if it is not known."""
        return read_failure_rate(self)


def show(view: View) -> Context:
    """Return the failures of the chosen days, the most frequent first."""
    chosen, job, kind = view.chosen, view.query.get("job", ""), view.query.get("kind", "")
    why = None
    if job:
        try:
            chosen = replace(chosen, jobs=find_jobs(view.store, job))
        except MissingError as error:  # a filter, not the page, names what does not exist
            why, chosen = f"{error.message}: {error.hint}", replace(chosen, jobs=("",))
    by = view.query.get("by", "")
    keys, _ = GROUPINGS.get(by, GROUPINGS[""])
    found = read_failures(view.store, chosen, slots=find_allowed_slots(view.store))
    tools = count_tools(view.store, chosen, kind=kind)
    if kind:
        tools = [one for one in tools if one.failed]
    failures = [one for one in found.failures if kind in ("", one.kind)]
    rows = failures if keys == KINDS else read_failure_groups(view.store, chosen, keys)
    kinds: Counter[str] = Counter()
    for one in failures:
        kinds[str(one.kind)] += one.count
    largest = max((one.count for one in rows), default=0)
    spirals = found.spirals
    costs = [one.cost_usd for one in spirals if one.cost_usd is not None]
    whole = view.query.get("all")
    top = {name: MOST if whole == name else TOP for name in ("causes", "kinds", "tools", "spirals")}
    return {
        "is_empty": found.is_empty,
        "no_job": why,
        "why": explain_no_failure(view.store, chosen, job=job or None)
        if found.is_empty and not why
        else None,
        "job": job,
        "kind": kind,
        "by": keys,
        "headings": [HEADINGS.get(key, key) for key in keys],
        "groupings": [
            (words, view.here(by=name or None, kind=None), one == keys)
            for name, (one, words) in GROUPINGS.items()
        ],
        "total": found.failed,
        "causes": found.causes[: top["causes"]],
        "more_causes": max(len(found.causes) - top["causes"], 0),
        "newest": found.runs[:NEWEST],
        "cures": found.cures[:CURES],
        "failures": [
            ShownFailure(**asdict(one), bar=draw_share(one.count, largest, kind="failure"))
            for one in rows[: top["kinds"]]
        ],
        "more": max(len(rows) - top["kinds"], 0),
        "spirals": spirals[: top["spirals"]],
        "all_spirals": len(spirals),
        "burnt": sum(costs) if costs else None,
        "unpriced": sum(one.unpriced_turns for one in spirals),
        "kinds": kinds,
        "calls": sum(one.calls for one in tools),
        "failed": sum(one.failed for one in tools),
        "tools": tools[: top["tools"]],
        "more_tools": max(len(tools) - top["tools"], 0),
        "chart": draw_days(view, chosen, [kind for kind, _ in kinds.most_common()])
        if kinds
        else None,
    }


def draw_days(view: View, chosen: Filter, kinds: list[str]) -> Any:
    """Return a chart of failures by day and kind; the rarest are merged."""
    step, days = walk_days(view)
    counts: Counter[tuple[int, str]] = Counter()
    for row in count_failures_by_day(view.store, chosen):
        if (found := find_step(days, row.day)) is not None:
            counts[found, row.kind] += row.failures
    columns = []
    for place, one in enumerate(days):
        parts: list[float | None] = [float(counts[place, kind]) for kind in kinds]
        link = view.filters.link("/sessions", since=one.first, until=one.last, sort="failures")
        columns.append(StackedBar(label=one.label, parts=parts, link=link))
    names = [kind.replace("_", " ") for kind in kinds]
    links = [view.toggle("kind", kind) for kind in kinds]
    return draw_bars(
        f"Failed calls by {step} and kind",
        columns,
        names=names,
        formatter=count,
        links=links,
        height=140,
    )
