import click

from relight.cli.options import current_home, relight_command
from relight.config import find_home, read_config
from relight.store import SCHEMA, open_store


@relight_command("migrate", example="relight migrate")
def command() -> None:
    """Bring the database to the schema of this version.

    A database on a server ([store] url in config.toml) changes by this command only. Run it once
    for a new database, and after each upgrade of Relight, while no other version writes to it. A
    store in its own file needs no such step: it is changed when it is opened.
    """
    config = read_config(find_home(current_home()))
    if config.store.url is None:
        open_store(config.home).close()
        click.echo(f"{config.database} has schema {SCHEMA}")
        return
    from relight.store.postgres_schema import migrate_server

    before, after = migrate_server(config)
    if before == after:
        click.echo(f"the database has schema {after} already")
    elif before == 0:
        click.echo(f"made a new store with schema {after}")
    else:
        click.echo(f"changed the schema from {before} to {after}")
