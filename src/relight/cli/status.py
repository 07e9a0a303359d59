import click

from relight.cli.options import Answer, current_store, relight_command
from relight.errors import as_typed


@relight_command("status", example="relight status --json")
def command() -> Answer:
    """Show the server that this machine pushes to, and what is pending.

    On the server itself it shows how far the index is behind what was pushed.
    """
    from relight.cli.screen import clean
    from relight.intake.joining import read_status
    from relight.text import plural
    from relight.times import format_minute

    with current_store() as store:
        found = read_status(store)
    yield found
    if not found.joined:
        click.echo(as_typed("this machine pushes nowhere: relight join URL --token-file FILE"))
    else:
        click.echo(f"{found.machine} shares {found.share} with {found.url}")
        last = format_minute(found.last_push_at, store.timezone)
        click.echo(f"last push: {last}; {plural(found.pending, 'item')} pending")
        if found.behind:
            click.echo(f"the server had {plural(found.behind, 'part')} to derive then")
        if found.trouble:
            click.echo(f"the last push failed: {clean(found.trouble)}")
    if (here := found.pushed_here) is not None:
        waited = f", the first for {here.behind_seconds:.0f} s" if here.behind else ""
        failed = f", {here.failed} cannot be read" if here.failed else ""
        click.echo(f"pushed here: {plural(here.behind, 'part')} to derive{waited}{failed}")
