"""Skills: recent success and cost of each skill and model."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from relight.reports.comparison.models import judge_skills
from relight.reports.filters import is_model
from relight.reports.narrowing import NoMatch, explain_no_match, list_given
from relight.reports.skills.averages import (
    LEAST_COVERAGE,
    SkillCurve,
    query_skill_ema,
    read_curves,
    show_band,
)
from relight.stats.rates import Estimate
from relight.store.queries.skills import sum_uses
from relight.text import dollars, share
from relight.web.charts.sparks import draw_sparkline
from relight.web.page import Context, View
from relight.web.periods import find_days, last_of

SHOWN = 80


def show(view: View) -> Context:
    """Return each skill with its models, the last used first."""
    last, days = last_of(view), find_days(view)
    first = (last - timedelta(days=days - 1)).isoformat()
    # noon, so that the day is the same whatever the daylight saving time
    noon = datetime.combine(last, time(12), ZoneInfo(view.store.timezone))
    rows = query_skill_ema(view.store, window_days=days, now=noon)
    rows = [row for row in rows if is_model(row.model, view.filters.model)]
    shown = {(row.skill_name, row.model): row for row in rows[:SHOWN]}
    found = read_curves(view.store, last=last, days=days, with_intervals=False, only=shown)
    curves = {(one.skill_name, one.model): one for one in found}
    skills: dict[str, list[dict[str, Any]]] = {}
    for row in shown.values():
        curve = curves.get((row.skill_name, row.model))
        shown_row = {
            "row": row,
            "known": row.success_count + row.failure_count,
            "band": show_band(row),
            "is_covered": row.coverage >= LEAST_COVERAGE,
            "trend": draw_trend(curve),
            "cost_trend": draw_cost_trend(curve),
        }
        skills.setdefault(row.skill_name, []).append(shown_row)
    return {
        "why": explain_no_skill(view) if not skills else None,
        "skills": skills,
        "verdicts": judge_skills(view.store, skills),
        "more": max(len(rows) - SHOWN, 0),
        # links to lists must not cover more days than are shown here
        "span": {} if view.chosen.since == first else {"since": first},
    }


def explain_no_skill(view: View) -> NoMatch | None:
    """Return why no skill is shown; None if none is recorded."""
    given = list_given(replace(view.chosen, source=None, project=None))

    def count(rest: Mapping[str, str]) -> int:
        uses = sum_uses(view.store, since=rest.get("since"), until=rest.get("until"))
        return len({one.skill_name for one in uses if is_model(one.model, rest.get("model", ""))})

    return explain_no_match(view.store, "skill", given, count) if count({}) else None


def draw_trend(curve: SkillCurve | None) -> Any:
    points = curve.success if curve else []
    return draw_sparkline("success", [_value(one) for one in points], formatter=share)


def draw_cost_trend(curve: SkillCurve | None) -> Any:
    points = curve.cost_usd if curve else []
    return draw_sparkline("cost per use", [_value(one) for one in points], formatter=dollars)


def _value(point: Estimate | None) -> float | None:
    return None if point is None else point.value
