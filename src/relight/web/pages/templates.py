"""Templates: what sessions can start with, and the results of each."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from relight.judging.kinds import CATEGORIES, TASK_TYPES
from relight.model import OUTCOMES
from relight.reports.coverage import find_rate, show_interval
from relight.reports.narrowing import explain_no_match
from relight.stats.rates import wilson
from relight.warm.library import Template
from relight.warm.listing import list_templates
from relight.warm.results import VersionStats, read_template_stats
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View
from relight.web.paging import cut_page
from relight.web.request import list_words

COUNTED = ("warm", "cold", *OUTCOMES)
SHOWN = 50  # of each list on one page
# filters of this page, and their values
CHOICES: dict[str, Sequence[str]] = {"category": CATEGORIES, "task_type": TASK_TYPES}


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
    """Return the templates in use, the candidates, and the retired ones, newest first."""
    store, project = view.store, view.filters.project
    asked = {name: view.query.get(name) for name in CHOICES}
    within: dict[str, Any] = {
        name: asked[name] if asked[name] in CHOICES[name] else None for name in CHOICES
    }
    tags = list_words(view.query.get("tags", ""))
    sort = "best" if view.query.get("sort") == "best" else "newest"
    every = list_templates(store, state="all", tags=tags, project=project, sort=sort, **within)
    stats = read_template_stats(store)
    is_narrowed = bool(tags or any(within.values()))
    why = None
    if project and not every and not is_narrowed and stats.types:
        total = stats.total.live + stats.total.retired + stats.total.candidates
        why = explain_no_match(
            store, "template", {"project": project}, lambda rest: 0 if rest else total
        )
    parts = {
        state: cut_page(view, [one for one in every if one.state == state], SHOWN, name=name)
        for state, name in (("live", "page"), ("candidate", "candidates"), ("retired", "retired"))
    }
    return {
        "why": why,
        "parts_of": parts,
        "live": list_template_lines(parts["live"].rows, stats.templates),
        "retired": list_template_lines(parts["retired"].rows, stats.templates),
        "candidates": parts["candidate"].rows,
        "hold_out": store.config.templates.hold_out,
        "types": stats.types,
        "total": stats.total,
        "within": within,
        "choices": CHOICES,
        "tags": tags,
        "sort": sort,
        "is_narrowed": is_narrowed,
    }


def list_template_lines(
    templates: Sequence[Template], stats: Sequence[VersionStats]
) -> list[TemplateLine]:
    """Return templates with their results, all versions together."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in stats:
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
