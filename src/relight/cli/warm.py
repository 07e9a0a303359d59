import sys
from typing import Any

import click

from relight.cli.options import (
    current_home,
    current_store,
    json_option,
    print_json,
    relight_command,
    yes_option,
)

FORMATS = ("text", "openai", "anthropic", "hermes")
AGENTS = ("claude-code", "hermes")


@relight_command("warm", example='relight warm "Fix the rounding in invoices" --project .')
@click.argument("task", required=False)
@click.option("--session", metavar="ID", help="The new session's own id, to join it later.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", help="How the seed is printed."
)
@click.option("--category", metavar="C", help="coding, research, ops or general.")
@click.option("--tags", default="", metavar="T,…", help="Tags that the template must have.")
@click.option("--tools", metavar="T,…", help="The tools that the session has.")
@click.option("--project", metavar="P", help="The project's folder; its templates come first.")
@click.option("--budget", type=int, default=2000, show_default=True, help="Tokens at most.")
@click.option("--install", type=click.Choice(AGENTS), help="Add warm starts to an agent.")
@click.option("--remove", is_flag=True, help="With --install: take them out again.")
@click.option("--hook", type=click.Choice(["claude-code"]), hidden=True)
@yes_option
@json_option
def command(
    task: str | None,
    session: str | None,
    form: str,
    category: str | None,
    tags: str,
    tools: str | None,
    project: str | None,
    budget: int,
    install: str | None,
    remove: bool,
    hook: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Print what a new session should begin with, and keep on record that it did.

    The template whose task is most like TASK, as text or messages; a share of sessions is held
    out and gets nothing, and so does a task that no template is like. What it changed is shown by
    `relight experiment report`. With --install an agent asks by itself, on the first prompt of
    each session.
    """
    if hook:
        _answer_hook()
        return
    if install:
        _install(install, remove=remove, yes=yes)
        return
    if remove:
        raise click.UsageError("--remove goes with --install")
    if not task or not task.strip():
        raise click.UsageError("say what the task is: relight warm TASK")
    from relight.templates.injection import as_format
    from relight.templates.provision import provision_session

    with current_store() as store:
        given = provision_session(
            store,
            task,
            session_id=session,
            category=category,
            tags=_split(tags),
            tools=None if tools is None else _split(tools),
            project=_full_path(project),
            budget=budget,
        )
    messages = None if given.messages is None else as_format(given.messages, form)
    if as_json:
        shown: dict[str, Any] = {
            "provision": given.id,
            "session": given.session_id,
            "arm": given.arm,
            "template": given.template.name if given.template else None,
            "template_version": given.template.version if given.template else None,
            "similarity": given.similarity,
            "reason": given.reason,
        }
        shown |= {"text": given.text} if form == "text" else {"messages": messages}
        print_json(shown)
        return
    click.echo(f"{given.arm}: {given.reason} (session {given.session_id})", err=True)
    if form == "text" and given.text:
        click.echo(given.text)
    elif messages is not None:
        print_json(messages)


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _full_path(project: str | None) -> str | None:
    """The project as sessions name it: the folder they ran in."""
    from pathlib import Path

    if project and (project in (".", "..") or project.startswith(("./", "../", "~"))):
        return str(Path(project).expanduser().resolve())
    return project


def _install(agent: str, *, remove: bool, yes: bool) -> None:
    from difflib import unified_diff

    from relight.integrations import apply_change, plan_change

    change = plan_change(agent, remove=remove)
    if not change.is_needed:
        click.echo(f"nothing to do: {change.path} is {'without' if remove else 'set up for'} it")
    else:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        lines = unified_diff(before, after, str(change.path), str(change.path), lineterm="")
        click.echo("\n".join(lines))
        if not yes:
            click.confirm(f"change {change.path} so?", abort=True, err=True)
        apply_change(change)
        click.echo(f"changed {change.path}")
        word = "install" if remove else "remove"
        undo = f"relight warm --install {agent}" + ("" if remove else " --remove")
        click.echo(f"to {word} it again: {undo}")
    for note in change.notes:
        click.echo(note)


def _answer_hook() -> None:
    """Answer Claude Code's hook; whatever goes wrong here, its session goes on."""
    from relight.hooks import answer_prompt

    answer = answer_prompt(sys.stdin.buffer.read(), home=current_home())
    if answer:
        click.echo(answer)
