from pathlib import Path
from typing import Any

import click

from relight.cli.options import Answer, current_store, name_project, relight_command
from relight.errors import RelightError, as_typed


@relight_command("join", example="relight join https://relight.example.org --token-file ~/token")
@click.argument("url")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Your token, in a file that only you may read (default: RELIGHT_TEAM_TOKEN).",
)
@click.option(
    "--share",
    type=click.Choice(["figures", "tapes"]),
    default="figures",
    show_default=True,
    help="Numbers without any words, or everything, redacted.",
)
@click.option("--as", "name", metavar="NAME", help="This machine's name (default: its host name).")
@click.option("--only", multiple=True, metavar="P", help="Share only this project.")
@click.option("--never", multiple=True, metavar="P", help="Never share this project.")
@click.option(
    "--label", "labels", multiple=True, metavar="L", help="A word that the team's jobs may ask for."
)
def command(
    url: str,
    token_file: Path | None,
    name: str | None,
    only: tuple[str, ...],
    never: tuple[str, ...],
    **given: Any,
) -> Answer:
    """Push this machine's record to a server of yours from now on.

    Every import pushes what is new, by itself; `relight push` sends all of it now. With figures the
    server gets numbers, times, models, names of tools and skills, verdicts and outcomes, and the
    last part of a project's folder: no prompts, answers, commands, results, paths or titles.
    """
    from relight.intake.joining import join, read_status
    from relight.intake.team_client import name_host
    from relight.intake.wire import NAME

    chosen = name or name_host()
    if not NAME.fullmatch(chosen):
        raise RelightError(
            f"{chosen!r} is not a name of a machine",
            "choose one with --as, of letters, digits and . _ @ / + - up to 63 characters",
        )
    with current_store() as store:
        target, is_new = join(
            store,
            url,
            token_file=str(token_file.expanduser().absolute()) if token_file else None,
            name=chosen,
            only=[name_project(one) or one for one in only],
            never=[name_project(one) or one for one in never],
            **given,
        )
        status = read_status(store)
    yield status
    click.echo(f"{target.name} shares {target.share} with {target.url}")
    if is_new:
        click.echo(as_typed("see what leaves this machine: relight push --dry-run"))
        click.echo(as_typed("send it now: relight push"))
