"""Experiments as tables for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from relight.stats.rates import Estimate
    from relight.work.experiments.comparison import Report
    from relight.work.experiments.pairs import PairedReport

# each measure in words, and how its figures are written
LINES = {
    "success_rate": ("task success, where known", "{:.1%}"),
    "first_30_failure_rate": ("failed of first 30 calls", "{:.1%}"),
    "seconds_to_first_success": ("seconds to a first success", "{:.1f}"),
    "failures_per_session": ("failed calls a session", "{:.2f}"),
    "failures_per_run": ("failed calls a run", "{:.2f}"),
    "tools_per_session": ("tools a session (no goal)", "{:.1f}"),
    "calls_per_run": ("calls a run", "{:.1f}"),
    "tokens_per_session": ("tokens a session", "tokens"),
    "tokens_per_run": ("tokens a run", "tokens"),
    "cost_usd_per_session": ("dollars a session", "{:.4f}"),
    "cost_usd_per_run": ("dollars a run", "{:.4f}"),
    "seconds_per_model_call": ("seconds a model call", "{:.2f}"),
    "seconds_per_run": ("seconds a run", "{:.1f}"),
    "missing_tools_per_session": ("calls of missing tools", "{:.2f}"),
}
WIDE = 120


def print_holdout(found: "Report", template: str | None = None) -> None:
    given = found.provisions
    click.echo(
        f"{given['warm']} provisions warm, {given['cold']} held out cold,"
        f" {given['abstained']} with nothing similar"
    )
    if not any(given.values()):
        todo = "`relight template auto` makes templates, `relight warm --install` adds them"
        what = "nothing" if template is None else f"no session with {template}"
        click.echo(f"{what} has started warm yet: {todo} to your agent")
        return
    if found.injected_tokens is not None:
        click.echo(f"the warm ones were given {found.injected_tokens:,.0f} tokens on average")
    counted = ["sessions that followed", *(f"{found.sessions[arm]:,}" for arm in ("cold", "warm"))]
    measures = {**found.measures, **found.guards}
    rows = [
        _measure_row(name, (one.cold, one.warm), one.difference, one.p_value)
        for name, one in measures.items()
        if one.cold or one.warm
    ]
    _print_table(("cold", "warm"), "warm − cold", [[*counted, "", ""], *rows])
    if (view := found.live_view) is not None:
        click.echo(
            f"live view, to be looked at as often as you like: {view.difference:+.3f}"
            f" [{view.low:+.3f}, {view.high:+.3f}] in {LINES[found.primary][0]}"
        )
    if found.probability_warm_better is not None:
        click.echo(
            f"probability that warm succeeds more often: {found.probability_warm_better:.2f}"
        )
    from relight.cli.screen import clean

    for name in found.retired:
        click.echo(f"retired, for doing harm: {clean(name)}")
    for warning in found.warnings:
        click.echo(f"mind: {warning}")
    click.echo(f"verdict: {found.verdict}")


def print_paired(found: "PairedReport") -> None:
    from relight.cli.screen import clean, dollars

    first, second = (clean(arm) for arm in found.arms)
    counts = found.pairs
    told = f"{clean(found.name)}: {second} against {first}, {counts['done']} of"
    told += f" {counts['planned']} pairs done"
    click.echo(told + (f", {counts['skipped']} left out" if counts["skipped"] else ""))
    if found.status != "done":
        click.echo(f"{found.status}" + (f": {clean(found.note)}" if found.note else ""))
    rows = [
        _measure_row(name, [one.arms[arm] for arm in found.arms], one.difference, one.p_value)
        for name, one in found.measures.items()
        if one.pairs
    ]
    if rows:
        _print_table((first, second), "difference", rows)
    if (view := found.live_view) is not None:
        click.echo(
            f"live view, to be looked at as often as you like: {view.difference:+.3f}"
            f" [{view.low:+.3f}, {view.high:+.3f}] in {LINES[found.primary][0]}"
        )
    spent = ", ".join(f"{clean(arm)} {dollars(cost)}" for arm, cost in found.cost_usd.items())
    click.echo(f"cost: {spent}")
    click.echo(f"verdict: {clean(found.verdict)}")


def print_experiments(rows: Sequence[Mapping[str, Any]]) -> None:
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
            row["name"],
            " / ".join(row["arms"]),
            row["status"],
            str(row["runs_done"]),
            str(row["runs_planned"]),
            screen.dollars(row["cost_usd"]),
            row["note"] or "",
        ]
        for row in rows
    ]
    screen.print_table(columns, shown)


def _print_table(arms: Sequence[str], difference: str, rows: Sequence[Sequence[str]]) -> None:
    """The arms side by side; their own intervals only where there is room for them."""
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
    title, form = LINES[name]
    p_told = "" if p_value is None else f"{p_value:.3f}"
    told = [*(_tell(arm, form) for arm in arms), _tell(difference, form, sign="+")]
    return [title, *told, p_told]


def _tell(estimate: "Estimate | None", form: str, *, sign: str = "") -> str:
    if estimate is None or estimate.value is None:
        return "–"
    value, low, high = (
        "?" if figure is None else _write(figure, form, sign)
        for figure in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _write(figure: float, form: str, sign: str) -> str:
    from relight.text import count

    if form == "tokens":
        mark = "-" if figure < 0 else sign
        return f"{mark}{count(abs(figure))}"
    return form.replace(":", f":{sign}").format(figure)
