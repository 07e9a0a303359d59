import sys
from typing import Any

import click

from relight.cli.options import (
    current_home,
    current_store,
    json_option,
    name_project,
    print_json,
    relight_command,
    split_words,
    yes_option,
)

FORMATS = ("text", "openai", "anthropic", "hermes")
AGENTS = ("claude-code", "hermes")
CATEGORIES = ("coding", "research", "ops", "general")


@relight_command("warm", example='relight warm "Fix the rounding in invoices" --project .')
@click.argument("task", required=False)
@click.option("--session", metavar="ID", help="The new session's own id, to join it later.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", help="How the seed is printed."
)
@click.option("--category", type=click.Choice(CATEGORIES), help="Only templates of this kind.")
@click.option("--tags", default="", metavar="T,…", help="Tags that the template must have.")
@click.option("--tools", metavar="T,…", help="The tools that the session has.")
@click.option("--project", metavar="P", help="The project's folder; its templates come first.")
@click.option(
    "--budget", type=click.IntRange(0), default=2000, show_default=True, help="Tokens at most."
)
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
        from relight.cli.warm_install import install_agent

        install_agent(install, remove=remove, yes=yes, as_json=as_json)
        return
    if remove:
        raise click.UsageError("--remove goes with --install")
    if not task or not task.strip():
        raise click.UsageError("say what the task is: relight warm TASK")
    from relight.warm.injection import as_format
    from relight.warm.provision import provision_session

    with current_store() as store:
        given = provision_session(
            store,
            task,
            session_id=session,
            category=category,
            tags=split_words(tags),
            tools=None if tools is None else split_words(tools),
            project=name_project(project),
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


def _answer_hook() -> None:
    """Answer Claude Code's hook; whatever goes wrong here, its session goes on."""
    from relight.warm.agents.claude_hook import answer_prompt

    answer = answer_prompt(sys.stdin.buffer.read(), home=current_home())
    if answer:
        click.echo(answer)
