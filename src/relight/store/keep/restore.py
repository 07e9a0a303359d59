"""A backup in the place of a store, so that what was pushed since then is neither lost nor doubled.

A server that has forgotten what it acknowledged must not be taken for the same one: it gets
another id, and its machines send everything again. A machine that has forgotten its last pushes is
still the same: it asks the server for a new mark.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from relight.config import Config
from relight.errors import RelightError
from relight.store import SCHEMA, make_private, open_store
from relight.store.sql import readable_errors
from relight.store.team import drop_marks, renew_own_id

OLDEST = 17
HINT = "name a file that `relight backup` wrote"


def restore(config: Config, file: Path) -> None:
    """Put the content of a backup in the place of the store's, all of it or nothing."""
    check_backup(config, file)
    if config.store.url is not None:
        from relight.store.keep.dump import restore_dump

        with restore_dump(config, file) as store:
            renew_own_id(store)
        return
    with readable_errors(config.database):
        make_private(config.database)
        with (
            closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(config.database, timeout=60)) as target,
        ):
            source.backup(target)
    with open_store(config.home) as store:
        if store.has_rows("machine"):
            renew_own_id(store)
        else:
            drop_marks(store)


def check_backup(config: Config, file: Path) -> None:
    """Raise unless a file is a whole store of a schema that this version knows."""
    if not file.is_file():
        raise RelightError(f"there is no file {file}", HINT)
    if config.store.url is not None:
        from relight.store.keep.dump import check_dump

        check_dump(file)
        return
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source:
            ((version,),) = source.execute("pragma user_version")
            ((state,),) = source.execute("pragma integrity_check(1)")
    except sqlite3.Error as error:
        raise RelightError(f"{file} is not a backup: {error}", HINT) from error
    if not OLDEST <= version <= SCHEMA:
        raise RelightError(
            f"{file} has schema {version}, and this version knows {OLDEST} to {SCHEMA}", HINT
        )
    if state != "ok":
        raise RelightError(f"{file} is damaged: {state}", "restore another backup")
