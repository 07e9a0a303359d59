from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import click

from relight.cli import screen
from relight.cli.comparison import margin_option, models_option, print_comparison
from relight.cli.options import Answer, current_store, relight_group, since_option, until_option
from relight.errors import as_typed
from relight.reports.filters import read_filter
from relight.reports.skills.averages import (
    SkillAverages,
    SkillEma,
    find_window,
    query_skill_ema,
    read_half_life,
    show_band,
)
from relight.store.queries.skills import SkillTotal, SkillUseDay, is_unlinked, read_daily, sum_uses
from relight.times import read_typed

WIDE = 100
# the session's score where no quality was recorded: it ranks sessions a little better than chance
WEAK_SCORE = "weak score"
Daily = list[SkillUseDay]


def print_stats(totals: Sequence[SkillTotal], daily: Daily) -> None:
    """Print uses, outcomes and costs of each skill and model."""
    days, used = _list_days(daily), _group_days(daily)
    own = [used.get((one.skill_name, one.model), {}) for one in totals]
    trends = [
        [sum(row.invocation_count for row in each[day]) if day in each else None for day in days]
        for each in own
    ]
    costs = [
        screen.dollars(one.cost_usd, unpriced=one.unpriced, included=one.included_usd)
        for one in totals
    ]
    scores = ["" if one.mean_quality is None else f"{one.mean_quality:.2f}" for one in totals]
    failures = [screen.count(one.failures) for one in totals]
    screen.print_columns(
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
    )


def print_ema(rows: Sequence[SkillEma], daily: Daily) -> None:
    """Print counts, the averages, and the plain success rate of each day."""
    days, used = _list_days(daily), _group_days(daily)
    own = [used.get((one.skill_name, one.model), {}) for one in rows]
    sums = [[_count_ends(each.get(day, [])) for day in days] for each in own]
    rates = [[good / known if known else None for good, known in each] for each in sums]
    counts = [(one.success_count, one.success_count + one.failure_count) for one in rows]
    trends = [screen.trend(each, highest=1) for each in rates]
    screen.print_columns(
        screen.Words("skill", [one.skill_name for one in rows]),
        screen.Words("model", [one.model or "unknown" for one in rows]),
        screen.Column("succeeded", [f"{good:,} of {known:,}" for good, known in counts]),
        screen.Column("lately", [show_band(one) for one in rows]),
        screen.Column("a call", [screen.dollars(one.ema_cost_per_call) for one in rows]),
        screen.Column("time", [screen.seconds(one.ema_duration_s) for one in rows]),
        screen.Column("unkn.", [screen.count(one.unknown_count) for one in rows]),
        screen.Column("trend", trends, is_spare=True),
    )


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


def _count_ends(rows: Daily) -> tuple[int, int]:
    """Return the number of successes, and of known outcomes."""
    good = sum(row.success_count for row in rows)
    return good, good + sum(row.failure_count for row in rows)


@relight_group("skills", example="relight skills ema --half-life 5", alone="stats")
def command() -> None:
    """Show cost and success of skills, by model.

    A session's whole cost is charged to the skills it used, each with its share. Unknown outcomes
    and costs are left out of every average and counted.
    """


@command.reading("stats", example="relight skills stats --since 7d --json")
@since_option()
@until_option
@click.option("--skill", metavar="NAME", help="Only this skill.")
def stats(since: str, until: str | None, skill: str | None) -> Answer:
    """Show uses, outcomes, costs and times of each skill and model.

    The weak score is the mean quality that was recorded, else of the sessions' scores, which are a
    weak hint. --json has a row for each day, as the view skill_stats_daily in the database.
    """
    from relight.reports.skills.uses import SkillUseDays

    with current_store() as store:
        chosen = read_filter(store, since=since, until=until)
        daily = read_daily(store, since=chosen.since, until=chosen.until, skill=skill)
        totals = sum_uses(store, since=chosen.since, until=chosen.until, skill=skill)
    yield SkillUseDays(chosen.since, chosen.until, daily)
    if totals:
        print_stats(totals, daily)
    else:
        what = "a skill" if skill is None else repr(skill)
        hint = "try --since all, or `relight import`"
        click.echo(as_typed(f"no use of {what} is recorded there; {hint}"))


