"""Control totals: what a client's own sums show beyond the turns we know.

The difference becomes one residual turn a model. Nothing is ever added twice: a fork inherits its
parent's total, so of sessions that share turns only the largest difference counts.
"""

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from relight.ids import row_id
from relight.model import Cost, Turn, Usage
from relight.times import day_reader

if TYPE_CHECKING:
    from relight.store.derive.pricing import Pricing

BUCKETS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)
COLUMNS = ", ".join(BUCKETS)
SUMS = ", ".join(f"sum({name})" for name in BUCKETS)
WRITE_RESIDUAL = f"""
    insert or replace into turn (id, session_id, at, model, provider, role, calls, {COLUMNS},
        cost_nanos, cost_status, cost_source, day, total_id, usage_status, duration_ms)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
        'reconciled',
        (select sum(latency_ms) from call_latency where session_id = ?2 and model is ?4))
"""
# what single turns told too little of is in the total
SETTLE_PARTIAL = """
    update turn set usage_status = 'reconciled'
    where usage_status = 'partial' and model is ?2
        and session_id in (select id from session where root_id = ?1)
    returning session_id
"""

# who Hermes says is paid for a mixture: its total is for all models of it together
MIXTURE = "moa"

Figures = tuple[int | None, ...]


def reconcile(database: sqlite3.Connection, touched: Iterable[int], pricing: "Pricing") -> set[int]:
    """Write the residual turns of these sessions' totals; gives the sessions that changed."""
    pending = _find_totalled(database, touched)
    settled = [_write_residuals(database, session_id, pricing) for session_id in pending]
    return pending.union(*settled)


def _find_totalled(database: sqlite3.Connection, touched: Iterable[int]) -> set[int]:
    """Sessions with a total that these bear on: themselves, their roots, and those forked."""
    found: set[int] = set()
    if database.execute("select 1 from control_total limit 1").fetchone() is None:
        return found
    for session_id in touched:
        (root_id,) = database.execute(
            "select root_id from session where id = ?", (session_id,)
        ).fetchone()
        for near in {session_id, root_id}:
            found |= {near, *_find_peers(database, near)}
    statement = "select 1 from control_total where session_id = ? limit 1"
    return {one for one in found if database.execute(statement, (one,)).fetchone()}


def _find_peers(database: sqlite3.Connection, session_id: int) -> list[int]:
    """Sessions that hold some of the same turns."""
    rows = database.execute(
        "with held as (select turn_id from shared_turn where session_id = ?1 union"
        "   select id from turn where session_id = ?1 and id in (select turn_id from shared_turn))"
        " select session_id from shared_turn where turn_id in held"
        " union select session_id from turn where id in held",
        (session_id,),
    ).fetchall()
    return [found for (found,) in rows if found != session_id]


def _write_residuals(database: sqlite3.Connection, session_id: int, pricing: "Pricing") -> set[int]:
    """Write what a session's totals show beyond its turns; gives sub-agents that this settles."""
    settled: set[int] = set()
    (key, timezone) = database.execute(
        "select key, (select value from meta where key = 'timezone') from session where id = ?",
        (session_id,),
    ).fetchone()
    read_day = day_reader(timezone)
    peers = [
        peer
        for peer in _find_peers(database, session_id)
        if database.execute("select key < ? from session where id = ?", (key, peer)).fetchone()[0]
    ]
    totals = database.execute(
        "select id, at, model, provider, role, calls, with_children, cost_nanos, cost_status,"
        f" cost_source, {COLUMNS} from control_total where session_id = ?",
        (session_id,),
    ).fetchall()
    for total_id, at, model, provider, role, calls, with_children, *rest in totals:
        is_mixture = provider == MIXTURE
        known_calls, known = _read_known(
            database, session_id, model, with_children=with_children, with_advisers=is_mixture
        )
        if role is not None:  # calls beside the conversation: no one else tells of them
            known_calls, known = 0, (None,) * len(BUCKETS)
        advice = _read_advice(database, session_id) if is_mixture else None
        left = _subtract(tuple(rest[3:]), known)
        for peer in peers:
            left = _subtract(left, _read_difference(database, peer, model))
        turn_id = row_id("residual", str(total_id))
        # the source's own figure is for the whole: it holds where no turn is known
        cost = Cost(*rest[:3]) if not known_calls and rest[1] != "unknown" else None
        if advice and cost:
            cost = _subtract_cost(cost, advice[1])
        turn = Turn(
            key="",
            session="",
            at=at,
            model=model,
            provider=provider,
            role=role or ("aggregator" if advice else None),
            calls=_count_calls(calls, known_calls, left),
            usage=Usage(*left),
            cost=cost,
        )
        if any(left):
            price = pricing.price(turn_id, turn)
            values = _residual_row(turn_id, session_id, turn, price)
            database.execute(WRITE_RESIDUAL, (*values, read_day(at), total_id))
        else:
            database.execute("delete from turn where id = ?", (turn_id,))
            if known_calls and rest[0] is not None and not is_mixture:
                _share_cost(database, session_id, model, Cost(*rest[:3]))
        if with_children:
            rows = database.execute(SETTLE_PARTIAL, (session_id, model)).fetchall()
            settled.update(found for (found,) in rows)
    return settled


