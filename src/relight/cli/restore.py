from pathlib import Path

import click

from relight.cli.options import confirm, current_home, relight_command, yes_option
from relight.config import find_home, read_config


@relight_command("restore", example="relight restore ~/relight-2026-11.db --yes")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@yes_option
def command(file: Path) -> None:
    """Put a backup in the place of this store.

    What was recorded since the backup is gone from the store; `relight import` reads again what the
    agents' files still have. The machines of a team push everything again to a restored server. A
    store on PostgreSQL is restored by pg_restore; a backup of an earlier version then needs
    `relight migrate`.
    """
    from relight.store.keep.restore import check_backup, restore
    from relight.text import show_url

    config = read_config(find_home(current_home()))
    check_backup(config, file)
    place = show_url(config.store.url) if config.store.url else config.database
    if config.store.url or config.database.exists():
        confirm(f"replace everything in {place} by {file}?")
    restore(config, file)
    click.echo(f"restored {place} from {file}")
