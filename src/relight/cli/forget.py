import click

from relight.cli.options import confirm, current_store, reading_command, yes_option


@reading_command("forget", example="relight forget codex:01a1dd31")
@click.argument("session")
@yes_option
def command(session: str) -> None:
    """Delete one session permanently.

    Its tape, figures and facts and those of its sub-agents are deleted, and it is not imported
    again. The agent's own file is not touched.
    """
    from relight.cli.screen import clean
    from relight.intake.retention import forget
    from relight.reports.sessions import find_session
    from relight.store.queries.sessions import read_name
    from relight.text import plural

    with current_store() as store:
        session_id = find_session(store, session)
        found = read_name(store, session_id)
        name = clean(f"{found.session} ({found.title or 'no title'})")
        confirm(f"forget {name}?")
        count = forget(store, session_id)
    click.echo(f"forgot {plural(count, 'session')}")
