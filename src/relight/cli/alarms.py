import click

from relight.cli.options import Answer, current_store, relight_group
from relight.errors import as_typed


@relight_group("alarms", example="relight alarms ack 3")
def command() -> None:
    """Show jobs and models that fail more, or cost more a run, than before.

    Each job with 30 runs of known outcome is watched, and its cost from 60 runs on; a model too if
    several jobs use it. An alarm names the likely first day of the change and what changed at the
    same time. It stays until it is acknowledged, or until all is as before.
    """


@command.reading("list", example="relight alarms --all")
@click.option("--all", "is_all", is_flag=True, help="Also those that are over or acknowledged.")
def list_alarms(is_all: bool) -> Answer:
    """List the open alarms, newest first."""
    from relight.reports.alarm_watch import refresh_alarms
    from relight.reports.alarms import read_alarms

    with current_store() as store:
        refresh_alarms(store)
        found = read_alarms(store, is_open=not is_all)
    yield found
    if found.alarms:
        from relight.cli import screen

        for one in found.alarms:
            state = " (over)" if one.ended_at else ""
            state = " (acknowledged)" if one.acknowledged_at else state
            style = "dim" if state else "bold red"
            screen.print_text(f"{one.id}  {one.scope}{state}", style=style)
            screen.print_text(f"   {one.sentence}")
        if any(one.acknowledged_at is None for one in found.alarms):
            click.echo(as_typed("seen, and meant to be so? relight alarms ack ID"), err=True)
    else:
        watched = f"{found.series} series are watched" if found.series else "nothing is watched yet"
        click.echo(f"no alarm; {watched}: a job's success from its 30th run on, its cost from 60")


@command.plain("ack", example="relight alarms ack 3")
@click.argument("alarm_ids", metavar="ID...", nargs=-1, required=True)
def ack(alarm_ids: tuple[str, ...]) -> Answer:
    """Acknowledge alarms: what they found is the usual state from then on."""
    from relight.reports.alarms import AlarmList, acknowledge_alarm, read_alarms, read_id

    numbers = [read_id(one) for one in alarm_ids]
    with current_store() as store:
        done = [acknowledge_alarm(store, one) for one in numbers]
        series = read_alarms(store, is_open=True).series
    yield AlarmList(done, series)
    for one in done:
        click.echo(f"acknowledged {one.id}: {one.scope}")
