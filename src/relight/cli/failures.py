from typing import TYPE_CHECKING

import click

from relight.cli.options import current_store, json_option, print_json, relight_command
from relight.reports.filters import DEFAULT_SINCE, read_filter

if TYPE_CHECKING:
    from relight.reports.failures import FailureReport, SessionSpiral

TEXT_ROWS = 20


@relight_command("failures", example="relight failures --since 7d")
@click.option("--since", default=DEFAULT_SINCE, metavar="D", help="2026-05-01, 7d or all.")
@json_option
def command(since: str, as_json: bool) -> None:
    """Show failures by kind and tool, and spirals.

    A failure is a tool call that could not do what it was asked, or a model call without a
    response. A spiral is the same failing call three times or more, or one tool failing five times
    in a row. Its tokens and cost are those of the turns that made the calls.
    """
    from relight.reports.failures import FailuresSince, read_failures

    with current_store() as store:
        found = read_failures(store, read_filter(store, since=since))
    if as_json:
        print_json(FailuresSince(since, failures=found.failures, spirals=found.spirals))
    elif not found.failures:
        click.echo("no failures; `--since all` looks further back")
    else:
        _print(found)


def _print(found: "FailureReport") -> None:
    from relight.cli import screen

    columns = [
        screen.Column("kind", is_number=False),
        screen.Column("tool", is_number=False),
        screen.Column("count"),
        screen.Column("sess."),
        screen.Column("example", is_number=False),
    ]
    rows = [
        [
            one.kind,
            one.tool or "(model call)",
            screen.count(one.count),
            screen.count(one.sessions),
            one.example or one.reason or "",
        ]
        for one in found.failures[:TEXT_ROWS]
    ]
    screen.print_table(columns, rows)
    if len(found.failures) > TEXT_ROWS:
        screen.print_text(f"… and {len(found.failures) - TEXT_ROWS} more kinds", style="dim")
    for spiral in found.spirals[:TEXT_ROWS]:
        screen.print_text(f"spiral: {spiral.session} {describe_spiral(spiral)}")


def describe_spiral(spiral: "SessionSpiral") -> str:
    from relight.cli.screen import count, dollars

    what = "the same failing call" if spiral.kind == "identical" else "failed"
    times = f"{spiral.tool}: {what} {spiral.count} times"
    if spiral.tokens is None:
        return times
    cost = dollars(spiral.cost_usd, unpriced=spiral.unpriced_turns)
    about = "about " if spiral.is_estimated else ""
    return f"{times}, {about}{count(spiral.tokens)} tokens, {cost}"
