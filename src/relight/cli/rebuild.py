import click

from relight.cli.options import current_store, relight_command


@relight_command("rebuild", example="relight rebuild --prices")
@click.option("--prices", "reprice", is_flag=True, help="Look all prices up again.")
@click.option(
    "--redact", "again_redact", is_flag=True, help="Apply the current redaction rules to old tapes."
)
def command(reprice: bool, again_redact: bool) -> None:
    """Derive all figures again from the tape.

    Costs stay as recorded unless --prices is given. Sessions whose tape was pruned keep their
    figures.
    """
    from relight.cli.screen import progress_bar
    from relight.intake.rebuild import find_absent_sources, rebuild

    with current_store() as store:
        for name in find_absent_sources(store):
            note = f"sessions of {name} stay as they are: its package is not installed"
            click.echo(f"warning: {note}, or does not work", err=True)
        with progress_bar("rebuilding") as progress:
            parts = rebuild(store, reprice=reprice, again_redact=again_redact, progress=progress)
    click.echo(f"rebuilt from {parts} tape parts")
