"""Experiments: did starting warm help, and what came of those that were run on purpose."""

import threading
import time
from pathlib import Path
from typing import Any

from relight.experiments.comparison import Measure, Report
from relight.experiments.holdout import add_provisions, compare_again
from relight.experiments.overview import read_overview
from relight.experiments.sessions import read_sessions
from relight.store import Store
from relight.templates.library import read_templates
from relight.web.charts import Chart
from relight.web.intervals import Interval, draw_intervals
from relight.web.measuring import (
    ARM_COLOURS,
    Words,
    find_bounds,
    find_words,
    is_telling,
    tell_difference,
)
from relight.web.view import View


def show(view: View) -> dict[str, Any]:
    """The arms side by side, of all templates or of one."""
    names = [one.name for one in read_templates(view.store)]
    asked = view.query.get("template")
    template = asked if asked in names else None
    found = read_arms(view.store, template)
    return {
        "found": found,
        "chosen_template": template,
        "names": names,
        "primary": find_words(found.primary).title,
        "progress": _find_progress(found),
        "measures": [
            {
                "name": name,
                "title": (words := find_words(name)).title,
                "chart": draw_arms(words, measure),
                "difference": tell_difference(measure.difference, words, measure.p_value),
            }
            for name, measure in {**found.measures, **found.guards}.items()
            if is_telling(measure.cold, measure.warm)
        ],
        "run": read_overview(view.store, now=int(view.now.timestamp() * 1000)),
    }


def read_arms(store: Store, template: str | None) -> Report:
    """The arms compared, kept for twenty times as long as that took.

    So of a thousand sessions it may be some seconds old, and of a few it never is.
    """
    with _lock:
        until, found = _kept.get((store.path, template), (0.0, None))
        began = time.monotonic()
        if found is None or began >= until:
            compared = compare_again(tuple(read_sessions(store, template)))
            found = add_provisions(store, compared, template=template)
            until = began + 20 * (time.monotonic() - began)
            _kept[store.path, template] = (until, found)
        return found


_lock = threading.Lock()
_kept: dict[tuple[Path, str | None], tuple[float, Report | None]] = {}


def draw_arms(words: Words, measure: Measure) -> Chart:
    arms = (
        ("cold", measure.cold, measure.cold_sessions),
        ("warm", measure.warm, measure.warm_sessions),
    )
    rows = [
        Interval(
            name=name, estimate=estimate, note=f"{sessions} sessions", colour=ARM_COLOURS[name]
        )
        for name, estimate, sessions in arms
    ]
    return draw_intervals(
        words.title, rows, tell=words.tell, bounds=find_bounds(words, measure.cold, measure.warm)
    )


def _find_progress(found: Report) -> float | None:
    if not found.planned_sessions:
        return None
    return min(found.counted_sessions / found.planned_sessions, 1.0)
