"""Templates: what there is to start sessions with, and what each achieved."""

from collections import Counter
from typing import Any

from relight.reports.filters import is_named
from relight.store import Store
from relight.warm.library import read_candidates, read_templates
from relight.warm.results import read_posteriors, read_stats
from relight.web.charts.sparks import draw_share
from relight.web.page import View

COUNTED = ("warm", "cold", "success", "failure", "unknown")


def show(view: View) -> dict[str, Any]:
    """Those in use, those that wait for a person, and those retired."""
    store = view.store
    every = [one for one in read_templates(store) if is_named(one.project, view.filters.project)]
    told = tell(store, every)
    return {
        "live": [row for row in told if row["one"].state == "live"],
        "retired": [row for row in told if row["one"].state == "retired"],
        "candidates": [
            one for one in read_candidates(store) if is_named(one.project, view.filters.project)
        ],
        "hold_out": store.config.templates.hold_out,
    }


def tell(store: Store, templates: list[Any]) -> list[dict[str, Any]]:
    """Templates with what they achieved, all versions together."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in read_stats(store):
        counts.update({(row["template"], name): row[name] for name in COUNTED})
    told = []
    for one, achieved in zip(templates, read_posteriors(store, templates), strict=True):
        sums = {name: counts[one.name, name] for name in COUNTED}
        rate = achieved.a / (achieved.a + achieved.b) if achieved.known else None
        bar = draw_share(rate, 1.0, kind="success") if rate is not None else ""
        told.append({"one": one, "rate": rate, "bar": bar, **sums})
    return told
