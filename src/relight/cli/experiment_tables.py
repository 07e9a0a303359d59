"""Experiments as tables for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from relight.errors import as_typed

if TYPE_CHECKING:
    from relight.stats.rates import Estimate
    from relight.warm.plans import WarmPlan
    from relight.work.experiments.holdout import HoldoutReport
    from relight.work.experiments.lesson_effect import LessonEffect
    from relight.work.experiments.metrics import ArmMetric
    from relight.work.experiments.pairs import PairedReport
    from relight.work.experiments.register import ExperimentSummary

WIDE = 140


def print_holdout(found: "HoldoutReport", template: str | None = None) -> None:
    from relight.cli.screen import clean

    given = found.provisions
    if not found.lessons and not any(given.values()) and found.plan.number in (None, 1):
        todo = as_typed(
            "`relight template auto` makes templates, `relight warm --install` adds them"
        )
        what = "nothing" if template is None else f"no session with {clean(template)}"
        click.echo(f"{what} has started warm yet: {todo} to your agent")
        return
    for sentence in found.sentences:
        click.echo(sentence)
    if (found.plan.number or 0) > 1:
        hint = as_typed("`relight experiment plan` lists the earlier ones")
        begun = (found.plan.begun_at or "")[:10]
        click.echo(f"this is plan {found.plan.number}, since {begun}; {hint}")
    click.echo(
        f"dealt: {given['warm']:,} warm, {given['cold']:,} held out cold;"
        f" {given['abstained']:,} had no template to deal"
    )
    if found.injected_tokens is not None:
        click.echo(f"warm starts have {found.injected_tokens:,.0f} tokens on average")
    counted = [
        "recorded sessions",
        *(f"{found.sessions[arm]:,}" for arm in ("cold", "warm")),
        "",
        "",
    ]
    measures = {**found.measures, **found.guards}
    rows = [
        _measure_row(
            name, (one.cold, one.warm), (one.cold_sessions, one.warm_sessions), one.difference
        )
        for name, one in measures.items()
        if one.cold or one.warm
    ]
    _print_table(("cold", "warm"), "warm − cold", [counted, *rows])
    for name in found.retired:
        click.echo(f"retired because it did harm: {clean(name)}")
    for warning in found.warnings:
        click.echo(f"warning: {warning}")
    if found.lessons:
        _print_lessons(found.lessons)


def _print_lessons(found: "LessonEffect") -> None:
    from relight.cli import screen

    arms = found.sessions
    click.echo(f"\nlessons: {arms['given']:,} sessions given, {arms['held_out']:,} held out")
    for sentence in found.sentences:
        click.echo(sentence)
    if found.unread:
        hint = as_typed("`relight lessons` reads them")
        click.echo(f"{found.unread:,} sessions are not read for failures yet; {hint}")
    if found.lessons:
        given = [f"{one.given_failed:,} of {one.given_sessions:,}" for one in found.lessons]
        held = [f"{one.held_out_failed:,} of {one.held_out_sessions:,}" for one in found.lessons]
        screen.print_columns(
            screen.Words("lesson", [one.text for one in found.lessons], lines=3),
            screen.Column("failed, given", given),
            screen.Column("failed, held out", held),
        )


def print_plans(plans: "Sequence[WarmPlan]") -> None:
    from relight.cli import screen

    if plans[0].number is None:
        click.echo("no session was dealt to an arm yet; the first one begins with this plan:")
    success = [f"+{plan.effect * 100:g} points" if plan.has_success else "" for plan in plans]
    early = [
        f"−{plan.early_effect * 100:g} points" if plan.has_early_failures else "" for plan in plans
    ]
    lessons = [f"−{plan.cause_effect * 100:g} points" for plan in plans]
    screen.print_columns(
        screen.Column("plan", ["–" if one.number is None else str(one.number) for one in plans]),
        screen.Words("compares", [plan.measure.replace("_", " ") for plan in plans]),
        screen.Column("success", success),
        screen.Column("early failures", early),
        screen.Column("lessons", lessons, is_spare=True, drop=2),
        screen.Column("error", [screen.share(one.error) for one in plans], is_spare=True, drop=1),
        # as numbers: a day is never cut
        screen.Column("from", [(plan.begun_at or "")[:10] for plan in plans]),
        screen.Column("to", [(plan.ended_at or "")[:10] for plan in plans]),
    )


def print_paired(found: "PairedReport") -> None:
    from relight.cli.screen import clean, dollars

    first, second = (clean(arm) for arm in found.arms)
    counts = found.pairs
    click.echo(f"{clean(found.verdict[:1].upper() + found.verdict[1:])}.")
    text = f"{clean(found.name)}: {second} against {first}, {counts['done']} of"
    text += f" {counts['planned']} pairs done"
    click.echo(text + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    if found.status != "done":
        click.echo(f"{found.status}" + (f": {clean(found.note)}" if found.note else ""))
    rows = [
        _measure_row(
            name,
            [one.arms[arm] for arm in found.arms],
            (one.pairs, one.pairs),
            one.difference,
            one.p_value,
        )
        for name, one in found.measures.items()
        if one.pairs
    ]
    if rows:
        _print_table((first, second), "difference", rows)
    spent = ", ".join(f"{clean(arm)} {dollars(cost)}" for arm, cost in found.cost_usd.items())
    click.echo(f"cost: {spent}")


def print_experiments(rows: "Sequence[ExperimentSummary]") -> None:
    from relight.cli import screen

    if not rows:
        hint = as_typed("`relight experiment start --help` shows how to run one")
        click.echo(f"no experiments yet; {hint}")
        return
    states, colour = [row.status for row in rows], screen.colour_state
    screen.print_columns(
        screen.Column("name", [row.name for row in rows], is_name=True),
        screen.Words("arms", [" / ".join(row.arms) for row in rows]),
        screen.Words("status", states, is_name=True, colour=colour),
        screen.Column("runs", [str(row.runs_done) for row in rows]),
        screen.Column("of", [str(row.runs_planned) for row in rows]),
        screen.Column("cost", [screen.dollars(row.cost_usd) for row in rows]),
        screen.Words("note", [row.note or "" for row in rows], lines=2),
    )


def _print_table(arms: Sequence[str], difference: str, rows: Sequence[Sequence[str]]) -> None:
    """Print the arms side by side, with their intervals if there is room."""
    from relight.cli import screen

    columns = [screen.Words("", lines=2), *map(screen.Column, arms)]
    columns += [screen.Column(difference)]
    if any(row[4] for row in rows):
        columns.append(screen.Column("p", is_spare=True))
    if screen.Printer().width < WIDE:
        rows = [[row[0], *(cell.partition(" [")[0] for cell in row[1:3]), *row[3:]] for row in rows]
    rows = [row[: len(columns)] for row in rows]
    screen.print_table(columns, rows)


def _measure_row(
    name: str,
    arms: "Sequence[Estimate | None]",
    counts: Sequence[int],
    difference: "Estimate | None",
    p_value: float | None = None,
) -> list[str]:
    from relight.work.experiments.metrics import METRICS

    metric = METRICS[name]
    return [
        metric.title.lower(),
        *(_format(metric, arm, count) for arm, count in zip(arms, counts, strict=True)),
        "–" if difference is None else metric.format_difference(difference),
        "" if p_value is None else f"{p_value:.3f}",
    ]


def _format(metric: "ArmMetric", estimate: "Estimate | None", count: int) -> str:
    """Return an estimate with its interval; the count of successes comes first."""
    if estimate is None or estimate.value is None:
        return "–"
    text = metric.format(estimate.value)
    if metric.name == "success_rate":
        text = f"{estimate.value * count:.0f} of {count:,}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{metric.format(estimate.low)}, {metric.format(estimate.high)}]"
