"""Write the pages that the program itself knows best: python docs/generate.py [--check]."""

import sqlite3
import sys
from pathlib import Path

import click

from relight.cli import COMMANDS, relight
from relight.store.migrate import migrate

FOLDER = Path(__file__).parent / "reference"
HEAD = "<!-- Written by `./dev docs`; do not edit. -->\n"


def pages() -> dict[str, str]:
    """Every generated page by its name."""
    return {"commands.md": commands_page(), "database.md": database_page()}


def commands_page() -> str:
    parts = [HEAD, "# Commands\n", describe(relight, "relight")]
    context = click.Context(relight, info_name="relight")
    for name in COMMANDS:
        command = relight.get_command(context, name)
        assert command is not None
        parts.append(describe(command, f"relight {name}"))
    return "\n".join(parts)


def describe(command: click.Command, name: str) -> str:
    """A command's help as it is printed, and its sub-commands' after it."""
    context = click.Context(command, info_name=name, max_content_width=90, terminal_width=90)
    text = f"## {name}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group) and command is not relight:
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            text += "\n" + describe(found, f"{name} {sub}").replace("## ", "### ", 1)
    return text


def database_page() -> str:
    """The tables as a fresh store has them, with the reasons their migrations give."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, timezone="UTC")
    (version,) = connection.execute("pragma user_version").fetchone()
    rows = connection.execute(
        "select sql from sqlite_master where sql is not null and name not like 'sqlite_%'"
        " order by type desc, name"
    ).fetchall()
    connection.close()
    statements = "\n\n".join(f"{sql};" for (sql,) in rows)
    return (
        f"{HEAD}\n# Database\n\nSchema {version} of `relight.db`. Columns ending in `_at` are Unix"
        " milliseconds in UTC, `day` is a calendar day in the store's time zone, `_nanos` are"
        " billionths of a dollar. Reading it with other programs is welcome; writing is not.\n\n"
        f"```sql\n{statements}\n```\n"
    )


def main() -> int:
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        click.echo(f"stale: {', '.join(stale)}; run ./dev docs", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
