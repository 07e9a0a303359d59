"""Tables of `relight skills`, with a trend of the last days in each row."""

from collections.abc import Sequence
from datetime import date, timedelta

from relight.cli import screen
from relight.reports.skills.averages import SkillEma, show_band
from relight.store.queries.skills import SkillTotal, SkillUseDay

WIDE = 100
# the session's score where no quality was recorded: it ranks sessions a little better than chance
WEAK_SCORE = "weak score"
Daily = list[SkillUseDay]


def print_stats(totals: Sequence[SkillTotal], daily: Daily) -> None:
    """Print uses, outcomes and costs of each skill and model."""
    days, used = _list_days(daily), _group_days(daily)
    own = [used.get((one.skill_name, one.model), {}) for one in totals]
    trends = [
        [_sum(each[day], "invocation_count") if day in each else None for day in days]
        for each in own
    ]
    costs = [
        screen.dollars(one.cost_usd, unpriced=one.unpriced, included=one.included_usd)
        for one in totals
    ]
    scores = ["" if one.mean_quality is None else f"{one.mean_quality:.2f}" for one in totals]
    failures = [screen.count(one.failures) for one in totals]
    columns = [
        screen.Words("skill", [one.skill_name for one in totals]),
        screen.Words("model", [one.model or "unknown" for one in totals]),
        screen.Column("runs", [screen.count(one.uses) for one in totals]),
        screen.Column("ok", [screen.count(one.successes) for one in totals]),
        screen.Column("failed", failures, colour=screen.colour_failures),
        screen.Column("unkn.", [screen.count(one.unknown) for one in totals]),
        screen.Column("cost", costs),
        screen.Column("time", [screen.seconds(one.mean_seconds) for one in totals]),
        screen.Column(WEAK_SCORE, scores, is_spare=True, drop=1),
        screen.Column("trend", [screen.trend(one) for one in trends], is_spare=True),
    ]
    screen.print_table(columns)


def print_ema(rows: Sequence[SkillEma], daily: Daily) -> None:
    """Print counts, the averages, and the plain success rate of each day."""
    days, used = _list_days(daily), _group_days(daily)
    own = [used.get((one.skill_name, one.model), {}) for one in rows]
    rates = [[_success_rate(each.get(day, [])) for day in days] for each in own]
    counts = [(one.success_count, one.success_count + one.failure_count) for one in rows]
    trends = [screen.trend(each, highest=1) for each in rates]
    columns = [
        screen.Words("skill", [one.skill_name for one in rows]),
        screen.Words("model", [one.model or "unknown" for one in rows]),
        screen.Column("succeeded", [f"{good:,} of {known:,}" for good, known in counts]),
        screen.Column("lately", [show_band(one) for one in rows]),
        screen.Column("a call", [screen.dollars(one.ema_cost_per_call) for one in rows]),
        screen.Column("time", [screen.seconds(one.ema_duration_s) for one in rows]),
        screen.Column("unkn.", [screen.count(one.unknown_count) for one in rows]),
        screen.Column("trend", trends, is_spare=True),
    ]
    screen.print_table(columns)


def _group_days(daily: Daily) -> dict[tuple[str, str | None], dict[str, Daily]]:
    """Return the rows of each skill and model by day: one per provider."""
    found: dict[tuple[str, str | None], dict[str, Daily]] = {}
    for row in daily:
        own = found.setdefault((row.skill_name, row.model), {})
        own.setdefault(row.day, []).append(row)
    return found


def _list_days(daily: Daily) -> list[str]:
    """Return the days up to the newest on record, as many as fit."""
    days = [row.day for row in daily if row.day != "unknown"]
    if not days:
        return []
    last = date.fromisoformat(max(days))
    shown = 14 if screen.Printer().width >= WIDE else 7
    return [(last - timedelta(days=back)).isoformat() for back in range(shown - 1, -1, -1)]


def _sum(rows: Daily, name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def _success_rate(rows: Daily) -> float | None:
    known = _sum(rows, "success_count") + _sum(rows, "failure_count")
    return _sum(rows, "success_count") / known if known else None
