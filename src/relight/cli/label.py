import click

from relight.cli.options import current_store, relight_command
from relight.reports.labels import NAMES


@relight_command("label", example='relight label codex:01a1dd31 failure --why "wrong file"')
@click.argument("session")
@click.argument("outcome", type=click.Choice(NAMES))
@click.option("--why", metavar="TEXT", help="In a few words.")
def command(session: str, outcome: str, why: str | None) -> None:
    """Say how a session went; a person's word wins.

    Labels make templates, comparisons and scores better. `unknown` takes the verdict out of it.
    """
    from relight.reports.labels import label_session
    from relight.reports.sessions import find_session

    with current_store() as store:
        session_id = find_session(store, session)
        label_session(store, session_id, outcome, why=why)
        source, key = store.query("select source, key from session where id = ?", (session_id,))[0]
    click.echo(f"{source}:{key} is labelled {outcome}")
