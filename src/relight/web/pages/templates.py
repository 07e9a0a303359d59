"""Templates: what sessions can start with, and the results of each."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from relight.model import OUTCOMES
from relight.reports.coverage import find_rate, show_interval
from relight.reports.filters import is_named
from relight.reports.narrowing import explain_no_match
from relight.stats.rates import wilson
from relight.store import Store
from relight.warm.library import Template, read_candidates, read_templates
from relight.warm.results import read_stats
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View

COUNTED = ("warm", "cold", *OUTCOMES)


class TemplateLine(Struct, frozen=True, kw_only=True):
    """A template with its results, all versions together."""

    one: Template
    band: str | None
    bar: str
    warm: int
    cold: int
    success: int
    failure: int
    unknown: int


def show(view: View) -> Context:
    """Return the templates in use, the candidates, and the retired ones."""
    store, project = view.store, view.filters.project
    known, waiting = read_templates(store), read_candidates(store)
    every = [one for one in known if is_named(one.project, project)]
    candidates = [one for one in waiting if is_named(one.project, project)]
    lines = read_lines(store, every)
    why = None
    if project and not every and not candidates and (known or waiting):
        total = len(known) + len(waiting)
        why = explain_no_match(
            store, "template", {"project": project}, lambda rest: 0 if rest else total
        )
    return {
        "why": why,
        "live": [line for line in lines if line.one.state == "live"],
        "retired": [line for line in lines if line.one.state == "retired"],
        "candidates": candidates,
        "hold_out": store.config.templates.hold_out,
    }


def read_lines(store: Store, templates: Sequence[Template]) -> list[TemplateLine]:
    """Return templates with their results, all versions together."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in read_stats(store):
        counts.update({(row.template, name): getattr(row, name) for name in COUNTED})
    lines = []
    for one in templates:
        sums = {name: counts[one.name, name] for name in COUNTED}
        success, known = sums["success"], sums["success"] + sums["failure"]
        rate = find_rate(success, known, sums["warm"])
        band = None if rate is None else show_interval(wilson(success, known))
        bar = draw_share(rate, 1.0, kind="success") if rate is not None else ""
        lines.append(TemplateLine(one=one, band=band, bar=bar, **sums))
    return lines
