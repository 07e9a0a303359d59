"""Write closed months as Parquet files; `history` has their tables and reads them."""

import os
import re
from collections.abc import Collection
from contextlib import closing
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.locks import make_folder, replace_when_whole
from relight.store import Store
from relight.store.history import (
    LIST,
    TABLES,
    HistoryConnection,
    HistoryList,
    HistoryMonth,
    find_list,
    load_duckdb,
    name_month_file,
    name_rows,
    quote,
)
from relight.store.team import read_own_id

OWN_NAME = re.compile(r"\d{4}-\d\d\.[a-z]+\.[0-9a-f]{16}\.parquet")


class HistorySummary(Struct, frozen=True, kw_only=True):
    """The months that an export wrote, and those that were there already."""

    folder: str
    written: list[str]
    unchanged: list[str]
    # months whose files could not be read: they have what the store has, and nothing pruned
    damaged: list[str]
    bytes: int


Rows = dict[str, list[tuple[Any, ...]]]


def export_history(store: Store, folder: Path, *, now: float) -> HistorySummary:
    """Write each month that is over, if its rows are not those that are there.

    A session that was pruned since stays in the month's files; one that was forgotten does not.
    """
    duckdb = load_duckdb()
    make_folder(folder)
    known = find_list(folder)
    own_id = read_own_id(store)
    if known is not None and known.store_id != own_id:
        raise RelightError(f"{folder} has the history of another store", "name another folder")
    this_month = datetime.fromtimestamp(now, ZoneInfo(store.timezone)).strftime("%Y-%m")
    old = known.months if known else {}
    months = dict(old)
    known_ids = "select id from session union all select session_id from forgotten"
    not_pruned = set(store.list_values(known_ids))
    damaged: list[str] = []
    with closing(HistoryConnection(duckdb.connect(), duckdb.Error)) as database:
        for month in sorted({*_list_months(store, this_month), *old}):
            rows = _read_rows(store, month)
            if month in old:
                try:
                    _add_pruned(database, folder, month, old[month].digest, rows, not_pruned)
                except RelightError:  # what the store has is written again
                    damaged.append(month)
            digest = _hash(rows)
            if month in old and old[month].digest == digest and month not in damaged:
                continue
            months.pop(month, None)
            if rows["usage"]:  # else all of it was forgotten
                _write(database, folder, month, digest, rows)
                count = sum(map(len, rows.values()))
                months[month] = HistoryMonth(digest, count, len(rows["sessions"]))
    made = HistoryList(
        store_id=own_id,
        timezone=store.timezone,
        machine=store.find_meta("machine_name"),
        months=dict(sorted(months.items())),
    )
    with replace_when_whole(folder / LIST) as file:
        file.write(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    size = _sweep(folder, made)
    same = [month for month in old if old[month] is months.get(month)]
    written = sorted({*old, *months} - {*same})
    return HistorySummary(
        folder=str(folder), written=written, unchanged=same, damaged=damaged, bytes=size
    )


def _sweep(folder: Path, made: HistoryList) -> int:
    """Delete the files of months that were replaced; return the size of all others."""
    names = {
        name_month_file(month, table, one.digest)
        for month, one in made.months.items()
        for table in TABLES
    }
    for path in folder.glob("*.parquet"):
        if path.name not in names and OWN_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    return sum((folder / name).stat().st_size for name in names)


def _list_months(store: Store, this_month: str) -> list[str]:
    return store.list_values(
        "select distinct substr(day, 1, 7) from session_day where day < ? and day <> 'unknown'",
        (this_month,),
    )


def _read_rows(store: Store, month: str) -> Rows:
    """The rows of a month in the store."""
    with store.snapshot():
        return {
            name: store.query(table.statement, (f"{month}-01", f"{month}-31"))
            for name, table in TABLES.items()
        }


def _add_pruned(
    database: HistoryConnection,
    folder: Path,
    month: str,
    digest: str,
    rows: Rows,
    not_pruned: Collection[int],
) -> None:
    """Add what the files have of sessions that the store has pruned; raise if one is damaged."""
    added: Rows = {}
    for name, table in TABLES.items():
        path = folder / name_month_file(month, name, digest)
        statement = f"select {table.columns} from {name_rows(table, [path])}"
        found = database.execute(statement).fetchall()
        if table.session:
            place = table.columns.split(", ").index(table.session)
            added[name] = [row for row in found if row[place] not in not_pruned]
        else:
            added[name] = [row for row in found if row not in rows[name]]
    for name, more in added.items():
        rows[name] += more


def _hash(rows: Rows) -> str:
    digest = blake2b(digest_size=8)
    for name in TABLES:
        rows[name].sort(key=repr)
        digest.update(msgspec.msgpack.encode((name, rows[name])))
    return digest.hexdigest()


def _write(database: HistoryConnection, folder: Path, month: str, digest: str, rows: Rows) -> None:
    """Write the files of a month, each under its name when it is whole.

    DuckDB reads lines of JSON a hundred times as fast as it takes single rows.
    """
    for name, table in TABLES.items():
        lines = folder / f".{month}.{name}.{os.getpid()}.json"
        beside = lines.with_suffix(".parquet")
        names = table.columns.split(", ")
        types = ", ".join(f"{one}: '{kind}'" for one, kind in table.types.items())
        try:
            with replace_when_whole(lines) as file:
                for row in rows[name]:
                    file.write(msgspec.json.encode(dict(zip(names, row, strict=True))) + b"\n")
            database.execute(
                f"copy (select * from read_json({quote(lines)}, format = 'nd',"
                f" columns = {{{types}}})) to {quote(beside)} (format parquet, compression zstd)"
            )
            beside.chmod(0o600)
            beside.replace(folder / name_month_file(month, name, digest))
        finally:
            lines.unlink(missing_ok=True)
            beside.unlink(missing_ok=True)
