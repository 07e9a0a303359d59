"""Rows by name: Structs whose fields are the columns of a table or the names of a query.

No statement in Relight relies on the order of a table's columns. `insert` writes the names of the
Struct's fields. `read` takes `select *` at the beginning of a query for these names, and refuses a
query whose columns are not the fields of its Struct.

Every statement is one that SQLite and PostgreSQL both take: `case` instead of `iif`, `on conflict`
instead of `insert or …`, `nulls first` or `nulls last` for a sorted column that can be null,
`bigint` for a cast to a whole number. The functions here return the text of what is easily written
for one engine only: `same`, `differs`, `like`, `greatest`, `least`.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from relight.errors import RefusedValueError, StoreError, UnavailableError

S = TypeVar("S", bound=Struct)
META = "select value from meta where key = ?"
# errors whose cause lies in the database, not in the values to be written
TROUBLE = (sqlite3.OperationalError, sqlite3.DatabaseError)
RESTORE = "restore a copy made by `relight backup`, or move the file away and import again"
HINTS = {
    "full": "free some space and run the command again: what was recorded is kept",
    "locked": "another Relight has been writing for long: try again when it is done",
    "readonly": "check the permissions of the file and its folder",
    "unable to open": "check the permissions of the file and its folder",
    "closed": "open it again; each process must open its own",
    **dict.fromkeys(("malformed", "not a database"), RESTORE),
}
# Python looks for an adapter of each None at three places unless it has one: that took half of the
# time to write a row with many unknown columns
_nothing: dict[None, None] = {}
sqlite3.register_adapter(type(None), _nothing.get)
# queries whose columns are known to be the fields of their Struct
_checked: set[tuple[type[Struct], str]] = set()
MOST_CHECKED = 500
SAME_PLACE = "origin_id = ? and part = ? and generation = ? and position = ?"
# an entry's number in the full-text index is the place of its part, and its number there
PART_SHIFT = 8


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def description(self) -> Any: ...
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to either engine, as far as statements need it."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statement: str, values: Any = ..., /) -> Cursor: ...
    def executemany(self, statement: str, rows: Iterable[Any], /) -> Cursor: ...
    def close(self) -> None: ...


class ReadRows:
    """The result of a statement whose rows were read whole, or that has none."""

    def __init__(
        self, rows: Sequence[Any] = (), *, description: Any = None, rowcount: int = -1
    ) -> None:
        self.description, self.rowcount = description, rowcount
        self._rows = rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


@cache
def column_list(shape: type[Struct], prefix: str = "") -> str:
    """The columns of a Struct, for a `select`: `id, session_id, …`."""
    return ", ".join(f"{prefix}{name}" for name in shape.__struct_fields__)


@cache
def insert_into(table: str, shape: type[Struct], on_conflict: str = "") -> str:
    """The statement that inserts one row of this Struct into a table."""
    marks = ", ".join("?" for _ in shape.__struct_fields__)
    return f"insert into {table} ({column_list(shape)}) values ({marks}) {on_conflict}"


@cache
def replacing(shape: type[Struct], *keys: str) -> str:
    """The `on conflict` clause by which a row replaces the one with the same keys."""
    others = [name for name in shape.__struct_fields__ if name not in keys]
    return f"on conflict ({', '.join(keys)}) do update set {take_new(others)}"


def take_new(names: Iterable[str]) -> str:
    """Assignments for `do update set` that take these columns from the new row."""
    return ", ".join(f"{name} = excluded.{name}" for name in names)


def insert(
    database: Connection, table: str, rows: Sequence[Struct], *, on_conflict: str = ""
) -> None:
    """Insert rows of one Struct; `on_conflict` is the rest of the statement, if any."""
    if rows:
        statement = insert_into(table, type(rows[0]), on_conflict)
        database.executemany(statement, map(astuple, rows))


def insert_values(database: Connection, table: str, values: Mapping[str, Any]) -> None:
    """Insert one row by the names of its columns."""
    marks = ", ".join("?" * len(values))
    statement = f"insert into {table} ({', '.join(values)}) values ({marks})"
    database.execute(statement, list(values.values()))


def merge_rows(database: Connection, table: str, rows: Sequence[Any], *, rule: str) -> None:
    """Write rows of turns or calls; `rule` assigns what changes in a row that is there already."""
    if isinstance(database, sqlite3.Connection):
        insert(database, table, rows, on_conflict=f"on conflict (id) do update set {rule}")
    else:
        from relight.store.months import merge_divided

        merge_divided(database, table, rows, rule=rule)


def insert_part(database: Connection, part: Any) -> int | None:
    """Write a part of the tape; return its id, None if there is one at its place already."""
    shape: type[Struct] = type(part)
    rest = "returning id"
    if isinstance(database, sqlite3.Connection):
        rest = f"on conflict do nothing {rest}"
    else:
        from relight.store.months import prepare_months

        prepare_months(database, "tape_part", [part.recorded_at])
        place = (part.origin_id, part.part, part.generation, part.position)
        if database.execute(f"select 1 from tape_part where {SAME_PLACE}", place).fetchone():
            return None
    row = database.execute(insert_into("tape_part", shape, rest), astuple(part)).fetchone()
    return int(row[0]) if row else None


def read(
    database: Connection,
    shape: type[S],
    statement: str,
    values: Any = (),
    formats: Mapping[str, Callable[[Any], Any]] | None = None,
) -> list[S]:
    """Return the rows of a query as Structs; its columns must be their fields, in that order.

    `formats` are functions that turn the value of a column into that of its field.
    """
    if statement.startswith("select *"):
        statement = statement.replace("*", column_list(shape), 1)
    cursor = database.execute(statement, values)
    if (shape, statement) not in _checked:
        _check_columns(shape, statement, cursor)
    if not formats:
        return [shape(*row) for row in cursor]
    names = enumerate(shape.__struct_fields__)
    changes = [(place, formats[name]) for place, name in names if name in formats]
    found = []
    for row in cursor:
        values = list(row)
        for place, to in changes:
            values[place] = to(values[place])
        found.append(shape(*values))
    return found


def _check_columns(shape: type[Struct], statement: str, cursor: Cursor) -> None:
    """Raise unless the query has the Struct's fields; the recorder asks the same ones each turn."""
    names = tuple(column[0] for column in cursor.description)
    if names != shape.__struct_fields__:
        raise TypeError(f"{shape.__name__} has {shape.__struct_fields__}, the query {names}")
    if len(_checked) >= MOST_CHECKED:
        _checked.clear()
    _checked.add((shape, statement))


