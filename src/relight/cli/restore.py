from pathlib import Path

import click

from relight.cli.options import confirm, current_home, relight_command, yes_option


@relight_command("restore", example="relight restore ~/relight-2026-11.db --yes")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@yes_option
def command(file: Path, yes: bool) -> None:
    """Put a backup in the place of this store.

    What was recorded since the backup is gone from the store; `relight import` reads again what the
    agents' files still have. The machines of a team push everything again to a restored server.
    """
    from relight.config import find_home, read_config
    from relight.store.keep.restore import check_backup, restore

    config = read_config(find_home(current_home()))
    check_backup(file)
    if not yes and config.database.exists():
        confirm(f"replace everything in {config.database} by {file}?")
    restore(config, file)
    click.echo(f"restored {config.database} from {file}")