def _share_cost(
    database: sqlite3.Connection, session_id: int, model: str | None, cost: Cost
) -> None:
    """Give the turns that a total is made of its cost, by their tokens, if no list prices them."""
    turns = database.execute(
        "select id, coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0)"
        " + coalesce(cache_write_tokens, 0) + 4 * coalesce(output_tokens, 0), cost_nanos, calls"
        " from turn where session_id = ? and model is ? and total_id is null and role is null"
        " order by id",
        (session_id, model),
    ).fetchall()
    paid = [(turn_id, tokens) for turn_id, tokens, _, calls in turns if calls]
    whole = sum(tokens for _, tokens in paid)
    if not whole or cost.nanos is None or any(nanos is not None for *_, nanos, _ in turns):
        return
    given = seen = 0
    for turn_id, tokens in paid:
        seen += tokens
        share = cost.nanos * seen // whole - given
        given += share
        database.execute(
            "update turn set cost_nanos = ?, cost_status = ?, cost_source = ? where id = ?",
            (share, cost.status, cost.source, turn_id),
        )


def _residual_row(turn_id: int, session_id: int, turn: Turn, price: Cost) -> tuple[Any, ...]:
    return (
        turn_id,
        session_id,
        turn.at,
        turn.model,
        turn.provider,
        turn.role,
        turn.calls,
        *astuple(turn.usage),
        *astuple(price),
    )


def _read_advice(database: sqlite3.Connection, session_id: int) -> tuple[int, int | None] | None:
    """How many adviser's calls are known and their cost, None if one has none; None of none."""
    (count, priced, nanos) = database.execute(
        "select count(*), count(cost_nanos), sum(cost_nanos) from turn"
        " where session_id = ? and role = 'reference' and calls > 0 and total_id is null",
        (session_id,),
    ).fetchone()
    return (count, nanos if priced == count else None) if count else None


def _subtract_cost(whole: Cost, part: int | None) -> Cost | None:
    """What is left of a cost; unknown where one of the two is."""
    if whole.nanos is None or part is None:
        return None
    return Cost(max(whole.nanos - part, 0), whole.status, whole.source)


def _read_known(
    database: sqlite3.Connection,
    session_id: int,
    model: str | None,
    *,
    with_children: bool,
    with_advisers: bool = False,
) -> tuple[int, Figures]:
    """Calls and tokens of the single turns that a session's total includes.

    Those copied from another session are among them, and so are that one's sub-agents: a fork
    takes the whole total over. A mixture's total includes its advisers' tokens, whatever their
    models, but does not count their calls.
    """
    scope = "select ?1"
    if with_children:
        scope = "select id from session where root_id = ?1"
        if peers := ", ".join(map(str, _find_peers(database, session_id))):
            scope += f" or root_id in ({peers}) and id not in ({peers})"
    row = database.execute(
        f"select coalesce(sum(iif(?3 and role = 'reference', 0, calls)), 0), {SUMS} from turn"
        " where (model is ?2 or ?3 and role = 'reference') and total_id is null"
        f" and (session_id in ({scope})"
        " or id in (select turn_id from shared_turn where session_id = ?1))",
        (session_id, model, with_advisers),
    ).fetchone()
    return row[0], tuple(row[1:])


def _read_difference(database: sqlite3.Connection, session_id: int, model: str | None) -> Figures:
    row = database.execute(
        f"select with_children, {COLUMNS} from control_total where session_id = ? and model is ?",
        (session_id, model),
    ).fetchone()
    if row is None:
        return (0,) * len(BUCKETS)
    _, known = _read_known(database, session_id, model, with_children=row[0])
    return _subtract(tuple(row[1:]), known)


def _subtract(figures: Figures, known: Figures) -> Figures:
    pairs = zip(figures, known, strict=True)
    return tuple(None if total is None else max(total - (part or 0), 0) for total, part in pairs)


def _count_calls(calls: int | None, known: int, left: Figures) -> int:
    """How many calls the residual stands for: none, when only known turns were too small."""
    if calls is not None:
        return max(calls - known, 0)
    return 1 if left[0] else 0
