"""Control totals: what a client's running totals show beyond the known turns.

The difference becomes one residual turn for each model. Nothing is added twice: a fork inherits
its parent's total, so of a fork only the difference beyond its parent's counts.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import asdict

from relight.model import TOKENS, WHOLE_TOKENS, Cost, TokenColumns, Turn, Usage, row_id
from relight.store.derive.pricing import Pricing
from relight.store.derive.rollup import days_of
from relight.store.sql import Connection, add_up, column_list, insert, read, same
from relight.store.write.rows import TotalRow
from relight.store.write.sealed import TurnRow, name_tokens, usage_of

SUMS = ", ".join(f"sum({name}) as {name}" for name in TOKENS)
# partial turns that a total corrects
SETTLE_PARTIAL = f"""
    update turn set usage_status = 'reconciled'
    where usage_status = 'partial' and {same("model", ":model")}
        and session_id in (select id from session where root_id = :root)
    returning session_id
"""
# a call without any record of its usage, which the total includes
DROP_COMPACTIONS = f"""
    delete from turn where role = 'compaction' and usage_status = 'partial'
        and {same("model", ":model")} and at <= coalesce(:at, at)
        and session_id in (select id from session where root_id = :root)
    returning session_id
"""
PEERS = """
    with held as (
        select turn_id from shared_turn where session_id = :id
        union
        select id from turn where session_id = :id and id in (select turn_id from shared_turn)
    )
    select session_id from shared_turn where turn_id in (select turn_id from held)
    union select session_id from turn where id in (select turn_id from held)
"""
# the sessions that a fork copied turns from, the last one first
ANCESTORS = """
    select turn.session_id from shared_turn join turn on turn.id = turn_id
    where shared_turn.session_id = ?
    group by turn.session_id order by max(turn.at) desc nulls last, turn.session_id
"""
# One failed call may have several records, in other words and a moment later: in a log, in a dump,
# and from a plugin. The first stays. A client waits longer before it tries again.
ECHOES = """
    delete from turn where session_id = :session and calls = 0 and exists (
        select 1 from turn as first where first.session_id = :session and first.calls = 0
            and first.failure = turn.failure and first.failure_text <> turn.failure_text
            and coalesce(first.model, turn.model, '') = coalesce(turn.model, first.model, '')
            and turn.at - first.at between 0 and :moment_ms and first.id <> turn.id
            and (turn.at > first.at or turn.id > first.id)
    )
"""
MOMENT_MS = 2000
# the weight of a turn's tokens when a cost is shared out: output costs several times as much
WEIGHT = f"{add_up(WHOLE_TOKENS)} + 3 * coalesce(output_tokens, 0)"

# the provider of a mixture in Hermes' records: its total is for all models of it together
MIXTURE = "moa"


class KnownUsage(TokenColumns, frozen=True):
    """Tokens and calls of the single turns that a total includes."""

    calls: int


class Advice(Struct, frozen=True):
    """The known calls of a mixture's advisers, those with a price, and their cost."""

    calls: int
    priced: int
    nanos: int | None


class WeighedTurn(Struct, frozen=True):
    """An answered turn with the weight of its tokens."""

    id: int
    weight: int
    cost_nanos: int | None
    cost_source: str | None


def reconcile(database: Connection, touched: Iterable[int], pricing: Pricing) -> set[int]:
    """Write the residual turns of these sessions' totals; return the sessions that changed."""
    pending = _find_totalled(database, touched)
    settled = [_write_residuals(database, session_id, pricing) for session_id in pending]
    return pending.union(*settled)


def _find_totalled(database: Connection, touched: Iterable[int]) -> set[int]:
    """Return the sessions with a total that these concern: themselves, roots, and forks."""
    found: set[int] = set()
    for session_id in touched:
        (root_id,) = database.execute(
            "select root_id from session where id = ?", (session_id,)
        ).fetchone()
        for near in {session_id, root_id}:
            found |= {near, *_find_peers(database, near)}
    statement = "select 1 from control_total where session_id = ? limit 1"
    return {one for one in found if database.execute(statement, (one,)).fetchone()}


def _find_peers(database: Connection, session_id: int) -> list[int]:
    """Return the sessions that hold some of the same turns."""
    rows = database.execute(PEERS, {"id": session_id}).fetchall()
    return [found for (found,) in rows if found != session_id]


def _find_ancestors(database: Connection, session_id: int) -> list[int]:
    """Return the sessions that this one copied turns from, its parent first."""
    return [found for (found,) in database.execute(ANCESTORS, (session_id,)).fetchall()]


