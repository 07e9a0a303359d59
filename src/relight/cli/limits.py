import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from relight.cli.options import Answer, current_store, reading_command, since_option
from relight.errors import as_typed
from relight.reports.filters import read_start
from relight.times import format_moment, read_time

if TYPE_CHECKING:
    from relight.reports.limits import LimitWindow


@reading_command("limits", example="relight limits --history --since 14d")
@click.option("--history", is_flag=True, help="Show how full each earlier window got, too.")
@since_option()
def command(history: bool, since: str) -> Answer:
    """Show how full the windows of plans are, and where that leads.

    Agents with a plan allow so much in five hours and in a week. A window is reported by the agent,
    or a block: it begins at the full hour of its first turn. `used` is reported by the agent, by a
    limit set in config.toml, or estimated (≈) by the last window of which both were known.
    """
    from relight.reports.limits import read_limits_report
    from relight.reports.plan_worth import describe_plan, find_unknown_plans
    from relight.text import clean

    with current_store() as store:
        start = (read_start(store, since) or 0) if history else None
        found = read_limits_report(store, history_since=start)
        timezone = store.timezone
        notes = find_unknown_plans(store.config.plans, store.config.limits)
    for note in notes:
        click.echo(clean(f"warning: {note}"), err=True)
    yield found
    if found.windows:
        _print(found.windows, timezone)
    else:
        click.echo("no window is open: no agent with a plan has worked in these days")
    for plan in found.plans:
        click.echo(clean(describe_plan(plan)))
    if any(plan.paid_usd and not plan.value_usd for plan in found.plans):
        hint = "a plan pays for what is recorded from now on; for earlier sessions:"
        click.echo(as_typed(f"{hint} relight rebuild --prices"), err=True)


def _print(windows: "Sequence[LimitWindow]", timezone: str) -> None:
    from relight.cli import screen

    now = time.time()
    columns = [
        screen.Words("agent"),
        screen.Words("window", is_name=True),
        screen.Column("used", colour=colour_percent),
        screen.Column("worth"),
        screen.Column("tokens", is_spare=True, drop=1),
        screen.Column("an hour", is_spare=True),
        screen.Column("by its end", colour=colour_percent),
        screen.Words("ends", is_name=True),
    ]
    rows = [_cells(window, now, timezone) for window in windows]
    screen.print_table(columns, rows)
    for window in windows:
        if window.is_current:
            screen.print_text(_describe(window, timezone), style="dim")
    if any(window.is_current and window.used_percent is None for window in windows):
        hint = "to see how full a window is: relight statusline --install (its agent reports it),"
        click.echo(as_typed(f"{hint} or set [limits.SOURCE] in config.toml"), err=True)


def _cells(window: "LimitWindow", now: float, timezone: str) -> list[str]:
    from relight.cli.screen import count, dollars, seconds

    ends_at = read_time(window.ends_at) or 0
    ends = f"in {seconds(ends_at / 1000 - now)}"
    if not window.is_current:
        ends = format_moment(ends_at, timezone)
    ahead = "–"
    if window.projected_percent is not None:
        ahead = format_percent(window.projected_percent, window.basis)
    elif window.projected_usd is not None:
        ahead = dollars(window.projected_usd, unpriced=window.unpriced_turns, digits=2)
    rate = window.burn_usd_per_hour
    return [
        window.source if window.account is None else f"{window.source} {window.account}",
        window.kind,
        format_percent(window.used_percent, window.basis),
        dollars(window.value_usd, unpriced=window.unpriced_turns) if window.turns else "–",
        count(window.tokens),
        "–" if rate is None else dollars(rate, unpriced=window.unpriced_turns, digits=2),
        ahead,
        ends,
    ]


def format_percent(value: float | None, basis: str) -> str:
    """Return a percentage; an estimate is marked.

    >>> [format_percent(None, "set"), format_percent(41.6, "reported")]
    ['–', '42%']
    >>> format_percent(41.6, "estimated")
    '≈42%'
    """
    if value is None:
        return "–"
    return f"{'≈' if basis == 'estimated' else ''}{value:.0f}%"


def colour_percent(cell: str) -> str:
    """Return the colour of how full a window is.

    >>> [colour_percent(one) for one in ("≈42%", "80%", "104%", "$3.10")]
    ['', 'yellow', 'red', '']
    """
    if not cell.endswith("%"):
        return ""
    percent = float(cell.strip("≈%"))
    return "red" if percent >= 100 else "yellow" if percent >= 80 else ""


def _describe(window: "LimitWindow", timezone: str) -> str:
    text = f"{window.source} {window.kind}: {window.rests_on}"
    if window.basis != "reported" and window.used_percent is not None:
        text = f"{window.source} {window.kind}: {window.basis}, {window.rests_on}"
    if (full_at := read_time(window.limit_at)) is not None:
        text += f"; full at {format_moment(full_at, timezone)} at this rate"
    return text
