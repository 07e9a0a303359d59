"""The large tables, which PostgreSQL keeps in one part for each month.

A month that was pruned is dropped as a whole, and its disk is free at once; deleted rows would only
be used again. PostgreSQL has no key over all parts, so one writer at a time looks whether a row is
there before it writes. What has no time, or a strange one, is in the rest. On SQLite each of these
is one table with its keys, and nothing here makes a difference.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from relight.store.sql import Connection, column_list, divide

# the time of a row, by which its month is chosen
TABLES = {"turn": "at", "tool_call": "at", "tape_part": "recorded_at"}
FIRST_YEAR, LAST_YEAR = 2020, 2099
# a month is dropped this long after its end: others may still write to it before
KEPT_MS = 31 * 86_400_000


class DividedConnection(Connection, Protocol):
    """A connection to PostgreSQL, with the months that it has seen."""

    months: set[str]

    def copy(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None: ...


class KeyedRow(Protocol):
    """A row of a turn or a call."""

    @property
    def id(self) -> int: ...
    @property
    def at(self) -> int | None: ...


def merge_divided(database: Connection, table: str, rows: Sequence[Any], *, rule: str) -> None:
    """Do what `merge_rows` does, on PostgreSQL."""
    divided: DividedConnection = database  # type: ignore[assignment]
    make_months(divided, table, [row.at for row in rows])
    while rows:
        # a copy of a row that is in the same list waits for the next round
        first: dict[int, KeyedRow] = {}
        others = [row for row in rows if first.setdefault(row.id, row) is not row]
        _merge_distinct(divided, table, first, rule=rule)
        rows = others


def _merge_distinct(
    database: DividedConnection, table: str, rows: dict[int, Any], *, rule: str
) -> None:
    shape: type[Struct] = type(next(iter(rows.values())))
    columns = column_list(shape)
    known: list[int] = []
    for some, marks in divide(rows):
        found = database.execute(f"select id from {table} where id in ({marks})", some)
        known += [one for (one,) in found.fetchall()]
    new = [astuple(row) for key, row in rows.items() if key not in set(known)]
    if new:
        database.copy(table, columns, new)
    if not known:
        return
    database.execute(
        f"create temp table if not exists new_{table} on commit delete rows"
        f" as select {columns} from {table} with no data"
    )
    database.execute(f"delete from new_{table}")
    database.copy(f"new_{table}", columns, [astuple(rows[one]) for one in known])
    for some, marks in divide(known):
        # the list makes the planner look up each row
        database.execute(
            f"update {table} set {rule} from new_{table} as excluded"
            f" where {table}.id = excluded.id and {table}.id in ({marks})",
            some,
        )


def prepare_months(database: Connection, table: str, moments: Iterable[int | None]) -> None:
    """Make the parts of a table for the months of these times; SQLite has no parts."""
    if not isinstance(database, sqlite3.Connection):
        divided: DividedConnection = database  # type: ignore[assignment]
        make_months(divided, table, moments)


def make_months(database: DividedConnection, table: str, moments: Iterable[int | None]) -> None:
    """Make the parts of a table for the months of these times, unless they are there."""
    for year, month in sorted({_find_month(one) for one in moments if one is not None}):
        name = f"{table}_{year}_{month:02}"
        if not FIRST_YEAR <= year <= LAST_YEAR or name in database.months:
            continue
        (is_there,) = database.execute("select to_regclass(?) is not null", (name,)).fetchone()
        if not is_there:
            _make_month(database, table, name, year=year, month=month)
        database.months.add(name)


def _find_month(moment: int) -> tuple[int, int]:
    try:
        found = datetime.fromtimestamp(moment / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return 0, 0
    return found.year, found.month


def _make_month(database: Connection, table: str, name: str, *, year: int, month: int) -> None:
    key, rest = TABLES[table], f"{table}_rest"
    start, end = _write_bounds(year, month)
    within = f"{key} >= {start} and {key} < {end}"
    database.execute(f"create table {name} (like {table} including defaults including storage)")
    if database.execute(f"select 1 from {rest} where {within} limit 1").fetchone():
        # rows that move are not deleted
        database.execute(f"alter table {rest} disable trigger user")
        database.execute(
            f"with moved as (delete from {rest} where {within} returning *)"
            f" insert into {name} select * from moved"
        )
        database.execute(f"alter table {rest} enable trigger user")
    database.execute(
        f"alter table {table} attach partition {name} for values from ({start}) to ({end})"
    )


def _write_bounds(year: int, month: int) -> tuple[int, int]:
    """Return the first milliseconds of a month and of the next one."""
    first = datetime(year, month, 1, tzinfo=UTC)
    after = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return round(first.timestamp() * 1000), round(after.timestamp() * 1000)


def drop_empty_months(database: Connection) -> list[str]:
    """Drop the months of which every row was deleted, and return their names: none on SQLite."""
    if isinstance(database, sqlite3.Connection):
        return []
    dropped = []
    for name, end in _list_months(database):
        is_past = end < time.time() * 1000 - KEPT_MS
        if is_past and not database.execute(f"select 1 from {name} limit 1").fetchone():
            database.execute(f"drop table {name}")
            dropped.append(name)
    return dropped


def _list_months(database: Connection) -> Iterator[tuple[str, int]]:
    """Yield the names of all months, and the time at which each ends."""
    rows = database.execute(
        "select part.relname, whole.relname from pg_inherits"
        " join pg_class as part on part.oid = inhrelid"
        " join pg_class as whole on whole.oid = inhparent"
        " where whole.relkind = 'p' and part.relkind = 'r' order by 1"
    ).fetchall()
    for name, table in rows:
        words = name.removeprefix(f"{table}_").split("_")
        if table in TABLES and len(words) == 2:
            yield name, _write_bounds(int(words[0]), int(words[1]))[1]


def divide_tables(database: DividedConnection) -> None:
    """Divide the tables that are not yet, and give each month of their rows its part.

    It is the work of a migration, and done by `relight migrate` alone.
    """
    for table, key in TABLES.items():
        (kind,) = database.execute(
            "select relkind from pg_class where oid = to_regclass(?)", (table,)
        ).fetchone()
        if kind == "r":
            _divide(database, table, key)
        rows = database.execute(
            f"select distinct {key} / 86400000 from {table}_rest where {key} is not null"
        ).fetchall()
        make_months(database, table, [day * 86_400_000 for (day,) in rows])


def _divide(database: Connection, table: str, key: str) -> None:
    """Make a table the rest of a divided one of the same name, indexes and triggers."""
    rest = f"{table}_rest"
    number = "id" if table == "tape_part" else "place"
    of_table = "where indexrelid is not null and indrelid = to_regclass(?)"
    indexes = database.execute(
        "select indexrelid::regclass::text, pg_get_indexdef(indexrelid), conname from pg_index"
        f" left join pg_constraint on conindid = indexrelid {of_table}",
        (table,),
    ).fetchall()
    triggers = database.execute(
        "select tgname, pg_get_triggerdef(oid) from pg_trigger"
        " where tgrelid = to_regclass(?) and not tgisinternal",
        (table,),
    ).fetchall()
    for name, _ in triggers:
        database.execute(f"drop trigger {name} on {table}")
    for name, _, constraint in indexes:
        database.execute(
            f"alter table {table} drop constraint {constraint}"
            if constraint
            else f"drop index {name}"
        )
    database.execute(f"alter table {table} alter column {number} drop identity if exists")
    database.execute(f"alter table {table} rename to {rest}")
    database.execute(
        f"create table {table} (like {rest} including defaults including storage)"
        f" partition by range ({key})"
    )
    database.execute(f"create sequence {table}_number owned by {table}.{number}")
    database.execute(
        f"select setval('{table}_number', coalesce((select max({number}) from {rest}), 0) + 1,"
        " false)"
    )
    database.execute(
        f"alter table {table} alter column {number} set default nextval('{table}_number')"
    )
    database.execute(f"alter table {table} attach partition {rest} default")
    for _, definition, constraint in indexes:
        if not constraint:
            database.execute(definition.replace("CREATE UNIQUE INDEX", "CREATE INDEX", 1))
    database.execute(f"create index {table}_by_id on {table} (id)")
    for _, definition in triggers:
        database.execute(definition)