def _write_residuals(database: Connection, session_id: int, pricing: Pricing) -> set[int]:
    """Write what a session's totals show beyond its turns; return the sub-agents it settles."""
    settled: set[int] = set()
    database.execute(ECHOES, {"session": session_id, "moment_ms": MOMENT_MS})
    ancestors = _find_ancestors(database, session_id)
    (source,) = database.execute(
        "select source from session where id = ?", (session_id,)
    ).fetchone()
    totals = read(
        database,
        TotalRow,
        f"select {column_list(TotalRow)} from control_total where session_id = ?",
        (session_id,),
    )
    for total in totals:
        values = {"root": session_id, "model": total.model}
        rows = []
        if total.with_children:
            rows = database.execute(DROP_COMPACTIONS, {**values, "at": total.at}).fetchall()
        _write_residual(database, total, ancestors, pricing, source=source)
        if total.with_children:
            rows += database.execute(SETTLE_PARTIAL, values).fetchall()
        settled.update(found for (found,) in rows)
    return settled


def _write_residual(
    database: Connection,
    total: TotalRow,
    ancestors: list[int],
    pricing: Pricing,
    *,
    source: str,
) -> None:
    """Write the residual turn of one total, or remove it if nothing is left."""
    session_id, model = total.session_id, total.model
    is_mixture = total.provider == MIXTURE
    known = _read_known(
        database,
        session_id,
        model,
        with_children=bool(total.with_children),
        with_advisers=is_mixture,
    )
    known_calls, known_usage = known.calls, usage_of(known)
    if total.role is not None:  # calls beside the conversation, which no turn records
        known_calls, known_usage = 0, Usage()
    advice = _read_advice(database, session_id) if is_mixture else None
    left = _subtract(usage_of(total), known_usage)
    if ancestors:
        left = _subtract(left, _read_difference(database, ancestors[0], model))
    turn_id = row_id("residual", str(total.id))
    own_cost = Cost(total.cost_nanos, total.cost_status, total.cost_source)
    # the source's figure is for the whole: it holds where no turn is known
    cost = own_cost if not known_calls and own_cost.status != "unknown" else None
    if advice and cost:
        cost = _subtract_cost(cost, advice)
    turn = Turn(
        key="",
        session="",
        at=total.at,
        model=model,
        provider=total.provider,
        role=total.role or ("aggregator" if advice else None),
        calls=_count_calls(total.calls, known_calls, left),
        usage=left,
        cost=cost,
    )
    # also one that is written again: its place is after the turns that it completes
    database.execute("delete from turn where id = ?", (turn_id,))
    # calls whose sums are not known yet are turns with unknown tokens
    is_unknown = usage_of(total) == Usage() and turn.calls > 0
    if any(asdict(left).values()) or is_unknown:
        price = pricing.price(turn_id, turn, source=source)
        insert(database, "turn", [_residual_row(database, turn_id, total, turn, price)])
    if known_calls and own_cost.status != "unknown" and not is_mixture:
        shared = pricing.include(own_cost, source, total.provider, at=total.at)
        _share_cost(database, total, shared)


def _share_cost(database: Connection, total: TotalRow, cost: Cost) -> None:
    """Share a total's cost among its turns by their tokens, if no list prices them.

    The rest of the total is one of them. A cost that was shared before, when the total was smaller,
    is shared again. Failed calls have no part in it. If a plan includes the total, it includes the
    turns, at the price of the list.
    """
    turns = read(
        database,
        WeighedTurn,
        f"select id, {WEIGHT} as weight, cost_nanos, cost_source from turn"
        f" where session_id = :session and {same('model', ':model')} and role is null"
        " and (total_id is null and calls > 0 or total_id = :total) order by id",
        {"session": total.session_id, "model": total.model, "total": total.id},
    )
    if cost.status == "included":
        database.executemany(
            "update turn set cost_status = 'included' where id = ? and cost_status = 'estimated'",
            [(turn.id,) for turn in turns],
        )
    whole = sum(turn.weight for turn in turns)
    is_priced = any(
        turn.cost_nanos is not None and turn.cost_source != cost.source for turn in turns
    )
    if not whole or cost.nanos is None or is_priced:
        return
    given = seen = 0
    for turn in turns:
        seen += turn.weight
        share = cost.nanos * seen // whole - given
        given += share
        database.execute(
            "update turn set cost_nanos = ?, cost_status = ?, cost_source = ? where id = ?",
            (share, cost.status, cost.source, turn.id),
        )


