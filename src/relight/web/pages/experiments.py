"""The experiments page: the effect of warm starts, and the results of planned experiments."""

from relight.warm.library import read_templates
from relight.web.charts.intervals import IntervalRow
from relight.web.measuring import ARM_COLOURS, draw_metric
from relight.web.page import Context, View
from relight.work.experiments.budget import summarise_experiments
from relight.work.experiments.holdout import HoldoutReport, Measure, read_holdout
from relight.work.experiments.metrics import METRICS


def show(view: View) -> Context:
    """Return the arms side by side, of all templates or of one."""
    names = [one.name for one in read_templates(view.store)]
    asked = view.query.get("template")
    template = asked if asked in names else None
    found = read_holdout(view.store, template=template, may_retire=False)
    return {
        "found": found,
        "chosen_template": template,
        "names": names,
        "primary": METRICS[found.primary].title,
        "progress": _find_progress(found),
        "measures": [
            drawn
            for name, one in {**found.measures, **found.guards}.items()
            if (drawn := draw_metric(name, _draw_arms(one), one.difference, one.p_value))
        ],
        "run": summarise_experiments(view.store, now=int(view.now.timestamp() * 1000)),
    }


def _draw_arms(measure: Measure) -> list[IntervalRow]:
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


def _find_progress(found: HoldoutReport) -> float | None:
    if not found.planned_sessions:
        return None
    return min(found.counted_sessions / found.planned_sessions, 1.0)
