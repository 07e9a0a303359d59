import click

from relight.cli.options import current_store, relight_command


@relight_command("rebuild", example="relight rebuild --prices")
@click.option(
    "--prices", "reprice", is_flag=True, help="Look all prices up again, and apply your plans."
)
@click.option(
    "--redact", "again_redact", is_flag=True, help="Apply the current redaction rules to old tapes."
)
def command(reprice: bool, again_redact: bool) -> None:
    """Derive all figures again from the tape.

    Costs stay as recorded unless --prices is given: it looks prices up and applies [prices] and
    [plans] of config.toml. Sessions whose tape was pruned, is damaged or
    takes more than a minute of CPU time for a stretch keep their figures.
    """
    from relight.cli.progress import progress_bar
    from relight.intake.rebuild import find_absent_sources, rebuild
    from relight.reports.plan_worth import find_unknown_plans
    from relight.sources import is_source
    from relight.store.queries.costs import sum_included
    from relight.text import dollars

    with current_store() as store:
        for name in find_absent_sources(store):
            note = f"sessions of {name} stay as they are: its package is not installed"
            click.echo(f"warning: {note}, or does not work", err=True)
        for note in find_unknown_plans(store.config.plans):
            click.echo(f"warning: {note}", err=True)
        with progress_bar("rebuilding") as progress:
            rebuilt = rebuild(store, reprice=reprice, again_redact=again_redact, progress=progress)
        included = sum_included(store)
    for damage in rebuilt.damaged:
        place = f"the tape of {damage.file} from byte {damage.offset}"
        note = f"{damage.session_id} stays as it is: {place} cannot be read: {damage.reason}"
        click.echo(f"warning: {note}", err=True)
    click.echo(f"rebuilt from {rebuilt.parts - len(rebuilt.damaged)} tape parts")
    if reprice and (included or any(map(is_source, store.config.plans))):
        click.echo(f"included in plans, at list price: {dollars(included)}")
