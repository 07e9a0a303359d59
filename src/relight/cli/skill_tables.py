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
    columns = [screen.Column(name, is_number=False) for name in ("skill", "model")]
    columns += [screen.Column("runs"), screen.Column("ok")]
    columns += [screen.Column("failed", colour=screen.colour_failures)]
    columns += [screen.Column(name) for name in ("unkn.", "cost", "time")]
    columns += [screen.Column(WEAK_SCORE, is_spare=True, drop=1)]
    columns += [screen.Column("trend", is_spare=True)]
    days, used = _list_days(daily), _group_days(daily)
    rows = []
    for total in totals:
        own = used.get((total.skill_name, total.model), {})
        rows.append(
            [
                total.skill_name,
                total.model or "unknown",
                screen.count(total.uses),
                screen.count(total.successes),
                screen.count(total.failures),
                screen.count(total.unknown),
                screen.dollars(
                    total.cost_usd, unpriced=total.unpriced, included=total.included_usd
                ),
                screen.seconds(total.mean_seconds),
                "" if total.mean_quality is None else f"{total.mean_quality:.2f}",
                screen.trend(
                    [_sum(own[day], "invocation_count") if day in own else None for day in days]
                ),
            ]
        )
    screen.print_table(columns, rows)


def print_ema(rows: Sequence[SkillEma], daily: Daily) -> None:
    """Print counts, the averages, and the plain success rate of each day."""
    columns = [screen.Column(name, is_number=False) for name in ("skill", "model")]
    columns += [screen.Column(name) for name in ("succeeded", "lately", "a call", "time")]
    columns += [screen.Column("unkn."), screen.Column("trend", is_spare=True)]
    days, used = _list_days(daily), _group_days(daily)
    cells = []
    for row in rows:
        own = used.get((row.skill_name, row.model), {})
        cells.append(
            [
                row.skill_name,
                row.model or "unknown",
                f"{row.success_count:,} of {row.success_count + row.failure_count:,}",
                show_band(row),
                screen.dollars(row.ema_cost_per_call),
                screen.seconds(row.ema_duration_s),
                screen.count(row.unknown_count),
                screen.trend([_success_rate(own.get(day, [])) for day in days], highest=1),
            ]
        )
    screen.print_table(columns, cells)


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
