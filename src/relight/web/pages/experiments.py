"""The experiments page: the effect of warm starts, and the results of planned experiments."""

from relight.warm.library import read_templates
from relight.warm.plans import read_warm_plans
from relight.web.charts.intervals import IntervalRow
from relight.web.measuring import draw_metric, make_arm
from relight.web.page import Context, View
from relight.work.experiments.holdout import read_holdout
from relight.work.experiments.register import summarise_experiments
from relight.work.experiments.warm_verdict import Measure, describe_warm_plan, list_figures


def show(view: View) -> Context:
    """Return the arms side by side, of all templates or of one."""
    names = [one.name for one in read_templates(view.store)]
    asked = view.query.get("template")
    template = asked if asked in names else None
    plans = read_warm_plans(view.store)
    number = view.query.get("plan", "")
    known = [str(one.number) for one in plans]
    found = read_holdout(
        view.store,
        template=template,
        plan=int(number) if number.isdigit() and number in known else None,
        may_retire=False,
        now=int(view.now.timestamp() * 1000),
    )
    return {
        "found": found,
        "chosen_template": template,
        "names": names,
        "plan": describe_warm_plan(found.plan),
        "earlier": [one for one in plans if one.number != found.plan.number],
        "deciding": list_figures(found.plan),
        "measures": [
            drawn
            for name, one in {**found.measures, **found.guards}.items()
            if (drawn := draw_metric(name, _draw_arms(one), one.difference, None))
        ],
        "run": summarise_experiments(view.store, now=int(view.now.timestamp() * 1000)),
    }


def _draw_arms(measure: Measure) -> list[IntervalRow]:
    return [
        make_arm("cold", measure.cold, note=f"{measure.cold_sessions} sessions"),
        make_arm("warm", measure.warm, note=f"{measure.warm_sessions} sessions"),
    ]
