import click

from relight.cli.options import json_option, relight_command, yes_option
from relight.warm.agents.settings import SKILLS


@relight_command("install", example="relight skills install claude-code")
@click.argument(
    "agents", nargs=-1, type=click.Choice(list(SKILLS)), metavar=f"[{'|'.join(SKILLS)}]…"
)
@click.option("--remove", is_flag=True, help="Remove it again.")
@yes_option
@json_option
def install(agents: tuple[str, ...], remove: bool) -> None:
    """Write an Agent Skill that teaches an agent to ask Relight.

    Without an agent, it is for each that is on this machine. The command shows the file, asks, and
    writes it among the agent's skills. A file of yours is never replaced. --remove deletes what was
    written.
    """
    from relight.cli.warm_install import install_skills

    install_skills(agents, remove=remove)
