"""Limits: how full the windows of plans are and the earlier ones got, and the user's budgets."""

from markupsafe import Markup

from relight.reports.budgets import BudgetState, describe_scope, read_budgets
from relight.reports.limits import LimitWindow, read_limits_report
from relight.store.queries.filters import find_day_start
from relight.times import write_time
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View

SHOWN = 150
NEARLY_FULL = 90


def show(view: View) -> Context:
    """Return the open windows, those of the chosen days, and all budgets."""
    since, until, zone = view.chosen.since, view.chosen.until, view.store.timezone
    start = 0 if since is None else find_day_start(since, zone)
    end = write_time(find_day_start(until, zone, later_days=1)) if until else None
    now = round(view.now.timestamp() * 1000)
    found = read_limits_report(view.store, now=now, history_since=start)
    windows = [one for one in found.windows if view.chosen.source in (None, one.source)]
    earlier = [
        one
        for one in windows
        if not one.is_current and (end is None or (one.started_at or "") < end)
    ]
    return {
        "current": [(one, draw_fullness(one)) for one in windows if one.is_current],
        "earlier": [(one, draw_fullness(one)) for one in earlier[:SHOWN]],
        "more": max(len(earlier) - SHOWN, 0),
        "plans": [one for one in found.plans if view.chosen.source in (None, one.source)],
        "budgets": [
            (one, describe_scope(one.scope), _draw_spent(one))
            for one in read_budgets(view.store, now=view.now.timestamp()).budgets
        ],
    }


def _draw_spent(budget: BudgetState) -> Markup:
    share = 100 * budget.spent_usd / budget.limit_usd
    return draw_share(min(share, 100), 100, kind="s0" if budget.state == "ok" else "failure")


def draw_fullness(window: LimitWindow) -> Markup:
    """Return a bar of how full a window is; nearly full ones have the colour of failures."""
    percent = window.used_percent
    return draw_share(percent, 100, kind="failure" if (percent or 0) >= NEARLY_FULL else "s0")
