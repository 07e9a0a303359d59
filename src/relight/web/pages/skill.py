"""One skill: its curves by model, and whether a cheaper model is good enough."""

from datetime import timedelta

from relight.errors import MissingError, RelightError
from relight.reports.comparison.models import Comparison, compare_models
from relight.reports.filters import is_model, quote_name
from relight.reports.skills.averages import read_curves
from relight.stats.rates import Estimate
from relight.store.queries.skills import read_daily
from relight.text import dollars, share
from relight.web.charts.chart import Chart, colour_of
from relight.web.charts.curves import Series, draw_lines
from relight.web.charts.intervals import IntervalRow, draw_intervals
from relight.web.page import Context, View
from relight.web.periods import find_days, last_of
from relight.web.rendering import day

# days until a use counts half; "" is the default weight of 0.3 for the newest day
HALF_LIVES = {"": None, "5": 5.0, "14": 14.0}
WINDOWS = {"": 14, "5": 35, "14": 98}
SHOWN, MOST = 24, 1000  # rows of days


def show(view: View) -> Context:
    """Return the skill that the address names."""
    name = view.path["name"]
    try:
        found = compare_models(view.store, name)
    except RelightError as error:
        raise MissingError(error.message, error.hint) from error
    half_life = view.query.get("half_life", "")
    half_life = half_life if half_life in HALF_LIVES else ""
    models = [arm.model for arm in found.models]
    days = read_daily(view.store, since=view.chosen.since, until=view.chosen.until, skill=name)
    daily = [row for row in days if is_model(row.model, view.filters.model)]
    shown = MOST if view.query.get("all") == "days" else SHOWN
    return {
        "name": name,
        "found": found,
        "arms": draw_arms(found),
        **draw_curves(view, name, models, half_life),
        "half_life": half_life,
        "half_lives": HALF_LIVES,
        "daily": daily[:shown],
        "more": max(len(daily) - shown, 0),
    }


def draw_curves(
    view: View, name: str, models: list[str | None], half_life: str
) -> dict[str, Chart]:
    """Return charts of success and cost by day; each model has the same colour in both."""
    days, last = find_days(view), last_of(view)
    curves = {
        one.model: one
        for one in read_curves(
            view.store,
            last=last,
            days=days,
            skill=name,
            window_days=WINDOWS[half_life],
            half_life_days=HALF_LIVES[half_life],
        )
    }
    # the others keep their place and colour
    shown = [model for model in curves if is_model(model, view.filters.model)]
    labels = [day((last - timedelta(days=age)).isoformat()) for age in range(days - 1, -1, -1)]
    nothing: list[Estimate | None] = [None] * days
    success, cost = (
        [
            Series(
                name=model or "unknown model",
                points=getattr(curves[model], part) if model in shown else nothing,
                link=view.toggle("model", quote_name(model)),
            )
            for model in models
        ]
        for part in ("success", "cost_usd")
    )
    notes = [
        ", ".join(
            f"{curve.uses[at]} on {model}" for model, curve in curves.items() if curve.uses[at]
        )
        for at in range(days)
    ]
    return {
        "success_chart": draw_lines(
            "Success lately", success, labels=labels, formatter=share, top=1.0, notes=notes
        ),
        "cost_chart": draw_lines(
            "Cost per use lately", cost, labels=labels, formatter=dollars, notes=notes
        ),
    }


def draw_arms(found: Comparison) -> Chart:
    rows = [
        IntervalRow(
            name=arm.model or "unknown model",
            estimate=None
            if arm.success_rate is None
            else Estimate(arm.success_rate, arm.low, arm.high),
            note=f"{arm.successes} of {arm.successes + arm.failures} known runs",
            colour=colour_of(number),
        )
        for number, arm in enumerate(found.models)
    ]
    title = "Success of each model"
    return draw_intervals(title, rows, formatter=share, bounds=(0.0, 1.0), of="model")
