"""Closed months as Parquet files: what reports add up, for years, beside or without the store.

A month has one file for each table below, named by the month and a hash of all its rows. A list of
the months, `history.json`, is replaced last, so a reader never sees half of an export. DuckDB is
loaded here only. It writes the files, and answers the statements of `store/queries/totals.py` from
them, as one more engine.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from relight.config import Config
from relight.errors import RelightError
from relight.model import AMOUNTS
from relight.store import Store
from relight.store.queries.filters import MACHINE, OWNED, PERSON
from relight.store.queries.totals import SCHEDULED
from relight.store.sql import ReadRows

if TYPE_CHECKING:
    import duckdb

VERSION = 1
LIST = "history.json"
DAYS = "day >= ? and day <= ?"
ROOTS = f"(select distinct root_id from session_day where {DAYS})"
USAGE = ("session_id", "root_id", "day", "source", "project", "model", "provider", "branch")
CALLS = ("session_id", "root_id", "day", "source", "project", "model", "provider", "tool", "kind")
CALL_SUMS = ("tool_calls", "tool_failures", "failed_turns")
SESSION = ("source", "key", "title", "project", "branch", "version")


class HistoryTable(Struct, frozen=True):
    """A table of a month: its columns and types, its rows in the store, and whose they are."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    statement: str
    # the column with the session whose removal removes the row; "" if there is none
    session: str = "session_id"

    @property
    def columns(self) -> str:
        return ", ".join((*self.texts, *self.numbers))

    @property
    def types(self) -> dict[str, str]:
        return dict.fromkeys(self.texts, "varchar") | dict.fromkeys(self.numbers, "bigint")


def _make_table(
    texts: Sequence[str], numbers: Sequence[str], rest: str, **about: Any
) -> HistoryTable:
    names = ", ".join((*texts, *numbers))
    return HistoryTable(tuple(texts), tuple(numbers), f"select {names} {rest}", **about)


def _split(names: Sequence[str]) -> tuple[list[str], list[str]]:
    numbers = ("session_id", "root_id")
    return [one for one in names if one not in numbers], [one for one in names if one in numbers]


_usage, _ids = _split(USAGE)
_calls, _ = _split(CALLS)
TABLES: dict[str, HistoryTable] = {
    "usage": _make_table(_usage, [*_ids, *AMOUNTS, "wall_ms"], f"from session_day where {DAYS}"),
    "calls": _make_table(_calls, [*_ids, *CALL_SUMS], f"from call_day where {DAYS}"),
    # only the sessions of lists: sub-agents' figures are in the usage
    "sessions": HistoryTable(
        (*SESSION, "outcome", "machine", "person"),
        ("id", "started_at", "machine_id", "is_listed"),
        f"select {', '.join(f'about.{one}' for one in SESSION)}, listing.outcome,"
        f" {MACHINE} as machine, {PERSON} as person, about.id, about.started_at,"
        " about.machine_id, case when listing.root_id is null then 0 else 1 end"
        f" from {OWNED} left join listing on listing.root_id = about.id"
        f" where about.id in {ROOTS}",
        "id",
    ),
    "jobs": HistoryTable(
        ("job", "name"),
        ("root_id",),
        f"select job.full_name, job.name, used.root_id from {ROOTS} as used {SCHEDULED}"
        " where job.id is not null",
        "root_id",
    ),
    "models": HistoryTable(
        ("name", "model"),
        (),
        "select name, model from model_alias"
        f" where name in (select model from session_day where {DAYS})",
        "",
    ),
}
# What reports ask for, as views of the files. Of a session the last month that has it counts.
VIEWS = """
    create view session as select * from sessions_rows
        qualify row_number() over (partition by id order by month desc) = 1;
    create view listing as select id as root_id, outcome, machine_id from session
        where is_listed = 1;
    create view session_day as select usage_rows.*, listing.outcome, 0 as is_alone,
        listing.machine_id from usage_rows left join listing using (root_id);
    create view usage_day as select *, 0 as sessions, 0 as successes, 0 as failures,
        case when outcome in ('success', 'failure') then turns end as rated_turns,
        case when outcome in ('success', 'failure') then unpriced_turns end as rated_unpriced_turns,
        case when outcome in ('success', 'failure') then cost_nanos end as rated_cost_nanos
        from session_day;
    create view call_day as select calls_rows.*, listing.outcome, 0 as is_spread,
        listing.machine_id from calls_rows left join listing using (root_id);
    create view stale_day as select distinct day from calls_rows;
    create table tool_day (day varchar, source varchar, project varchar, model varchar,
        provider varchar, tool varchar, sessions bigint, successes bigint, failures bigint,
        tool_calls bigint, tool_failures bigint);
    create view machine as select machine_id as id, max(machine) as name, machine_id as person_id
        from session where machine_id is not null group by machine_id;
    create view person as select machine_id as id, max(person) as name
        from session where machine_id is not null group by machine_id;
    create view known_jobs as select * from jobs_rows
        qualify rank() over (partition by root_id order by month desc) = 1;
    create view run as select row_number() over () as id, root_id as session_id, job as job_id
        from known_jobs;
    create view job as select job as id, job as full_name, max(name) as name,
        cast(null as varchar) as source, cast(null as varchar) as key
        from known_jobs group by job;
    create view run_attempt as select cast(null as bigint) as session_id,
        cast(null as bigint) as run_id where false;
    create view model_alias as select distinct name, model from models_rows;
"""


