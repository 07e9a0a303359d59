"""Experiments as tables for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from relight.stats.rates import Estimate
    from relight.stats.trials import LiveView
    from relight.work.experiments.budget import ExperimentSummary
    from relight.work.experiments.holdout import HoldoutReport
    from relight.work.experiments.metrics import ArmMetric
    from relight.work.experiments.pairs import PairedReport

WIDE = 120


def print_holdout(found: "HoldoutReport", template: str | None = None) -> None:
    given = found.provisions
    click.echo(
        f"{given['warm']} provisions warm, {given['cold']} held out cold,"
        f" {given['abstained']} without a similar template"
    )
    if not any(given.values()):
        todo = "`relight template auto` makes templates, `relight warm --install` adds them"
        what = "nothing" if template is None else f"no session with {template}"
        click.echo(f"{what} has started warm yet: {todo} to your agent")
        return
    if found.injected_tokens is not None:
        click.echo(f"warm starts have {found.injected_tokens:,.0f} tokens on average")
    counted = ["sessions that followed", *(f"{found.sessions[arm]:,}" for arm in ("cold", "warm"))]
    measures = {**found.measures, **found.guards}
    rows = [
        _measure_row(name, (one.cold, one.warm), one.difference, one.p_value)
        for name, one in measures.items()
        if one.cold or one.warm
    ]
    _print_table(("cold", "warm"), "warm − cold", [[*counted, "", ""], *rows])
    _print_live(found.live_view, found.primary)
    if found.probability_warm_better is not None:
        click.echo(
            f"probability that warm succeeds more often: {found.probability_warm_better:.2f}"
        )
    from relight.cli.screen import clean

    for name in found.retired:
        click.echo(f"retired because it did harm: {clean(name)}")
    for warning in found.warnings:
        click.echo(f"warning: {warning}")
    click.echo(f"verdict: {found.verdict}")


def print_paired(found: "PairedReport") -> None:
    from relight.cli.screen import clean, dollars

    first, second = (clean(arm) for arm in found.arms)
    counts = found.pairs
    text = f"{clean(found.name)}: {second} against {first}, {counts['done']} of"
    text += f" {counts['planned']} pairs done"
    click.echo(text + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    if found.status != "done":
        click.echo(f"{found.status}" + (f": {clean(found.note)}" if found.note else ""))
    rows = [
        _measure_row(name, [one.arms[arm] for arm in found.arms], one.difference, one.p_value)
        for name, one in found.measures.items()
        if one.pairs
    ]
    if rows:
        _print_table((first, second), "difference", rows)
    _print_live(found.live_view, found.primary)
    spent = ", ".join(f"{clean(arm)} {dollars(cost)}" for arm, cost in found.cost_usd.items())
    click.echo(f"cost: {spent}")
    click.echo(f"verdict: {clean(found.verdict)}")


def print_experiments(rows: "Sequence[ExperimentSummary]") -> None:
    from relight.cli import screen

    if not rows:
        click.echo("no experiments yet; `relight experiment start --help` shows how to run one")
        return
    columns = [screen.Column("name", is_name=True)]
    columns += [screen.Column(name, is_number=False) for name in ("arms", "status")]
    columns += [screen.Column(name) for name in ("runs", "of", "cost")]
    columns += [screen.Column("note", is_number=False)]
    shown = [
        [
            row.name,
            " / ".join(row.arms),
            row.status,
            str(row.runs_done),
            str(row.runs_planned),
            screen.dollars(row.cost_usd),
            row.note or "",
        ]
        for row in rows
    ]
    screen.print_table(columns, shown)


def _print_table(arms: Sequence[str], difference: str, rows: Sequence[Sequence[str]]) -> None:
    """Print the arms side by side, with their intervals if there is room."""
    from relight.cli import screen

    columns = [screen.Column("", is_name=True), *(screen.Column(arm) for arm in arms)]
    columns += [screen.Column(difference), screen.Column("p")]
    if screen.console().width < WIDE:
        rows = [[row[0], *(cell.partition(" [")[0] for cell in row[1:3]), *row[3:]] for row in rows]
    screen.print_table(columns, rows)


def _measure_row(
    name: str,
    arms: "Sequence[Estimate | None]",
    difference: "Estimate | None",
    p_value: float | None,
) -> list[str]:
    from relight.work.experiments.metrics import METRICS

    metric = METRICS[name]
    p_text = "" if p_value is None else f"{p_value:.3f}"
    cells = [*(_format(metric, arm) for arm in arms), _format(metric, difference, is_signed=True)]
    return [metric.title.lower(), *cells, p_text]


def _format(metric: "ArmMetric", estimate: "Estimate | None", *, is_signed: bool = False) -> str:
    """Return an estimate with its interval."""
    if estimate is None or estimate.value is None:
        return "–"
    write = metric.format_signed if is_signed else metric.format
    value, low, high = (
        "?" if figure is None else write(figure)
        for figure in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _print_live(view: "LiveView | None", primary: str) -> None:
    from relight.work.experiments.metrics import METRICS

    if view is not None:
        click.echo(
            f"live view, valid at any time: {view.difference:+.3f}"
            f" [{view.low:+.3f}, {view.high:+.3f}] in {METRICS[primary].title.lower()}"
        )
