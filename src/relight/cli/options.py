"""What the commands have in common: where the store is, and how data is printed."""

import re
import sys
from collections.abc import Callable
from typing import Any

import click

from relight.errors import ParameterError, RelightError
from relight.store import Store, open_store

Function = Callable[..., Any]
SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Command(click.Command):
    """A command whose errors name what a person typed, not what Python calls it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            message = error.message
            for name in error.names:
                message = re.sub(rf"(?<!-)\b{name}\b", name_option(self, name), message, count=1)
            raise RelightError(message, error.hint) from error


def name_option(command: click.Command, name: str) -> str:
    """The option or argument of a command that gives a parameter, as it is typed.

    A parameter's name says its unit too: `--half-life` gives `half_life_days`.
    """
    found = {one.name: one for one in command.params if one.name}
    near = [one for one in found if name.startswith(f"{one}_")]
    param = found.get(name) or (found[max(near, key=len)] if near else None)
    if isinstance(param, click.Option):
        return max((*param.opts, *param.secondary_opts), key=len)
    return name if param is None else param.human_readable_name


def relight_command(name: str, example: str) -> Callable[[Function], click.Command]:
    """A command with the options all of them take, and an example in its help."""

    def make(function: Function) -> click.Command:
        made = click.command(
            name, cls=_Command, epilog=f"Example: {example}", context_settings=SETTINGS
        )(function)
        made.params += _shared_options()
        return made

    return make


def relight_group(name: str, example: str) -> Callable[[Function], click.Group]:
    """A command with commands below it."""

    def make(function: Function) -> click.Group:
        made = click.group(name, epilog=f"Example: {example}", context_settings=SETTINGS)(function)
        made.params += _shared_options()
        return made

    return make


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--home"],
            metavar="DIR",
            expose_value=False,
            callback=_keep_home,
            help="Relight's folder (else RELIGHT_HOME, else ~/.relight).",
        ),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error."
        ),
    ]


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def yes_option(function: Function) -> Function:
    return click.option("--yes", is_flag=True, help="Do it without asking.")(function)


def _keep_home(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        ctx.meta["relight.home"] = value


def current_home() -> str | None:
    home: str | None = click.get_current_context().meta.get("relight.home")
    return home


def current_store() -> Store:
    """The store the command is about."""
    return open_store(current_home())


def print_json(value: object) -> None:
    """JSON on standard output, where nothing else goes."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def split_words(text: str) -> list[str]:
    """The words of a list as a person types it, separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def name_project(project: str | None) -> str | None:
    """A project as sessions name it, by the folder they ran in."""
    from pathlib import Path

    if project and (project in (".", "..") or project.startswith(("./", "../", "~"))):
        return str(Path(project).expanduser().resolve())
    return project


def ask(question: str) -> None:
    """Go on only if a person says yes; where none can be asked, say how to do without."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise RelightError(
            "not done: nobody said yes", "add --yes to do it without asking"
        ) from None
