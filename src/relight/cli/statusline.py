from contextlib import suppress

import click

from relight.cli.options import current_home, json_option, relight_command, yes_option
from relight.store import open_store


@relight_command("statusline", example="relight statusline --install")
@click.option("--install", is_flag=True, help="Add the line to the agent's settings.")
@click.option("--remove", is_flag=True, help="Remove it again.")
@click.option("--refresh", is_flag=True, hidden=True)
@yes_option
@json_option
def command(install: bool, remove: bool, refresh: bool) -> None:
    """Print one line for Claude Code's status line, from its JSON on standard input.

    It shows the model, the cost of the session and of today, how full the windows of the plan are
    and how long they last, the context used, and how long the prompt stays cached. What Claude Code
    reports about windows is recorded. If what it shows is older than ten seconds, it starts one
    import in the background.
    """
    if install and remove:
        raise click.UsageError("choose one of --install and --remove")
    if refresh:
        _refresh(current_home())
    elif install or remove:
        from relight.cli.warm_install import install_part
        from relight.warm.agents.settings import STATUS_LINES
        from relight.warm.agents.status_line import SOURCE

        undo = f"statusline {'--install' if remove else '--remove'}"
        install_part(SOURCE, STATUS_LINES, undo=undo, remove=remove)
    else:
        from relight.warm.agents.status_line import print_status

        print_status(current_home())


def _refresh(home: str | None) -> None:
    """Import what is new and write the summary, unless another import is at it."""
    from relight.intake.importing import ImportRunningError
    from relight.intake.status import begin_status, keep_status
    from relight.warm.automatic import import_and_propose

    with open_store(home) as store:
        if not store.can_write:
            return
        begin_status(store.config.home)
        if not store.config.auto_import:
            keep_status(store)
            return
        with suppress(ImportRunningError):
            import_and_propose(store, wait_seconds=0.0)
