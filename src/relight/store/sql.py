"""Rows by name: Structs whose fields are the columns of a table or the names of a query.

No statement in Relight relies on the order of a table's columns. `insert` writes the names of the
Struct's fields, and `read` refuses a query whose columns are not the fields of its Struct.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

S = TypeVar("S", bound=Struct)
# an open transaction, which other rooms pass on without using it
Connection = sqlite3.Connection


@cache
def column_list(shape: type[Struct], prefix: str = "") -> str:
    """The columns of a Struct, for a `select`: `id, session_id, …`."""
    return ", ".join(f"{prefix}{name}" for name in shape.__struct_fields__)


@cache
def insert_into(table: str, shape: type[Struct], on_conflict: str = "") -> str:
    """The statement that inserts one row of this Struct into a table."""
    marks = ", ".join("?" for _ in shape.__struct_fields__)
    return f"insert into {table} ({column_list(shape)}) values ({marks}) {on_conflict}"


def insert(
    database: sqlite3.Connection, table: str, rows: Sequence[Struct], *, on_conflict: str = ""
) -> None:
    """Insert rows of one Struct; `on_conflict` is the rest of the statement, if any."""
    if rows:
        statement = insert_into(table, type(rows[0]), on_conflict)
        database.executemany(statement, map(astuple, rows))


def read(
    database: sqlite3.Connection, shape: type[S], statement: str, values: Iterable[Any] = ()
) -> list[S]:
    """Return the rows of a query as Structs; its columns must be their fields, in that order."""
    cursor = database.execute(statement, values)  # type: ignore[arg-type]
    names = tuple(column[0] for column in cursor.description)
    if names != shape.__struct_fields__:
        raise TypeError(f"{shape.__name__} has {shape.__struct_fields__}, the query {names}")
    return [shape(*row) for row in cursor]
