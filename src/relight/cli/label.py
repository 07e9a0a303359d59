import click

from relight.cli.options import current_store, reading_command
from relight.model import OUTCOMES


@reading_command("label", example='relight label codex:01a1dd31 failure --why "wrong file"')
@click.argument("session")
@click.argument("outcome", type=click.Choice(OUTCOMES))
@click.option("--why", metavar="TEXT", help="The reason, in a few words.")
def command(session: str, outcome: str, why: str | None) -> None:
    """Label a session's outcome; a label overrides all other evidence.

    Labels improve templates, comparisons and scores. `unknown` excludes the session from them.
    """
    from relight.reports.labels import label_session
    from relight.reports.sessions import find_session
    from relight.store.queries.sessions import read_name

    with current_store() as store:
        session_id = find_session(store, session)
        label_session(store, session_id, outcome, why=why)
        name = read_name(store, session_id).session
    click.echo(f"{name} is labelled {outcome}")