def _residual_row(
    database: Connection, turn_id: int, total: TotalRow, turn: Turn, cost: Cost
) -> TurnRow:
    (duration_ms,) = database.execute(
        "select sum(latency_ms) from call_latency where session_id = :session"
        f" and {same('model', ':model')}",
        {"session": total.session_id, "model": total.model},
    ).fetchone()
    return TurnRow(
        id=turn_id,
        session_id=total.session_id,
        at=turn.at,
        day=days_of(database)(turn.at),
        model=turn.model,
        provider=turn.provider,
        role=turn.role,
        calls=turn.calls,
        **name_tokens(turn.usage),
        usage_status="reconciled",
        cost_nanos=cost.nanos,
        cost_status=cost.status,
        cost_source=cost.source,
        duration_ms=duration_ms,
        first_token_ms=None,
        failure=None,
        failure_text=None,
        total_id=total.id,
    )


def _read_advice(database: Connection, session_id: int) -> Advice | None:
    """Return the known calls of a mixture's advisers; None if there are none."""
    (advice,) = read(
        database,
        Advice,
        "select count(*) as calls, count(cost_nanos) as priced, sum(cost_nanos) as nanos from turn"
        " where session_id = ? and role = 'reference' and calls > 0 and total_id is null",
        (session_id,),
    )
    return advice if advice.calls else None


def _subtract_cost(whole: Cost, advice: Advice) -> Cost | None:
    """Return what is left of a cost; None if it or a part of the advice is unknown."""
    if whole.nanos is None or advice.nanos is None or advice.priced < advice.calls:
        return None
    return Cost(max(whole.nanos - advice.nanos, 0), whole.status, whole.source)


def _read_known(
    database: Connection,
    session_id: int,
    model: str | None,
    *,
    with_children: bool,
    with_advisers: bool = False,
) -> KnownUsage:
    """Return calls and tokens of the single turns that a session's total includes.

    Those copied from other sessions are among them, and so are the sub-agents that these had
    before: a fork takes the whole total over. A mixture's total includes its advisers' tokens,
    whatever their models, but does not count their calls.
    """
    scope, inherited = "select :id", "select cast(null as bigint)"
    if with_children:
        scope = "select id from session where root_id = :id"
        if above := ", ".join(map(str, _find_ancestors(database, session_id))):
            inherited = f"select id from session where root_id in ({above}) and id <> root_id"
    calls, test = "calls", same("model", ":model")
    if with_advisers:
        calls = "case when role = 'reference' then 0 else calls end"
        test = f"({test} or role = 'reference')"
    (known,) = read(
        database,
        KnownUsage,
        f"select {SUMS}, coalesce(sum({calls}), 0) as calls from turn"
        f" where {test} and total_id is null and id in ("
        f"select id from turn where session_id in ({scope})"
        " union all select turn_id from shared_turn where session_id = :id"
        f" union all select id from turn where session_id in ({inherited})"
        " and at < coalesce(:forked_at, at + 1))",
        {"id": session_id, "model": model, "forked_at": _read_fork(database, session_id)},
    )
    return known


def _read_fork(database: Connection, session_id: int) -> int | None:
    """Return the moment that a fork began; None if that is unknown."""
    statement = "select forked_at from session where id = ?"
    found: int | None = database.execute(statement, (session_id,)).fetchone()[0]
    return found


def _read_difference(database: Connection, session_id: int, model: str | None) -> Usage:
    totals = read(
        database,
        TotalRow,
        f"select {column_list(TotalRow)} from control_total where session_id = :session"
        f" and {same('model', ':model')}",
        {"session": session_id, "model": model},
    )
    if not totals:
        return Usage()
    with_children = bool(totals[0].with_children)
    known = _read_known(database, session_id, model, with_children=with_children)
    return _subtract(usage_of(totals[0]), usage_of(known))


def _subtract(whole: Usage, known: Usage) -> Usage:
    parts = asdict(known)
    return Usage(
        **{
            name: None if count is None else max(count - (parts[name] or 0), 0)
            for name, count in asdict(whole).items()
        }
    )


def _count_calls(calls: int | None, known: int, left: Usage) -> int:
    """Return the number of calls of a residual: 0 if only known turns were too small."""
    if calls is not None:
        return max(calls - known, 0)
    return 1 if left.input else 0