class HistoryMonth(Struct, frozen=True):
    """A written month: the hash of its rows, and how many there are."""

    digest: str
    rows: int
    sessions: int


class HistoryList(Struct, frozen=True, kw_only=True):
    """The content of `history.json`."""

    relight_history: int = VERSION
    store_id: str
    timezone: str
    machine: str | None = None
    months: dict[str, HistoryMonth] = {}


def load_duckdb() -> Any:
    """Return DuckDB's module; raise with a hint if it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise RelightError(
            "history needs DuckDB, which is not installed",
            "install it with: pip install 'relight[history]'",
        ) from error
    return duckdb


def name_month_file(month: str, table: str, digest: str) -> str:
    """Return the name of a month's file."""
    return f"{month}.{table}.{digest}.parquet"


def quote(path: Path) -> str:
    """Return a path as a text of SQL: some of DuckDB's words take no parameters."""
    return "'" + str(path).replace("'", "''") + "'"


def name_rows(table: HistoryTable, paths: Iterable[Path]) -> str:
    """Return the rows of a table's files as a part of SQL, with the `filename` of each.

    Files that an earlier Relight wrote may lack columns, which are NULL then.
    """
    columns = ", ".join(f"cast(null as {kind}) as {name}" for name, kind in table.types.items())
    files = f"[{', '.join(map(quote, paths))}], union_by_name = true, filename = true"
    return f"(select {columns} where false union all by name from read_parquet({files}))"


def find_list(folder: Path) -> HistoryList | None:
    """Return the list of a folder's months; None if there is none."""
    path = folder / LIST
    try:
        found = msgspec.json.decode(path.read_bytes(), type=HistoryList)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise RelightError(f"{path} cannot be read: {error}", "name another folder") from error
    if found.relight_history > VERSION:
        raise RelightError(f"{path} was written by a newer Relight", "update this one")
    return found


class HistoryConnection:
    """DuckDB's connection with the manners of the other engines."""

    in_transaction = False

    def __init__(self, database: "duckdb.DuckDBPyConnection", errors: type[Exception]) -> None:
        self._database = database
        self._errors = errors

    def execute(self, statement: str, values: Any = (), /) -> ReadRows:
        try:
            found = self._database.execute(statement, list(values))
            return ReadRows(found.fetchall(), description=found.description)
        except self._errors as error:
            raise RelightError(
                f"the history cannot be read: {str(error).splitlines()[0]}",
                "`relight history export` writes its files again where the store has the rows",
            ) from error

    def executemany(self, statement: str, rows: Any, /) -> ReadRows:
        raise RelightError("a history is read only")

    def close(self) -> None:
        self._database.close()


def open_history(config: Config, folder: Path) -> Store:
    """Return the months in a folder as a store that reports can read."""
    duckdb = load_duckdb()
    known = find_list(folder)
    if known is None:
        raise RelightError(
            f"there is no history in {folder}", f"write it with: relight history export {folder}"
        )
    if not known.months:
        raise RelightError(f"the history in {folder} has no month yet", "a month must be over")
    database = HistoryConnection(duckdb.connect(), duckdb.Error)
    for name, table in TABLES.items():
        paths = [
            folder / name_month_file(month, name, one.digest) for month, one in known.months.items()
        ]
        if missing := [path.name for path in paths if not path.exists()]:
            database.close()
            raise RelightError(
                f"{folder} lacks {missing[0]}", f"run: relight history export {folder}"
            )
        database.execute(
            f"create view {name}_rows as select {table.columns},"
            f" substr(parse_filename(filename), 1, 7) as month from {name_rows(table, paths)}"
        )
    for view in VIEWS.split(";"):
        if view.strip():
            database.execute(view)
    database.execute("create table meta (key varchar, value varchar)")
    meta = {"timezone": known.timezone, "machine_name": known.machine}
    for key, value in meta.items():
        if value is not None:
            database.execute("insert into meta (key, value) values (?, ?)", (key, value))
    return Store(config, database, can_write=False)
