"""Pieces that are read and not recorded: of forgotten sessions, and exports of known ones."""

import sqlite3

from msgspec.structs import replace

from relight.model import row_id
from relight.store.write import rows
from relight.store.write.seal import Sealed


def is_forgotten(database: sqlite3.Connection, piece: Sealed) -> bool:
    """True if a piece is from a forgotten session or a sub-agent of one.

    Checked for each piece: a session may be forgotten while it goes on.
    """
    sessions = [one for _, one in piece.sessions]
    # a fork of a forgotten session is a separate session
    below = [one for one in sessions if one.parent is not None and one.parent_kind == "subagent"]
    ids = [piece.owner_id, *(row_id("session", piece.source, one.parent or "") for one in below)]
    names = [one.exported_from for one in sessions] + [
        one.parent for one in below if one.exported_from
    ]
    ids += [_find_original(name) for name in names if name]
    marks = ", ".join("?" * len(ids))
    statement = f"select 1 from forgotten where session_id in ({marks})"
    return database.execute(statement, ids).fetchone() is not None


def has_original(database: sqlite3.Connection, piece: Sealed) -> bool:
    """True for an export of a session that this store has: it would count twice."""
    names = [one.exported_from for _, one in piece.sessions if one.exported_from]
    return bool(names and rows.find_known(database, {_find_original(name) for name in names}))


def _find_original(name: str) -> int:
    """Return the row that an exported session has where it was exported from."""
    source, _, key = name.partition(":")
    return row_id("session", source, key)


def remove_words(piece: Sealed) -> Sealed:
    """Keep only the read mark of a piece that is left out: no tape and no reader's state."""
    return replace(piece, records=b"", after=replace(piece.after, state=b""))
