from pathlib import Path

import click

from relight.cli.options import Answer, current_store, reading_command


@reading_command("cost", example="relight cost feature/login")
@click.argument("ref", metavar="BRANCH|COMMIT|PATH")
@click.option(
    "--project",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder (default: the present one).",
)
def command(ref: str, project: Path | None) -> Answer:
    """Show what a branch, a commit or a path cost, and the lines that were changed.

    A branch: the turns made on it, in sessions of this repository. A commit: the turns of the
    session that made it, since the commit before in that session, with sub-agents. A path, which
    may be a folder: the turns whose edit calls changed it; a turn that changed several files is
    divided equally among them. Turns that only read or planned are no part of a path's cost.
    ./NAME is always a path.
    """
    from relight.reports.git_costs import read_cost

    with current_store() as store:
        found = read_cost(store, ref, project or Path.cwd())
    yield found
    from relight.cli import screen
    from relight.text import plural

    name = (found.commit or ref)[:12] if found.kind == "commit" else ref
    if found.note:
        screen.print_text(f"{found.kind} {name}: nothing is known", style="bold")
        screen.print_text(found.note)
        return
    screen.print_text(f"{found.kind} {name}: {screen.format_cost(found)}", style="bold")
    screen.print_text(
        f"{plural(found.sessions, 'session')}, {plural(found.turns, 'turn')};"
        f" edits added {plural(found.lines_added, 'line')} and removed {found.lines_removed:,}"
    )
    if found.is_verified is False:
        screen.print_text("the repository here does not have this commit", style="dim")
