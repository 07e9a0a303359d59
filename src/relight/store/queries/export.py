"""Sessions, turns and tool calls as they are exported, in pages of sessions."""

from relight.chat.exported import ExportedCall, ExportedFacts, ExportedFigures, ExportedTurn
from relight.model import TOKENS
from relight.store import Store
from relight.store.queries.costs import KNOWN_COST
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing, read_page, select_sessions
from relight.store.queries.sessions import NAME
from relight.store.queries.steps import IN_ORDER
from relight.store.sql import column_list, read_list, read_usd
from relight.times import write_time

PAGE = 500
FIGURES = {
    "cost_usd": KNOWN_COST.format("sum(turns)", "sum(unpriced_turns)", "sum(cost_nanos)"),
    "included_usd": "coalesce(sum(included_nanos), 0)",
    **{name: f"sum({name})" for name in TOKENS},
}
TURN = {"turn_id": "id", "cost_usd": "cost_nanos"}
CALL = {
    "call_id": "id",
    "failure_kind": "kind",
    "recorded_exit_code": "null",
    "is_error": "null",
    "timed_out": "null",
}


def read_roots(
    store: Store, chosen: Filter, after: tuple[int, int] | None
) -> tuple[list[int], tuple[int, int] | None]:
    """Return a page of the sessions that lists count, the oldest first, and the next `after`."""
    wanted = Listing(is_ascending=True, limit=PAGE)
    asked = select_sessions(store, chosen, wanted)
    rows = read_page(store, wanted, asked, after, way="scan")
    shown = rows[:PAGE]
    following = (shown[-1].place, shown[-1].root_id) if len(rows) > PAGE else None
    return [row.root_id for row in shown], following


def count_roots(store: Store, chosen: Filter) -> int:
    """Return how many sessions lists count."""
    asked = select_sessions(store, chosen, Listing())
    tests = " and ".join([*asked.days, *asked.rest])
    test = f"where {tests}" if tests else ""
    return int(store.query(f"select count(*) from listing {test}", asked.values)[0][0])


def read_family(store: Store, root_id: int) -> list[int]:
    """Return a session and its sub-agents, in the order they began."""
    rows = store.query(
        "select id from session where root_id = ?"
        " order by case when id = root_id then 0 else 1 end, started_at nulls last, key",
        (root_id,),
    )
    return [found for (found,) in rows]


def read_export_facts(store: Store, session_id: int) -> ExportedFacts:
    """Return the facts about a session."""
    names = {
        "session_id": NAME,
        "parent_session_id": f"(select {NAME} from session as above"
        " where above.id = session.parent_id)",
        "outcome": "coalesce(outcome, 'unknown')",
    }
    times = dict.fromkeys(("started_at", "ended_at", "prompted_at"), write_time)
    (found,) = store.read(
        ExportedFacts,
        f"select {_select(ExportedFacts, names)} from session where id = ?",
        (session_id,),
        {**times, "outcome_evidence": read_list},
    )
    return found


def read_export_figures(store: Store, session_id: int) -> ExportedFigures:
    """Return the sums of one session, without its sub-agents."""
    others = ExportedFigures.__struct_fields__
    sums = {name: f"coalesce(sum({name}), 0)" for name in others} | FIGURES
    (found,) = store.read(
        ExportedFigures,
        f"select {_select(ExportedFigures, sums)} from session_day where session_id = ?",
        (session_id,),
        {"cost_usd": read_usd, "included_usd": read_usd},
    )
    return found


def read_export_turns(store: Store, session_id: int) -> list[ExportedTurn]:
    """Return the turns that count for a session; what a fork copied counts for its parent."""
    return store.read(
        ExportedTurn,
        f"select {_select(ExportedTurn, TURN)} from turn where session_id = ? {IN_ORDER}",
        (session_id,),
        {"turn_id": name_turn, "at": write_time, "cost_usd": read_usd},
    )


def read_export_calls(store: Store, session_id: int) -> list[ExportedCall]:
    """Return the tool calls that count for a session."""
    return store.read(
        ExportedCall,
        f"select {_select(ExportedCall, CALL)} from tool_call where session_id = ? {IN_ORDER}",
        (session_id,),
        {
            "call_id": name_exported_call,
            "turn_id": name_turn,
            "at": write_time,
            "finished_at": write_time,
        },
    )


def name_turn(row: int | None) -> str | None:
    """Return a turn's id in exports.

    A letter comes first: a spreadsheet would take some of the digits for a number.

    >>> name_turn(-1), name_turn(10)
    ('tffffffffffffffff', 't000000000000000a')
    """
    return None if row is None else f"t{row % 2**64:016x}"


def name_exported_call(row: int) -> str:
    """Return a tool call's id in exports."""
    return f"c{row % 2**64:016x}"


def _select(shape: type, names: dict[str, str]) -> str:
    """The columns of a Struct, those with another expression under their own name."""
    return ", ".join(
        f"{names[name]} as {name}" if name in names else name
        for name in column_list(shape).split(", ")
    )
