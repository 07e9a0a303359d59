"""Databases with Hermes' own tables, as the demo writes them: all that is known of their shape.

The statements stand here because no SQL does outside of `store/` and `sources/`.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

STATE, EXECUTIONS = "state", "executions"


@contextmanager
def make_database(path: Path, schema: str) -> Iterator[sqlite3.Connection]:
    """A new database with the tables of `state` or `executions`, filled in one transaction.

    Hermes keeps its databases in write-ahead mode; it is switched on last, because the log's
    own random numbers would otherwise get into the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma synchronous = off")
        database.executescript(Path(__file__).with_name(f"{schema}.sql").read_text("utf-8"))
        database.execute("begin")
        yield database
        database.execute("commit")
        database.execute("pragma journal_mode = wal")


def insert_rows(
    database: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows by the names of their columns."""
    for row in rows:
        marks = ", ".join("?" * len(row))
        statement = f"insert into {table} ({', '.join(row)}) values ({marks})"
        database.execute(statement, tuple(row.values()))
