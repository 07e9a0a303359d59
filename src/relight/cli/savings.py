from typing import TYPE_CHECKING

import click

from relight.cli.comparison import margin_option
from relight.cli.options import Answer, current_store, reading_command

if TYPE_CHECKING:
    from relight.reports.savings import SavingCandidate, SavingItem

SHOWN_ITEMS = 20


@reading_command("savings", example="relight savings --model gpt-5-mini")
@click.option(
    "--model", "models", multiple=True, metavar="M", help="Another candidate; repeatable."
)
@margin_option
def command(models: tuple[str, ...], margin: float) -> Answer:
    """Show what cheaper models would save in jobs and skills, and what it takes to know.

    Models that ran the same job are judged by their runs; others are known by their price only:
    those that the same agents used in the last 90 days, and those of --model.
    """
    from relight.reports.savings import read_savings

    with current_store() as store:
        found = read_savings(store, models=models, margin=margin)
    yield found
    if not found.items:
        click.echo("no job and no skill ran in the last 30 days")
        return
    _print([one for one in found.items if one.candidates][:SHOWN_ITEMS])
    if rest := [one for one in found.items if not one.candidates]:
        from relight.cli import screen

        names = ", ".join(f"{one.title} ({_month(one)})" for one in rest[:8])
        more = f" and {len(rest) - 8} more" if len(rest) > 8 else ""
        screen.print_text(f"no cheaper model is known for {names}{more}", style="dim")


def _print(items: "list[SavingItem]") -> None:
    from relight.cli import screen

    columns = [
        screen.Words("job or skill, model", is_name=True),
        screen.Column("a month"),
        screen.Column("saves"),
        screen.Words("verdict", lines=2, colour=screen.colour_state),
        screen.Words("to know it", lines=3),
    ]
    rows = []
    for item in items:
        rows.append([item.title, _month(item), "", "", ""])
        rows += [[f"  {item.model}", "", "", "in use", ""]] if item.model else []
        rows += [_cells(one) for one in item.candidates]
    if rows:
        screen.print_table(columns, rows)
        screen.print_text(
            "costs and savings are of the last 30 days; a skill's runs may be a job's as well",
            style="dim",
        )


def _month(item: "SavingItem") -> str:
    from relight.cli import screen

    return screen.dollars(item.month_usd, unpriced=item.unpriced_runs)


def _cells(one: "SavingCandidate") -> list[str]:
    from relight.cli import screen
    from relight.reports.savings import describe_need

    saving = screen.dollars(one.saving_month_usd)
    return [f"  {one.model}", "", saving, one.verdict, describe_need(one)]
