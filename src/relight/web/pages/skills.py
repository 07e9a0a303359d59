"""Skills: recent success and cost of each skill and model."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from relight.reports.comparison.models import judge_skills
from relight.reports.filters import is_model
from relight.reports.narrowing import NoMatch, explain_no_match, list_given
from relight.reports.skills.averages import (
    LEAST_COVERAGE,
    WINDOW_DAYS,
    SkillEma,
    average_days,
    group_days,
    make_curve,
    read_half_life,
    show_band,
)
from relight.stats.rates import Estimate
from relight.store.queries.skills import read_days, sum_uses
from relight.text import dollars, share
from relight.web.charts.chart import Formatter
from relight.web.charts.sparks import draw_sparkline
from relight.web.page import Context, View
from relight.web.paging import cut_page
from relight.web.periods import find_days, last_of

SHOWN = 40  # skills and models on one page


class SkillLine(Struct, frozen=True, kw_only=True):
    """A skill on one model: its averages, and their drawings."""

    row: SkillEma
    known: int
    band: str
    is_covered: bool
    trend: Markup
    cost_trend: Markup


def show(view: View) -> Context:
    """Return each skill with its models, the last used first."""
    last, days = last_of(view), find_days(view)
    first = (last - timedelta(days=days - 1)).isoformat()
    before = (last - timedelta(days=days + WINDOW_DAYS - 2)).isoformat()
    half_life = read_half_life(None, None)
    found = read_days(view.store, before, last.isoformat())
    recent = group_days(day for day in found if day.day >= first)
    rows = [key for key in recent if is_model(key[1], view.filters.model)]
    whole = group_days(found)
    skills: dict[str, list[SkillLine]] = {}
    part = cut_page(view, rows, SHOWN)
    for key in part.rows:
        row = average_days(recent[key], last, half_life)
        curve = make_curve(
            whole[key], last=last, days=days, half_life=half_life, with_intervals=False
        )
        line = SkillLine(
            row=row,
            known=row.success_count + row.failure_count,
            band=show_band(row),
            is_covered=row.coverage >= LEAST_COVERAGE,
            trend=draw_trend("success", curve.success, share),
            cost_trend=draw_trend("cost per use", curve.cost_usd, dollars),
        )
        skills.setdefault(row.skill_name, []).append(line)
    return {
        "why": explain_no_skill(view) if not skills else None,
        "skills": skills,
        "verdicts": judge_skills(view.store, skills),
        "part": part,
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


def draw_trend(title: str, points: Sequence[Estimate | None], formatter: Formatter) -> Markup:
    values = [None if point is None else point.value for point in points]
    return draw_sparkline(title, values, formatter=formatter)
