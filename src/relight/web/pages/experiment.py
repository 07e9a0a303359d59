"""One experiment: the same tasks in both arms, compared task by task."""

from typing import Any

from relight.experiments.pairs import PairedMeasure, read_paired_report
from relight.experiments.register import find_experiment
from relight.web.charts import Chart, colour_of
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
    """The experiment that the address names."""
    experiment = find_experiment(view.store, view.path["name"])
    found = read_paired_report(view.store, experiment)
    return {
        "found": found,
        "plan": experiment.plan,
        "primary": find_words(found.primary).title,
        "measures": [
            {
                "name": name,
                "title": (words := find_words(name)).title,
                "chart": draw_arms(words, found.arms, measure),
                "difference": tell_difference(measure.difference, words, measure.p_value),
            }
            for name, measure in found.measures.items()
            if measure.pairs and is_telling(*measure.arms.values())
        ],
    }


def draw_arms(words: Words, arms: list[str], measure: PairedMeasure) -> Chart:
    rows = [
        Interval(
            name=arm,
            estimate=measure.arms[arm],
            note=f"{measure.pairs} pairs",
            colour=ARM_COLOURS.get(arm) or colour_of(number),
        )
        for number, arm in enumerate(arms)
    ]
    bounds = find_bounds(words, *measure.arms.values())
    return draw_intervals(words.title, rows, tell=words.tell, bounds=bounds)
