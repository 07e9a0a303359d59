"""One more event of a live session, written without summing the whole session anew.

The same rows come out as from `record`, at a cost that does not grow with the session. What is
out of the ordinary (a first turn, a parent, an event older than the last) is left to `record`.
"""

import sqlite3
from typing import Any

from relight.store import invocations, outcomes, rows, scores
from relight.store.pricing import Pricing
from relight.store.seal import Sealed

# sources whose sessions are told as they happen: no turn is in two of them, and none has totals
LIVE = frozenset(("relight",))
SUMS = (
    "turns",
    "partial_turns",
    "unpriced_turns",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_nanos",
    "included_nanos",
    "tool_calls",
    "tool_failures",
)
ADD = f"""
    update session_day set
        {", ".join(f"{n} = iif(:{n} is null, {n}, coalesce({n}, 0) + :{n})" for n in SUMS)}
    where session_id = :session and day = :day and model is :model and provider is :provider
"""
INSERT = f"""
    insert into session_day
    select id, root_id, :day, source, project, :model, :provider,
        {", ".join(f":{name}" for name in SUMS)}, 0
    from session where id = :session
"""
LABEL, TURN, ID = 12, 2, 0  # places in a row of a tool call

Place = tuple[str, str | None, str | None]
Sums = dict[str, int | None]


def append(database: sqlite3.Connection, piece: Sealed, pricing: Pricing) -> bool:
    """Write the piece and add what it changes to the roll-up; False if it must go the long way."""
    if piece.source not in LIVE or len(piece.sessions) != 1 or piece.skills or piece.totals:
        return False
    (session_id, session) = piece.sessions[0]
    if session.parent is not None or session.project is not None or session.model is not None:
        return False
    if not _goes_on(database, session_id, session.started_at):
        return False
    turns = [
        rows.turn_row(piece.source, found, day, turn, cost=pricing.price(found, turn))
        for found, day, turn in piece.turns
    ]
    places = _place_calls(database, piece, turns)
    if places is None or _has_any(database, turns):
        return False
    sums: dict[Place, Sums] = {}
    for row in turns:
        _add_turn(sums, row)
    for call in piece.calls:
        _add_call(database, sums, call, places[call[TURN]])
    database.executemany(rows.WRITE_TURN, turns)
    database.executemany(rows.WRITE_CALL, piece.calls)
    database.executemany(rows.WRITE_WORDS, rows.word_rows(piece))
    rows.write_sessions(database, piece)
    for (day, model, provider), added in sums.items():
        values = {"session": session_id, "day": day, "model": model, "provider": provider, **added}
        if not database.execute(ADD, values).rowcount:
            database.execute(INSERT, values)
    _widen_wall(database, session_id)
    if not piece.turns and not piece.calls:
        # all of a session is looked at to score it: when someone spoke, and when it has ended
        scores.refresh(database, {session_id})
    invocations.refresh(database, outcomes.refresh(database, {session_id}))
    pricing.keep_found(database)
    return True


def _goes_on(database: sqlite3.Connection, session_id: int, started_at: int | None) -> bool:
    """Whether the session has turns, and its time already shows, with nothing later in it."""
    row = database.execute(
        "select ended_at, id <> root_id or exists (select 1 from session_day"
        "   where session_id = session.id and wall_ms > 0),"
        " exists (select 1 from session_day where session_id = session.id and turns > 0)"
        " from session where id = ?",
        (session_id,),
    ).fetchone()
    if row is None or row[0] is None or started_at is None:
        return False
    return bool(row[1] and row[2] and started_at >= row[0])


def _place_calls(
    database: sqlite3.Connection, piece: Sealed, turns: list[tuple[Any, ...]]
) -> dict[int, Place] | None:
    """Day, model and provider of the turns that these calls belong to; None if one is unknown."""
    told = {row[0]: (row[3], row[4], row[5]) for row in turns}
    for call in piece.calls:
        turn_id = call[TURN]
        if turn_id is None:
            return None
        if turn_id not in told:
            found = database.execute(
                "select day, model, provider from turn where id = ?", (turn_id,)
            ).fetchone()
            if found is None:
                return None
            told[turn_id] = found
    needed = {call[TURN]: told[call[TURN]] for call in piece.calls}
    if any(day is None or model is None for day, model, _ in needed.values()):
        return None
    return needed


def _has_any(database: sqlite3.Connection, turns: list[tuple[Any, ...]]) -> bool:
    return any(
        database.execute("select 1 from turn where id = ?", (row[0],)).fetchone() for row in turns
    )


def _add_turn(sums: dict[Place, Sums], row: tuple[Any, ...]) -> None:
    day, model, provider, calls = row[3], row[4], row[5], row[7]
    if calls <= 0:
        return  # a call that failed is no turn
    nanos, status = row[15], row[16]
    found = _sums_of(sums, (day or "unknown", model, provider))
    _add(found, "turns", calls)
    _add(found, "partial_turns", calls if row[14] == "partial" else 0)
    _add(found, "unpriced_turns", calls if nanos is None else 0)
    names = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    for name, value in zip(names, row[8:14], strict=True):
        _add(found, f"{name}_tokens", value)
    _add(found, "included_nanos" if status == "included" else "cost_nanos", nanos or 0)


def _add_call(
    database: sqlite3.Connection, sums: dict[Place, Sums], call: tuple[Any, ...], place: Place
) -> None:
    """Count a call; one that was asked for before counts only as what it turned out to be."""
    known = database.execute(
        "select label, finished_at from tool_call where id = ?", (call[ID],)
    ).fetchone()
    was_error = known is not None and known[0] == "error"
    is_error = was_error if known and known[1] is not None else call[LABEL] == "error"
    found = _sums_of(sums, place)
    _add(found, "tool_calls", 0 if known else 1)
    _add(found, "tool_failures", int(is_error) - int(was_error))


def _sums_of(sums: dict[Place, Sums], place: Place) -> Sums:
    zero = {name: None if name.endswith("_tokens") else 0 for name in SUMS}
    return sums.setdefault(place, zero)


def _add(sums: Sums, name: str, value: int | None) -> None:
    if value is not None:
        sums[name] = (sums[name] or 0) + value


def _widen_wall(database: sqlite3.Connection, session_id: int) -> None:
    """The session's time stands with its first turn, which an event at its end does not change."""
    database.execute(
        "update session_day set wall_ms ="
        "   (select ended_at - started_at from session where id = ?1)"
        " where session_id = ?1 and wall_ms > 0",
        (session_id,),
    )
