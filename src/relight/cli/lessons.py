from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relight.cli.options import Answer, current_store, name_project, reading_command, yes_option
from relight.errors import RelightError, as_typed

if TYPE_CHECKING:
    from relight.reports.lessons import Lesson, LessonList


@reading_command("lessons", example="relight lessons --project .")
@click.option(
    "--project", metavar="P", help="Only this project: its folder, or a part of its name."
)
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the lessons that are sure enough into this file, such as AGENTS.md.",
)
@click.option("--remove", is_flag=True, help="With --to: remove them again.")
@yes_option
def command(project: str | None, file: Path | None, remove: bool) -> Answer:
    """Show what sessions of a project stumble over again and again, and what worked.

    A lesson needs two sessions that failed by the same cause, and a cure that two of them share.
    It says no more than was seen. Sessions are read for it once, the newest 200 of each project.

    --to shows the change, asks, and keeps one marked block in the file; without --project it is
    the project of the file's folder. Run it again to update the block. --remove restores the file.
    """
    if remove and file is None:
        raise click.UsageError("--remove goes with --to")
    folder = None
    if file is not None:
        file = file.absolute()
        folder = None if project else str(file.parent.resolve())
        if file.suffix != ".md":
            raise click.UsageError("--to takes a Markdown file, such as AGENTS.md")
    from relight.cli.progress import LateProgress
    from relight.reports.lessons import list_lessons, read_new
    from relight.store.queries.filters import Filter
    from relight.text import plural

    chosen = Filter(project=folder or name_project(project))
    with current_store() as store:
        label = "reading sessions for lessons"
        with LateProgress(label, lambda left: plural(left, "session")) as progress:
            read_new(store, chosen, progress=progress.update)
        found = list_lessons(store, chosen)
    if file is not None:
        from relight.cli.warm_install import write_lessons
        from relight.warm.lessons import render_lessons

        own = folder or _find_project(found.lessons, chosen.project or "")
        text = ""
        if not remove:
            text = render_lessons(
                [one for one in found.lessons if one.project == own and not one.machine]
            )
        if not text and not remove:
            why = "three sessions must have failed, and the cause must still hold"
            click.echo(f"no lesson is sure enough: {why}", err=True)
        write_lessons(file, text, remove=remove or not text)
        return
    yield found
    _print(found)


def _find_project(lessons: "list[Lesson]", asked: str) -> str:
    """Return the one project with lessons that was asked for by its folder or a part of it."""
    names = sorted({one.project for one in lessons if not one.machine})
    if asked in names or not names:
        return asked
    if len(names) > 1:
        raise RelightError(f"{asked!r} fits several projects", f"name one: {', '.join(names)}")
    return names[0]


def _print(found: "LessonList") -> None:
    from relight.cli import screen
    from relight.text import plural

    if not found.lessons:
        read = plural(found.read_sessions, "session")
        click.echo(f"no lesson: no two of {read} share a cause that still holds, and its cure")
    for (project, machine), some in groupby(found.lessons, lambda one: (one.project, one.machine)):
        screen.print_text(f"{project} ({machine})" if machine else project, style="bold")
        for one in some:
            screen.print_text(f"- {one.text}")
            screen.print_text(f"  {_describe(one)}", style="dim")


def _describe(one: "Lesson") -> str:
    from relight.cli.screen import dollars

    parts = ["sure enough for agents" if one.is_sure else "seen too seldom for agents"]
    if one.burnt_usd is not None:
        parts.append(f"{dollars(one.burnt_usd)} burnt")
    if one.last_at:
        parts.append(f"last {one.last_at[:10]}")
    last = one.evidence[0]
    parts.append(as_typed(f"relight show {last.session_id} --step {last.step}"))
    return "; ".join(parts)
