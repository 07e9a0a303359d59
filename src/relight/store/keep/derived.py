"""The derived index as a whole: cleared before a rebuild, which retains the recorded costs."""

from collections.abc import Iterable, Sequence

from relight.model import TOKENS, Cost, CostStatus, TokenColumns, Usage
from relight.store import Store
from relight.store.derive.pricing import FindRecorded
from relight.store.sql import Connection, column_list, list_values, make_id_table, read
from relight.store.write.sealed import usage_of

DERIVED = (
    "tool_call",
    "call_day",
    "position_day",
    "control_total",
    "turn",
    "skill_entry",
    "session_words",
    "call_timing",
    "call_report",
    "shared_turn",
    "session_day",
    "session_hour",
    "compaction",
    "cache_rebuild",
    "stumble_reading",
)


class RecordedCost(TokenColumns, frozen=True):
    """The tokens and the cost that a turn was recorded with."""

    cost_nanos: int | None
    cost_status: CostStatus
    cost_source: str | None


def keep_costs(database: Connection) -> FindRecorded:
    """Copy the costs of all turns aside; return a function that finds them by turn."""
    drop_costs(database)
    columns = column_list(RecordedCost)
    tokens = "".join(f", {name} bigint" for name in TOKENS)
    others = f"{tokens}, cost_nanos bigint, cost_status text, cost_source text"
    make_id_table(database, "kept_cost", others)
    database.execute(f"insert into kept_cost (id, {columns}) select id, {columns} from turn")

    def find_recorded(turn_id: int) -> tuple[Usage, Cost] | None:
        statement = f"select {columns} from kept_cost where id = ?"
        for row in read(database, RecordedCost, statement, (turn_id,)):
            return usage_of(row), Cost(row.cost_nanos, row.cost_status, row.cost_source)
        return None

    return find_recorded


def drop_costs(database: Connection) -> None:
    database.execute("drop table if exists kept_cost")


def read_taped_sources(store: Store) -> list[str]:
    """Return the sources that have a tape."""
    return store.list_values(
        "select distinct source from origin join tape_part on origin.id = origin_id order by source"
    )


def clear_index(
    database: Connection,
    *,
    reprice: bool,
    without: Sequence[str] = (),
    unreadable: Iterable[int] = (),
) -> set[int]:
    """Delete everything that the tape can give back, and nothing else; with prices if `reprice`.

    The sources in `without` and the tapes of `unreadable` sessions cannot be read: these sessions,
    and those in one tree with them, stay as they are. Return their ids.
    """
    if reprice:
        database.execute("delete from price")
    kept = _keep_trees(database, unreadable)
    marks = ", ".join("?" for _ in without) or "''"
    is_derivable = f"is_frozen = 0 and source not in ({marks})"
    is_derivable += " and id not in (select id from kept_session)"
    derivable = f"select id from session where {is_derivable}"
    for table in DERIVED:
        database.execute(f"delete from {table} where session_id in ({derivable})", without)
    database.execute(f"delete from skill_charge where root_id in ({derivable})", without)
    # uses with facts keep their ids, and are derived again under the facts
    statement = f"delete from skill_invocations where is_told = 0 and root_id in ({derivable})"
    database.execute(statement, without)
    database.execute(f"delete from session where {is_derivable}", without)
    database.execute("drop table kept_session")
    return kept


def _keep_trees(database: Connection, sessions: Iterable[int]) -> set[int]:
    """Note these sessions, and all of their trees, in `kept_session`; return their ids."""
    database.execute("drop table if exists kept_session")
    make_id_table(database, "kept_session")
    statement = (
        "insert into kept_session (id) select id from session"
        " where root_id = (select root_id from session where id = ?)"
        " on conflict do nothing"
    )
    database.executemany(statement, [(one,) for one in sessions])
    return set(list_values(database, "select id from kept_session"))
