import click

from relight.cli.options import ask, current_store, relight_command, yes_option


@relight_command("forget", example="relight forget codex:01a1dd31")
@click.argument("session")
@yes_option
def command(session: str, yes: bool) -> None:
    """Delete one session for good.

    Tape, figures and facts of it and of its sub-agents go, and it is not read again. The agent's
    own file is not touched.
    """
    from relight.cli.screen import clean
    from relight.reports.sessions import find_session
    from relight.store.keep.retention import forget

    with current_store() as store:
        session_id = find_session(store, session)
        source, key, title = store.query(
            "select source, key, title from session where id = ?", (session_id,)
        )[0]
        if not yes:
            told = clean(f"{source}:{key} ({title or 'no title'})")
            ask(f"forget {told}?")
        count = forget(store, session_id)
    click.echo(f"forgot {count} session{'s' if count > 1 else ''}")
