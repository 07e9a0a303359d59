from typing import TYPE_CHECKING

import click

from relight.cli.options import (
    current_store,
    json_option,
    print_json,
    reading_command,
    relight_command,
    relight_group,
)
from relight.errors import as_typed

if TYPE_CHECKING:
    from relight.reports.alarms import Alarm


@relight_group("alarms", example="relight alarms ack 3")
def command() -> None:
    """Show jobs and models that fail more, or cost more a run, than before.

    Each job with 30 runs of known outcome is watched, and its cost from 60 runs on; a model too if
    several jobs use it. An alarm names the likely first day of the change and what changed at the
    same time. It stays until it is acknowledged, or until all is as before.
    """


@reading_command("list", example="relight alarms --all")
@click.option("--all", "is_all", is_flag=True, help="Also those that are over or acknowledged.")
@json_option
def list_alarms(is_all: bool, as_json: bool) -> None:
    """List the open alarms, newest first."""
    from relight.reports.alarm_watch import refresh_alarms
    from relight.reports.alarms import read_alarms

    with current_store() as store:
        refresh_alarms(store)
        found = read_alarms(store, is_open=not is_all)
    if as_json:
        print_json(found)
    elif found.alarms:
        for one in found.alarms:
            _print(one)
        if any(one.acknowledged_at is None for one in found.alarms):
            click.echo(as_typed("seen, and meant to be so? relight alarms ack ID"), err=True)
    else:
        watched = f"{found.series} series are watched" if found.series else "nothing is watched yet"
        click.echo(f"no alarm; {watched}: a job's success from its 30th run on, its cost from 60")


@relight_command("ack", example="relight alarms ack 3")
@click.argument("alarm_ids", metavar="ID...", nargs=-1, required=True)
@json_option
def ack(alarm_ids: tuple[str, ...], as_json: bool) -> None:
    """Acknowledge alarms: what they found is the usual state from then on."""
    from relight.reports.alarms import AlarmList, acknowledge_alarm, read_alarms, read_id

    numbers = [read_id(one) for one in alarm_ids]
    with current_store() as store:
        done = [acknowledge_alarm(store, one) for one in numbers]
        series = read_alarms(store, is_open=True).series
    if as_json:
        print_json(AlarmList(done, series))
        return
    for one in done:
        click.echo(f"acknowledged {one.id}: {one.scope}")


def _print(one: "Alarm") -> None:
    from relight.cli import screen

    state = " (over)" if one.ended_at else ""
    state = " (acknowledged)" if one.acknowledged_at else state
    is_open = not state
    screen.print_text(f"{one.id}  {one.scope}{state}", style="bold red" if is_open else "dim")
    screen.print_text(f"   {one.sentence}")


for each in (list_alarms, ack):
    command.add_command(each)