@command.reading("ema", example="relight skills ema --window-days 30 --half-life 5")
@click.option(
    "--window-days", type=int, default=14, metavar="N", help="How far back (default: 14)."
)
@click.option("--alpha", type=float, metavar="A", help="The newest day's weight (default: 0.3).")
@click.option(
    "--half-life", type=float, metavar="DAYS", help="Instead of alpha: when a use counts half."
)
def ema(window_days: int, alpha: float | None, half_life: float | None) -> Answer:
    """Show moving averages of each skill; the newest days count most.

    Each use is weighted by its age in days: with alpha 0.3 it counts half after 1.94 days.
    "succeeded" counts the known outcomes of the window. "lately" is the 95 % interval of the
    weighted success rate; it is left out if under half of the outcomes are known.
    """
    half_life_days = read_half_life(alpha, half_life)
    with current_store() as store:
        rows = query_skill_ema(store, window_days=window_days, half_life_days=half_life_days)
        yield SkillAverages(window_days, half_life_days, rows)
        since, today = find_window(store, window_days=window_days)
        daily = read_daily(store, since=since, until=today.isoformat())
    if rows:
        print_ema(rows, daily)
    else:
        hint = as_typed("`relight skills stats`")
        click.echo(f"no use of a skill in the last {window_days} days; {hint}")


@command.reading("compare", example="relight skills compare triage --models opus,haiku")
@click.argument("skill")
@click.option("--job", metavar="NAME", help="Only the runs in this job.")
@models_option
@margin_option
def compare(skill: str, job: str | None, models: list[str] | None, margin: float) -> Answer:
    """Show whether a cheaper model is good enough for a skill.

    Compares each model with the most expensive one, job by job: the models may have run different
    jobs. The verdict is "good enough", "worse" or "cannot tell yet"; looking often does not make
    it less reliable.
    """
    from relight.reports.comparison.models import compare_models

    with current_store() as store:
        found = compare_models(store, skill, models=models, margin=margin, job=job)
    yield found
    print_comparison(found)


@command.plain(
    "record", example="relight skills record triage --model haiku --success --cost-usd 0.02"
)
@click.argument("skill")
@click.option(
    "--invoked-at",
    metavar="TIME",
    help="When it began (default: as recorded of the session, else now).",
)
@click.option("--completed-at", metavar="TIME", help="When it ended.")
@click.option(
    "--session", "session_id", metavar="ID", help="The session; recording it again then updates it."
)
@click.option("--job", "job_id", metavar="ID", help="The job whose run it was part of.")
@click.option("--skill-version", metavar="V", help="The skill's version.")
@click.option(
    "--entry", metavar="WAY", help="How it was invoked: cron, tool, slash, preload or auto."
)
@click.option("--model", metavar="M")
@click.option("--provider", metavar="P")
@click.option("--duration-seconds", type=float, metavar="S")
@click.option("--input-tokens", type=int, metavar="N")
@click.option("--output-tokens", type=int, metavar="N")
@click.option("--cache-read-tokens", type=int, metavar="N")
@click.option("--cache-write-tokens", type=int, metavar="N")
@click.option("--cost-usd", type=float, metavar="X", help="Default: derived, else unknown.")
@click.option("--cost-status", metavar="S", help="reported, estimated, included or unknown.")
@click.option("--cost-source", metavar="S", help="The origin of the cost.")
@click.option("--success/--failure", default=None, help="Default: derived, else unknown.")
@click.option("--end-reason", metavar="TEXT")
@click.option("--quality-score", type=float, metavar="X", help="From 0 to 1.")
@click.option(
    "--share", type=float, metavar="X", help="Its share of the session (default: derived, else 1)."
)
def record(
    skill: str,
    invoked_at: str | None,
    completed_at: str | None,
    session_id: str | None,
    **known: Any,
) -> Answer:
    """Record one use of a skill by hand, or from a script.

    With a session, there is one row for each session, skill and entry: recording it again updates
    the values given and keeps the rest. A TIME is 2026-11-15T09:00:00Z, without Z in the store's
    time zone, 20261115, or Unix seconds.
    """
    from functools import partial

    from relight.reports.skills.uses import AS_KNOWN, RecordedUse, record_skill_invocation

    with current_store() as store:
        read_time = partial(read_typed, timezone=store.timezone)
        number = record_skill_invocation(
            store,
            skill_name=skill,
            invoked_at=AS_KNOWN if invoked_at is None else read_time(invoked_at),
            completed_at=None if completed_at is None else read_time(completed_at),
            session_id=session_id,
            **known,
        )
        is_apart = session_id and is_unlinked(store, number)
    yield RecordedUse(number)
    apart = f"; the session {session_id} is not recorded yet" if is_apart else ""
    click.echo(screen.clean(f"recorded a use of {skill} as number {number}{apart}"))


command.more = {"install": "skill_install", "canary": "skill_canary"}