def list_values(database: Connection, statement: str, values: Any = ()) -> list[Any]:
    """Return the first column of a query."""
    return [row[0] for row in database.execute(statement, values)]


def find_first(database: Connection, statement: str, values: Any = ()) -> Any | None:
    """Return the first value of a query, None if it has no rows."""
    row = database.execute(statement, values).fetchone()
    return row[0] if row else None


def find_among(database: Connection, statement: str, items: Iterable[Any], *more: Any) -> set[Any]:
    """Return the first column of a query; `{marks}` in it stands for the marks of the items.

    `more` are the values behind these.
    """
    return {
        found
        for some, marks in divide(items)
        for found in list_values(database, statement.format(marks=marks), (*some, *more))
    }


def find_next_id(database: Connection, table: str) -> int:
    """Return the id of a table's next row."""
    return int(find_first(database, f"select coalesce(max(id), 0) + 1 from {table}") or 1)


def set_meta(database: Connection, key: str, value: str | None) -> None:
    """Write what the table `meta` has under a key; None removes it."""
    if value is None:
        database.execute("delete from meta where key = ?", (key,))
    else:
        database.execute(
            "insert into meta (key, value) values (?, ?)"
            " on conflict (key) do update set value = excluded.value",
            (key, value),
        )


def divide(items: Iterable[Any]) -> Iterator[tuple[list[Any], str]]:
    """Yield as many items as one statement takes, with their parameter marks."""
    remaining = iter(items)
    while some := list(islice(remaining, 500)):
        yield some, ",".join("?" * len(some))


def list_marks(items: Collection[Any]) -> str:
    """Return the parameter marks of items for `in (…)`: nothing is in the list of none.

    >>> list_marks([1, 2]), list_marks([])
    ('?, ?', 'null')
    """
    return ", ".join("?" * len(items)) or "null"


def read_usd(nanos: int | None) -> float | None:
    """Return dollars from a column of nano-dollars."""
    return None if nanos is None else nanos / 1e9


