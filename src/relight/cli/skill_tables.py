"""What `relight skills` shows: tables, with a small line of the last days for each row."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from relight.averages import SkillEma
from relight.cli import screen
from relight.comparing import Comparison

WIDE = 100
Daily = list[dict[str, Any]]


def print_stats(daily: Daily) -> None:
    """Uses, outcomes and costs of each skill and model, and how often they ran."""
    groups: dict[tuple[str, str | None], Daily] = {}
    for row in daily:
        groups.setdefault((row["skill_name"], row["model"]), []).append(row)
    headings = ["runs", "ok", "failed", "unkn.", "cost", "time", "trend"]
    columns = [screen.Column(name, is_number=False) for name in ("skill", "model")]
    columns += [screen.Column(name) for name in headings]
    rows = []
    for (skill, model), own in sorted(groups.items(), key=lambda one: (one[0][0], one[0][1] or "")):
        runs = _sum(own, "invocation_count")
        costs = [row["total_cost_usd"] for row in own if row["total_cost_usd"] is not None]
        priced = runs - _sum(own, "unpriced_count")
        cost = sum(costs) if costs else None
        rows.append(
            [
                skill,
                model or "unknown",
                screen.count(runs),
                screen.count(_sum(own, "success_count")),
                screen.count(_sum(own, "failure_count")),
                screen.count(_sum(own, "unknown_count")),
                ("≥" if cost is not None and priced < runs else "") + screen.dollars(cost),
                screen.seconds(_mean_seconds(own)),
                screen.trend(_by_day(daily, own, lambda rows: _sum(rows, "invocation_count"))),
            ]
        )
    screen.print_table(columns, rows)


def print_ema(rows: Sequence[SkillEma], daily: Daily) -> None:
    """The averages, and the plain success rate of each day beside them."""
    columns = [screen.Column(name, is_number=False) for name in ("skill", "model")]
    columns += [screen.Column(name) for name in ("success", "n_eff", "a call", "time", "runs")]
    columns += [screen.Column("unkn."), screen.Column("trend")]
    cells = []
    for row in rows:
        own = [
            one for one in daily if (one["skill_name"], one["model"]) == (row.skill_name, row.model)
        ]
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
                screen.trend(_by_day(daily, own, _success_rate), highest=1),
            ]
        )
    screen.print_table(columns, cells)


def print_comparison(found: Comparison) -> None:
    """The models of a skill, and the verdict on them."""
    columns = [screen.Column("model", is_number=False)]
    columns += [screen.Column(name) for name in ("runs", "ok", "failed", "unknown", "success")]
    columns += [screen.Column("95 %"), screen.Column("a call"), screen.Column("a success")]
    rows = [
        [
            arm.model or "unknown",
            screen.count(arm.runs),
            screen.count(arm.successes),
            screen.count(arm.failures),
            screen.count(arm.unknown),
            "–" if arm.success_rate is None else f"{arm.success_rate:.0%}",
            f"{arm.low:.0%} – {arm.high:.0%}",
            screen.dollars(arm.cost_per_call),
            screen.dollars(arm.cost_per_success),
        ]
        for arm in found.models
    ]
    screen.print_table(columns, rows)
    screen.print_text(found.verdict, style="bold")
    for note in found.notes:
        screen.print_text(note, style="dim")


def _sum(rows: Daily, name: str) -> int:
    return sum(row[name] for row in rows)


def _mean_seconds(rows: Daily) -> float | None:
    known = [row for row in rows if row["avg_duration_s"] is not None]
    total = sum(row["avg_duration_s"] * row["invocation_count"] for row in known)
    return total / _sum(known, "invocation_count") if known else None


def _success_rate(rows: Daily) -> float | None:
    known = _sum(rows, "success_count") + _sum(rows, "failure_count")
    return _sum(rows, "success_count") / known if known else None


def _by_day(
    daily: Daily, own: Daily, figure: Callable[[Daily], float | None]
) -> list[float | None]:
    """A figure for each of the last days up to the newest on record; None where nothing ran."""
    days = [row["day"] for row in daily if row["day"] != "unknown"]
    if not days:
        return []
    last = date.fromisoformat(max(days))
    found = []
    shown = 14 if screen.console().width >= WIDE else 7
    for back in range(shown - 1, -1, -1):
        day = (last - timedelta(days=back)).isoformat()
        rows = [row for row in own if row["day"] == day]
        found.append(figure(rows) if rows else None)
    return found
