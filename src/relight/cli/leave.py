import click

from relight.cli.options import confirm, current_store, relight_command, yes_option
from relight.text import plural


@relight_command("leave", example="relight leave --forget")
@click.option("--forget", is_flag=True, help="Also remove from the server what this machine sent.")
@yes_option
def command(forget: bool) -> None:
    """Stop pushing to the server that this machine has joined.

    The record here stays. With --forget the server deletes what this machine sent; a session that
    another machine sent too stays there as that machine's.
    """
    from relight.intake.joining import leave, need_target

    with current_store() as store:
        target = need_target(store)
        if forget:
            confirm(f"remove everything that {target.name} sent from {target.url}?")
        gone = leave(store, forget=forget)
    click.echo(f"left {target.url}")
    if gone is not None:
        click.echo(f"{plural(gone, 'session')} removed there")
