from typing import Any

import click
from msgspec import UNSET, Struct, UnsetType

from relight.cli.hook_options import install_options
from relight.cli.options import (
    current_store,
    name_project,
    print_json,
    relight_command,
    split_words,
    wants_json,
)
from relight.errors import as_typed
from relight.judging.kinds import CATEGORIES
from relight.warm.agents.settings import AGENTS
from relight.warm.injection import BUDGET, FORMATS


class WarmStart(Struct, frozen=True, kw_only=True):
    """The beginning of a session, as JSON."""

    provision: str
    session_id: str
    arm: str
    template: str | None
    template_version: int | None
    similarity: float | None
    reason: str
    lessons: bool
    text: str | UnsetType | None = UNSET
    messages: list[Any] | UnsetType | None = UNSET


@relight_command("warm", example='relight warm "Fix the rounding in invoices" --project .')
@click.argument("task", required=False)
@click.option("--session", metavar="ID", help="The new session's id, to join it later.")
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="text", help="How to print it."
)
@click.option("--category", type=click.Choice(CATEGORIES), help="Only templates of this category.")
@click.option("--tags", default="", metavar="T,…", help="Only templates with these tags.")
@click.option("--tools", metavar="T,…", help="The tools that the session has.")
@click.option("--project", metavar="P", help="The project's folder; its templates come first.")
@click.option(
    "--budget", type=click.IntRange(0), default=BUDGET, show_default=True, help="Tokens at most."
)
@install_options(AGENTS, help="Add warm starts to an agent.")
def command(
    task: str | None,
    session: str | None,
    form: str,
    tags: str,
    tools: str | None,
    project: str | None,
    **given: Any,
) -> None:
    """Print what a new session should begin with, and record it.

    That is the lessons of the project, and the template that fits TASK best, as text or messages:
    the project's own come first. A share of sessions is held out from each. A task that no template
    fits gets the lessons alone, if there are any. `relight experiment report` shows both effects.
    With --install an agent requests it on the first prompt of each session.
    """
    if not task or not task.strip():
        raise click.UsageError(as_typed("name the task: relight warm TASK"))
    from relight.warm.provision import provision_session

    with current_store() as store:
        made = provision_session(
            store,
            task,
            session_id=session,
            tags=split_words(tags),
            tools=None if tools is None else split_words(tools),
            project=name_project(project),
            style="text" if form == "text" else "messages",
            **given,
        )
    messages = None if made.messages is None else FORMATS[form](made.messages)
    if wants_json():
        print_json(
            WarmStart(
                provision=made.id,
                session_id=made.session_id,
                arm=made.arm,
                template=made.template.name if made.template else None,
                template_version=made.template.version if made.template else None,
                similarity=made.similarity,
                reason=made.reason,
                lessons=made.lessons,
                text=made.text if form == "text" else UNSET,
                messages=UNSET if form == "text" else messages,
            )
        )
        return
    more = "; with the lessons of the project" if made.lessons else ""
    click.echo(f"{made.arm}: {made.reason}{more} (session {made.session_id})", err=True)
    if form == "text" and made.text:
        click.echo(made.text)
    elif messages is not None:
        print_json(messages)
