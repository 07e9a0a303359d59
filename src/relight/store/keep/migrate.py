"""Bring a database to this version's schema, one numbered file at a time.

The store also keeps the number of the rules that its index was derived by. Better rules reach
earlier sessions only by a rebuild. A store without the number was derived before the rules had one.
"""

import os
import re
import sqlite3
from contextlib import suppress
from functools import cache
from pathlib import Path

from relight.errors import RelightError, as_typed
from relight.store import MIGRATIONS, Store
from relight.store.sql import Connection, set_meta
from relight.times import find_zone

# one more whenever a rule changes figures or outcomes that are already recorded
RULES = 7
KEY = "rules"
# all migrations at once: a third of their time
WHOLE = MIGRATIONS.with_name("schema.sql")
WHOLE_HEAD = "-- Schema {}, written by `./dev docs` from the migrations; do not edit.\n"
CHANGED = "the rules have changed since this was derived: run `relight rebuild`"


def note_rules(database: Connection) -> None:
    """Note that the whole index is derived by the present rules."""
    set_meta(database, KEY, str(RULES))


def find_old_rules(store: Store) -> list[str]:
    """Return the advice to rebuild if something was derived by earlier rules."""
    is_old = int(store.find_meta(KEY) or 0) < RULES
    return [as_typed(CHANGED)] if is_old and store.has_rows("tape_part") else []


@cache
def find_migrations() -> dict[int, Path]:
    """Return the migration files by number; the first one is the whole schema."""
    found = {int(path.name[:4]): path for path in MIGRATIONS.glob("[0-9]*.sql")}
    return dict(sorted(found.items()))


def migrate(
    connection: sqlite3.Connection, *, timezone: str | None, by_steps: bool = False
) -> None:
    """Run the missing files, each in one transaction; a new database gets the whole schema at once.

    A database of an older layout or a newer Relight is refused and not changed.
    """
    newest = max(find_migrations())
    version = _version(connection)
    check_version(version)
    while version < newest:
        connection.execute("begin immediate")
        try:
            # another process may have migrated it while this one waited
            version = _version(connection)
            if version < newest:
                is_new = version == 0
                version, script = _read_next(version, by_steps=by_steps)
                for statement in split_statements(script):
                    connection.execute(statement)
                if is_new:
                    write_meta(connection, timezone or local_timezone())
                connection.execute(f"pragma user_version = {version}")
        except BaseException:  # also on Ctrl-C: a step is done whole or not at all
            connection.execute("rollback")
            raise
        connection.execute("commit")


def _read_next(version: int, *, by_steps: bool) -> tuple[int, str]:
    """The script that follows a version, and the version that it leads to."""
    first, newest = min(find_migrations()), max(find_migrations())
    if version == 0 and not by_steps:
        script = WHOLE.read_text("utf-8")
        if script.startswith(WHOLE_HEAD.format(newest)):  # else it was not written again yet
            return newest, script
    number = max(version + 1, first)
    return number, find_migrations()[number].read_text("utf-8")


def check_version(version: int) -> None:
    """Raise for a schema that no migration of this Relight begins with."""
    first, newest = min(find_migrations()), max(find_migrations())
    if version < 0:
        raise RelightError(
            f"the database is damaged: its schema cannot be {version}",
            "restore a copy made by `relight backup`, or move the file away and import again",
        )
    if version > newest:
        raise RelightError(
            f"this database was written by a newer Relight (schema {version}, known {newest})",
            "upgrade Relight; the database was not touched",
        )
    if 0 < version < first:
        raise RelightError(
            f"this database was written by an early Relight (schema {version}, oldest known"
            f" {first})",
            "move it aside and import again; the database was not touched",
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def write_meta(connection: Connection, timezone: str) -> None:
    """Write the settings of a new store."""
    # what `secrets.token_hex` returns, without OpenSSL, which takes 4 ms to load
    facts = {"timezone": timezone, "redaction_key": os.urandom(32).hex()}
    connection.executemany("insert into meta (key, value) values (?, ?)", facts.items())
    note_rules(connection)


def split_statements(script: str) -> list[str]:
    """Return the statements of a script: `executescript` would end the transaction."""
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def local_timezone() -> str:
    """Return the machine's zone by name: `TZ`, else the target of /etc/localtime, else UTC."""
    candidates = [os.environ.get("TZ", "").removeprefix(":")]
    target = re.search(r"zoneinfo/(.+)$", os.path.realpath("/etc/localtime"))
    if target:
        candidates.append(target[1])
    for name in candidates:
        with suppress(ValueError, OSError, LookupError):
            find_zone(name)
            return name
    return "UTC"
