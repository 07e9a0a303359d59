import os

import click

from relight.cli.options import current_store, reading_command
from relight.errors import RelightError

NO_COMMAND = "what recorded it has no command for that"


@reading_command("resume", example="relight resume last")
@click.argument("session")
@click.option("--print", "is_printed", is_flag=True, help="Only print the shell line.")
def command(session: str, is_printed: bool) -> None:
    """Continue a session in its own agent, in the folder it ran in.

    SESSION is `last`, an id as `relight sessions` prints it, or a unique beginning of one.
    """
    from relight.reports.sessions import find_session
    from relight.sources import find_source, is_source
    from relight.sources.resume import find_resume
    from relight.store.queries.sessions import read_facts

    with current_store() as store:
        found = read_facts(store, find_session(store, session))
    assert found is not None
    if found.parent_kind == "subagent":
        raise RelightError(
            f"{found.session} is a sub-agent, which cannot be continued by itself",
            f"continue its parent: relight resume {found.parent}",
        )
    if found.machine is not None:
        raise RelightError(
            f"{found.session} is a session of {found.machine}", "continue it on that machine"
        )
    resume = find_resume(found.source, found.id, found.project)
    if resume is None:
        known = is_source(found.source) and find_source(found.source).resume
        why = "its id or folder cannot be used in a command" if known else NO_COMMAND
        raise RelightError(
            f"{found.session} cannot be continued: {why}",
            f"`relight show {found.session}` shows what it did",
        )
    if is_printed:
        click.echo(resume.line)
    else:
        _run(resume.words, resume.folder, found.session)


def _run(words: tuple[str, ...], folder: str | None, session: str) -> None:
    """Replace this process by the agent; raise if its folder or program is missing."""
    from shutil import which

    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise RelightError(
                f"the session's folder {folder} cannot be opened: {error.strerror}",
                f"`relight resume {session} --print` prints the line, to run it elsewhere",
            ) from error
    program = which(words[0])
    if program is None:
        raise RelightError(
            f"there is no program {words[0]!r} on the PATH",
            f"install it, or run the line of `relight resume {session} --print` where it is",
        )
    os.execv(program, words)
