"""Tables of `relight skills`, with a trend of the last days in each row."""

from collections.abc import Sequence
from datetime import date, timedelta

from relight.cli import screen
from relight.reports.skills.averages import SkillEma
from relight.reports.skills.comparison import Comparison
from relight.store.queries.skills import SkillTotal, SkillUseDay

WIDE = 100
Daily = list[SkillUseDay]


def print_stats(totals: Sequence[SkillTotal], daily: Daily) -> None:
    """Print uses, outcomes and costs of each skill and model."""
    headings = ["runs", "ok", "failed", "unkn.", "cost", "time", "trend"]
    columns = [screen.Column(name, is_number=False) for name in ("skill", "model")]
    columns += [screen.Column(name, is_spare=name == "trend") for name in headings]
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
                screen.dollars(total.cost_usd, unpriced=total.unpriced),
                screen.seconds(total.mean_seconds),
                screen.trend(
                    [_sum(own[day], "invocation_count") if day in own else None for day in days]
                ),
            ]
        )
    screen.print_table(columns, rows)


def print_ema(rows: Sequence[SkillEma], daily: Daily) -> None:
    """Print the averages with the plain success rate of each day."""
    columns = [screen.Column(name, is_number=False) for name in ("skill", "model")]
    columns += [screen.Column(name) for name in ("success", "n_eff", "a call", "time", "runs")]
    columns += [screen.Column("unkn."), screen.Column("trend", is_spare=True)]
    days, used = _list_days(daily), _group_days(daily)
    cells = []
    for row in rows:
        own = used.get((row.skill_name, row.model), {})
        rate = row.ema_success_rate
        cells.append(
            [
                row.skill_name,
                row.model or "unknown",
                "–" if rate is None else f"{rate:.0%}",
                f"{row.n_eff:.1f}",
                screen.dollars(row.ema_cost_per_call),
                screen.seconds(row.ema_duration_s),
                screen.count(row.sample_count),
                screen.count(row.unknown_count),
                screen.trend([_success_rate(own.get(day, [])) for day in days], highest=1),
            ]
        )
    screen.print_table(columns, cells)


def print_comparison(found: Comparison) -> None:
    """Print the models of a skill and the verdict on them."""
    columns = [screen.Column("model", is_number=False)]
    headings = ("runs", "ok", "failed", "unkn.", "rate", "95 %", "a call", "a success")
    columns += [screen.Column(name) for name in headings]
    rows = [
        [
            arm.model or "unknown",
            screen.count(arm.runs),
            screen.count(arm.successes),
            screen.count(arm.failures),
            screen.count(arm.unknown),
            "–" if arm.success_rate is None else f"{arm.success_rate:.0%}",
            f"{arm.low * 100:.0f}–{arm.high:.0%}",
            screen.dollars(arm.cost_per_call),
            screen.dollars(arm.cost_per_success) if arm.successes else "–",
        ]
        for arm in found.models
    ]
    screen.print_table(columns, rows)
    screen.print_text(found.verdict, style="bold")
    for note in found.notes:
        screen.print_text(note, style="dim")


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
    shown = 14 if screen.console().width >= WIDE else 7
    return [(last - timedelta(days=back)).isoformat() for back in range(shown - 1, -1, -1)]


def _sum(rows: Daily, name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def _success_rate(rows: Daily) -> float | None:
    known = _sum(rows, "success_count") + _sum(rows, "failure_count")
    return _sum(rows, "success_count") / known if known else None
