from typing import TYPE_CHECKING

import click

from relight.cli.hook_options import install_options
from relight.cli.options import current_store, name_project, print_json, reading_command, wants_json
from relight.errors import as_typed
from relight.warm.agents.settings import BUDGETS

if TYPE_CHECKING:
    from relight.reports.budgets import BudgetState

PROJECTED_OVER, OVER = 3, 4


@reading_command("budget", example="relight budget set 20/week --project . --stop")
@click.argument("action", required=False, type=click.Choice(["set", "remove"]))
@click.argument("amount", required=False, metavar="[AMOUNT/]PERIOD")
@click.option("--project", metavar="P", help="For one project: its folder, or a part of its name.")
@click.option("--source", metavar="S", help="For one agent.")
@click.option("--job", metavar="J", help="For one job.")
@click.option("--stop", "stops", is_flag=True, help="With set: stop agents when it is used up.")
@click.option("--check", is_flag=True, help="Exit with 3 if one is projected over, 4 if over.")
@install_options(BUDGETS, help="Let budgets stop this agent.")
def command(
    action: str | None,
    amount: str | None,
    project: str | None,
    source: str | None,
    job: str | None,
    stops: bool,
    check: bool,
) -> None:
    """Show what may be spent in a day, week or month, and what it will be at the end.

    `set 5/day` sets a budget for everything, or for a project, an agent or a job; `remove day`
    removes it. The range of the projection holds the end of the period 8 times of 10. What a plan
    includes is not spent. With --stop Relight's own agent and jobs stop when it is used up, and
    so does an agent that it is installed in.
    """
    if action is None and (project or source or job or stops):
        raise click.UsageError("--project, --source, --job and --stop go with set and remove")
    if action and not amount:
        raise click.UsageError(
            as_typed("write the amount and period: relight budget set 5/day")
            if action == "set"
            else as_typed("write the period: relight budget remove day")
        )
    from relight.reports import budgets

    with current_store() as store:
        if action and amount:
            scope = budgets.make_scope(store, project=name_project(project), source=source, job=job)
            if action == "set":
                if named := name_project(project):
                    budgets.check_project(store, named)
                budgets.set_limit(store, scope, amount, stops=stops)
            else:
                budgets.remove_limit(store, scope, amount.rpartition("/")[2])
        found = budgets.read_budgets(store)
    if wants_json():
        print_json(found)
    else:
        _print(found.budgets)
    states = {one.state for one in found.budgets}
    if check and "over" in states:
        raise click.exceptions.Exit(OVER)
    if check and "projected_over" in states:
        raise click.exceptions.Exit(PROJECTED_OVER)


def _print(found: "list[BudgetState]") -> None:
    from relight.cli import screen

    if not found:
        click.echo(as_typed("there is no budget: relight budget set 5/day"))
        return
    columns = [
        screen.Words("scope"),
        screen.Words("period", is_name=True),
        *(screen.Column(name) for name in ("budget", "spent")),
        screen.Column("projected", is_spare=True, drop=1),
        screen.Column("8 of 10 times", is_spare=True),
        screen.Words("state", is_name=True, colour=screen.colour_state),
    ]
    screen.print_table(columns, [_show(one) for one in found])


def _show(one: "BudgetState") -> list[str]:
    from relight.text import dollars

    low, high = one.projected_low_usd, one.projected_high_usd
    between = "" if low is None else f"{dollars(low, digits=2)} to {dollars(high, digits=2)}"
    projected = one.projected_usd
    return [
        one.scope,
        one.period,
        str(dollars(one.limit_usd, digits=2)),
        str(dollars(one.spent_usd, unpriced=one.unpriced_turns, digits=2)),
        "unknown" if projected is None else str(dollars(projected, digits=2)),
        between,
        one.state.replace("_", " ") + (", stops" if one.stops else ""),
    ]
