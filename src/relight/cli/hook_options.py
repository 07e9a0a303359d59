"""The options of commands that agents run as hooks: to install, remove and answer one."""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import Function, current_home, json_option, yes_option

if TYPE_CHECKING:
    from relight.warm.agents.settings import Agent


def install_options(agents: "Mapping[str, Agent]", *, help: str) -> Callable[[Function], Function]:
    """Return a decorator for a command that can be added to agents, which then run it as a hook.

    With --install, --remove or --hook the command itself does not run. An error in a hook never
    stops the agent's session.
    """
    hooks = [name for name, agent in agents.items() if agent.hook]

    def decorate(function: Function) -> Function:
        @wraps(function)
        def choose(*, install: str | None, remove: bool, hook: str | None, **given: Any) -> None:
            if hook:
                module = import_module(str(agents[hook].hook))
                given_event = sys.stdin.buffer.read()
                if answer := module.answer_event(given_event, source=hook, home=current_home()):
                    click.echo(answer)
            elif install:
                from relight.cli.warm_install import install_part

                undo = f"{click.get_current_context().info_name} --install {install}"
                undo = undo if remove else f"{undo} --remove"
                install_part(install, agents, undo=undo, remove=remove)
            elif remove:
                raise click.UsageError("--remove goes with --install")
            else:
                function(**given)

        made: Function = json_option(yes_option(choose))
        made = click.option("--hook", type=click.Choice(hooks), hidden=True)(made)
        made = click.option("--remove", is_flag=True, help="With --install: remove it again.")(made)
        return click.option("--install", type=click.Choice(list(agents)), help=help)(made)

    return decorate
