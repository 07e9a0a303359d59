"""One experiment: the same tasks in both arms, compared task by task."""

from relight.web.charts.intervals import IntervalRow
from relight.web.measuring import draw_metric, make_arm
from relight.web.page import Context, View
from relight.work.experiments.metrics import METRICS
from relight.work.experiments.pairs import PairedMeasure, read_paired_report
from relight.work.experiments.register import find_experiment


def show(view: View) -> Context:
    """Return the experiment that the address names."""
    experiment = find_experiment(view.store, view.path["name"])
    found = read_paired_report(view.store, experiment)
    return {
        "found": found,
        "plan": experiment.plan,
        "primary": METRICS[found.primary].title,
        "measures": [
            drawn
            for name, one in found.measures.items()
            if one.pairs
            and (
                drawn := draw_metric(name, _draw_arms(found.arms, one), one.difference, one.p_value)
            )
        ],
    }


def _draw_arms(arms: list[str], measure: PairedMeasure) -> list[IntervalRow]:
    note = f"{measure.pairs} pairs"
    return [
        make_arm(arm, measure.arms[arm], note=note, number=number)
        for number, arm in enumerate(arms)
    ]
