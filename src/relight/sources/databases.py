"""Other programs' SQLite files: looked at with their logs, and opened only for reading."""

import sqlite3
from pathlib import Path

from relight.model import Origin
from relight.sources.files import look_at


def look_at_database(path: Path) -> Origin | None:
    """A database with its write-ahead log, in which everything may stand that is new."""
    main = look_at(path)
    log = look_at(f"{path}-wal")
    if main is None or log is None:
        return main
    return Origin(
        main.path, main.size + log.size, max(main.modified_ns, log.modified_ns), main.inode
    )


def open_database(path: str) -> sqlite3.Connection:
    """A connection that can only read: through SQLite, never as bytes, whoever else writes."""
    mode = "ro" if Path(f"{path}-wal").exists() else "ro&immutable=1"
    uri = f"{Path(path).absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=10)
    connection.row_factory = sqlite3.Row
    return connection
