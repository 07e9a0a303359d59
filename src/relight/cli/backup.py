from pathlib import Path

import click

from relight.cli.options import current_store, relight_command
from relight.errors import RelightError


@relight_command("backup", example="relight backup ~/relight-2026-11.db")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def command(file: Path) -> None:
    """Copy the whole store into one file.

    Other processes may write meanwhile. `relight restore` puts it back. A store on PostgreSQL is
    copied by pg_dump, which must be installed.
    """
    if file.exists():
        raise RelightError(f"{file} already exists", "name a new file")
    if not file.parent.is_dir():
        raise RelightError(f"there is no folder {file.parent}", "create it, or name another")
    with current_store() as store:
        store.backup(file)
    click.echo(f"copied {file.stat().st_size / 1e6:.1f} MB to {file}")
