"""Templates: what sessions can start with, and the results of each."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from relight.model import OUTCOMES
from relight.reports.filters import is_named
from relight.store import Store
from relight.warm.library import Template, read_candidates, read_templates
from relight.warm.results import read_posteriors, read_stats
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View

COUNTED = ("warm", "cold", *OUTCOMES)


class TemplateLine(Struct, frozen=True, kw_only=True):
    """A template with its results, all versions together."""

    one: Template
    rate: float | None
    bar: str
    warm: int
    cold: int
    success: int
    failure: int
    unknown: int


def show(view: View) -> Context:
    """Return the templates in use, the candidates, and the retired ones."""
    store, project = view.store, view.filters.project
    every = [one for one in read_templates(store) if is_named(one.project, project)]
    lines = read_lines(store, every)
    return {
        "live": [line for line in lines if line.one.state == "live"],
        "retired": [line for line in lines if line.one.state == "retired"],
        "candidates": [one for one in read_candidates(store) if is_named(one.project, project)],
        "hold_out": store.config.templates.hold_out,
    }


def read_lines(store: Store, templates: Sequence[Template]) -> list[TemplateLine]:
    """Return templates with their results, all versions together."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in read_stats(store):
        counts.update({(row.template, name): getattr(row, name) for name in COUNTED})
    lines = []
    for one, posterior in zip(templates, read_posteriors(store, templates), strict=True):
        rate = posterior.rate if posterior.known else None
        bar = draw_share(rate, 1.0, kind="success") if rate is not None else ""
        sums = {name: counts[one.name, name] for name in COUNTED}
        lines.append(TemplateLine(one=one, rate=rate, bar=bar, **sums))
    return lines
