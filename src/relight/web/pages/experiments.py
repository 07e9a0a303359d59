"""Experiments: did starting warm help, and what came of those that were run on purpose."""

from typing import Any

from relight.warm.library import read_templates
from relight.web.arms import read_arms
from relight.web.charts.intervals import IntervalRow
from relight.web.measuring import ARM_COLOURS, find_words, tell_measure
from relight.web.page import View
from relight.work.experiments.comparison import Measure, Report
from relight.work.experiments.overview import read_overview


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
            told
            for name, one in {**found.measures, **found.guards}.items()
            if (told := tell_measure(name, make_arms(one), one.difference, one.p_value))
        ],
        "run": read_overview(view.store, now=int(view.now.timestamp() * 1000)),
    }


def make_arms(measure: Measure) -> list[IntervalRow]:
    arms = (
        ("cold", measure.cold, measure.cold_sessions),
        ("warm", measure.warm, measure.warm_sessions),
    )
    return [
        IntervalRow(
            name=name, estimate=estimate, note=f"{sessions} sessions", colour=ARM_COLOURS[name]
        )
        for name, estimate, sessions in arms
    ]


def _find_progress(found: Report) -> float | None:
    if not found.planned_sessions:
        return None
    return min(found.counted_sessions / found.planned_sessions, 1.0)
