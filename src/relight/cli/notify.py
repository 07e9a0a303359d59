import time

import click

from relight.cli.options import Answer, current_store, relight_command
from relight.errors import RelightError

HINT = 'set command, webhook or file in [notify] of config.toml, as in file = "~/failed-runs.jsonl"'


@relight_command("notify", example="relight notify --test")
@click.option("--test", "is_test", is_flag=True, help="Send a trial notification now.")
def command(is_test: bool) -> Answer:
    """Show where failed runs are reported to, or send a trial.

    `[notify]` in config.toml names a command, a webhook or a file. It gets one JSON object for each
    failed run of any job, those of other agents' schedulers included, once.
    """
    from relight.reports.doctor import read_notify_health

    with current_store() as store:
        found = read_notify_health(store)
        to = store.config.notify.to
        if is_test:
            if to is None:
                raise RelightError("no [notify] is set", HINT)
            from relight.work.notices import make_body, send
            from relight.work.sending import find_reason

            now = round(time.time() * 1000)
            text = "This is a trial of Relight's notifications."
            try:
                send(store, to, make_body(store, "test", str(now), text, {}, at=now))
            except Exception as error:  # any error of the user's program or webhook
                reason = find_reason(error, to)
                hint = "mend [notify] in config.toml and try again"
                raise RelightError(f"{found.to} could not be notified: {reason}", hint) from error
    yield found
    if is_test:
        click.echo(f"sent a trial to {found.to}")
        return
    if found.to is None:
        click.echo(f"failed runs are reported nowhere: {HINT}")
        return
    click.echo(
        f"failed runs are reported to {found.to}: {found.sent} sent, {found.waiting} waiting"
    )
    if found.failed:
        click.echo(f"{found.failed} could not be sent: {found.error}")