def read_seconds(milliseconds: int | None) -> float | None:
    """Return seconds from a column of milliseconds."""
    return None if milliseconds is None else milliseconds / 1000


def read_list(text: str | None) -> list[str]:
    """Return the texts of a column with a JSON list, none if it is empty."""
    return msgspec.json.decode(text, type=list[str]) if text else []


def write_touched(database: Connection, sessions: Iterable[int]) -> None:
    """Fill the temporary table `touched` with the ids of the sessions to derive again."""
    make_id_table(database, "touched")
    database.execute("delete from touched")
    statement = "insert into touched (id) values (?) on conflict do nothing"
    database.executemany(statement, [(one,) for one in sessions])
    count_rows(database, "touched")


def count_rows(database: Connection, table: str) -> None:
    """Let the engine know how long a temporary table is.

    PostgreSQL takes one that it has not counted for a long one, and reads all turns.
    """
    if not isinstance(database, sqlite3.Connection):
        database.execute(f"analyze {table}")


def make_id_table(database: Connection, name: str, columns: str = "") -> None:
    """Make a temporary table with a column `id` unless it is there; `columns` are the others."""
    # for SQLite this very type is that of its fastest table, for PostgreSQL it is too small
    kind = "integer" if isinstance(database, sqlite3.Connection) else "bigint"
    database.execute(f"create temp table if not exists {name} (id {kind} primary key{columns})")


def add_up(columns: Iterable[str], table: str = "") -> str:
    """The sum of columns in which null counts as 0.

    >>> add_up(["input_tokens", "output_tokens"], "turn.")
    'coalesce(turn.input_tokens, 0) + coalesce(turn.output_tokens, 0)'
    """
    return " + ".join(f"coalesce({table}{name}, 0)" for name in columns)


def greatest(*values: str) -> str:
    """The largest of these values that are not null; null only if all are.

    >>> greatest("at", "?")
    'max(coalesce(at, ?), coalesce(?, at))'
    """
    return _choose("max", values)


def least(*values: str) -> str:
    """The smallest of these values that are not null; null only if all are."""
    return _choose("min", values)


def same(first: str, second: str) -> str:
    """True if both are equal or both are null.

    >>> same("model", ":model")
    'model is not distinct from :model'
    """
    return f"{first} is not distinct from {second}"


def differs(first: str, second: str) -> str:
    """True if the values are unequal, or only one of them is null."""
    return f"{first} is distinct from {second}"


def like(text: str, pattern: str) -> str:
    """True if a text matches a pattern of `escape_like`, whatever the case of ASCII letters.

    >>> like("project", "?")
    "lower(project) like lower(?) escape '\\\\'"
    """
    return f"lower({text}) like lower({pattern}) escape '\\'"


def count_if(test: str) -> str:
    """The number of rows that pass a test, 0 if none does.

    >>> count_if("label = 'error'")
    "count(case when label = 'error' then 1 end)"
    """
    return f"count(case when {test} then 1 end)"


SUCCESSES, FAILURES = (count_if(f"outcome = '{outcome}'") for outcome in ("success", "failure"))


def flag(test: str) -> str:
    """1 if a test is true, else 0, also where it is null."""
    return f"case when {test} then 1 else 0 end"


def _choose(function: str, values: tuple[str, ...]) -> str:
    """A scalar `max` or `min`, which in SQLite is null as soon as one value is."""
    turned = [values[place:] + values[:place] for place in range(len(values))]
    known = [f"coalesce({', '.join(some)})" for some in turned]
    return f"{function}({', '.join(known)})"


@contextmanager
def readable_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as StoreError, with a hint that a person can act on."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        hint = "`relight doctor` checks the database"
        hint = next((found for word, found in HINTS.items() if word in text), hint)
        is_trouble = type(error) in TROUBLE or "closed" in text  # as after a fork
        other = RefusedValueError if isinstance(error, sqlite3.IntegrityError) else StoreError
        kind = UnavailableError if is_trouble else other
        raise kind(f"the database {path} could not be used: {text}", hint) from error
    except UnicodeDecodeError as error:
        if b"malformed" not in error.object:
            raise
        # SQLite quotes the damaged name, in bytes that Python cannot decode
        message = f"the database {path} could not be used: its schema is malformed"
        raise StoreError(message, RESTORE) from error
