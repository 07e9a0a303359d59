"""One more event of a live session, written without summing the whole session anew.

The same rows come out as from `record`, at a cost that does not grow with the session. What is
out of the ordinary (a first turn, a parent, an event older than the last) is left to `record`.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from relight.store.derive import calls, due, invocations, outcomes
from relight.store.derive.pricing import Pricing
from relight.store.derive.rollup import AMOUNTS
from relight.store.write import rows
from relight.store.write.seal import Sealed

# sources whose sessions are told as they happen: no turn is in two of them, and none has totals
LIVE = frozenset(("relight",))
# told after all that is known of the session: first facts stay, the last word holds
GO_ON = """
    update session set title = coalesce(title, ?), ending = coalesce(?, ending),
        answer = coalesce(?, answer), prompted_at = coalesce(?, prompted_at),
        told_outcome = coalesce(told_outcome, ?), ended_at = ?
    where id = ?
"""
# the session's time stands with its first turn, which nothing told later changes
WALL = "(select ended_at - started_at from session where id = :session)"
ADD = f"""
    update session_day set
        {", ".join(f"{n} = iif(:{n} is null, {n}, coalesce({n}, 0) + :{n})" for n in AMOUNTS)},
        wall_ms = iif(wall_ms > 0, {WALL}, 0)
    where session_id = :session and day = :day and model is :model and provider is :provider
    returning wall_ms
"""
WIDEN = f"update session_day set wall_ms = {WALL} where session_id = :session and wall_ms > 0"
INSERT = f"""
    insert into session_day (session_id, root_id, day, source, project, model, provider,
        {", ".join(AMOUNTS)}, wall_ms)
    select id, root_id, :day, source, project, :model, :provider,
        {", ".join(f":{name}" for name in AMOUNTS)}, 0
    from session where id = :session
"""
LABEL, TURN, ID = 12, 2, 0  # places in a row of a tool call
FAILURE = 20  # and in one of a turn

Place = tuple[str, str | None, str | None]
Sums = dict[str, int | None]
NOTHING: Sums = {name: None if name.endswith("_tokens") else 0 for name in AMOUNTS}


def append(database: sqlite3.Connection, piece: Sealed, pricing: Pricing) -> bool:
    """Write the piece and add what it changes to the roll-up; False if it must go the long way."""
    if piece.source not in LIVE or len(piece.sessions) != 1 or piece.skills or piece.totals:
        return False
    (session_id, session) = piece.sessions[0]
    opening = (session.parent, session.project, session.model, session.version)
    if any(fact is not None for fact in opening):
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
    asked = _find_asked(database, piece.calls)
    sums = sum_turns(turns)
    for call in piece.calls:
        _add_call(sums, call, place=places[call[TURN]], asked=asked.get(call[ID]))
    calls.shift(database, list(asked), -1)
    database.executemany(rows.WRITE_TURN, turns)
    database.executemany(rows.WRITE_CALL, piece.calls)
    failed = [row[ID] for row in turns if row[FAILURE] is not None]
    calls.shift(database, [*(call[ID] for call in piece.calls), *failed], 1)
    database.executemany(rows.WRITE_WORDS, rows.word_rows(piece))
    told = (session.title, session.ending, session.answer, session.prompted_at)
    database.execute(GO_ON, (*told, session.told_outcome, session.ended_at, session_id))
    _add_sums(database, session_id, sums)
    due.put_off(database, session_id)
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


def sum_turns(turns: Iterable[tuple[Any, ...]]) -> dict[Place, Sums]:
    """What rows of turns come to, by day, model and provider."""
    sums: dict[Place, Sums] = {}
    for row in turns:
        _add_turn(sums, row)
    return sums


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


def _find_asked(
    database: sqlite3.Connection, told: list[tuple[Any, ...]]
) -> dict[int, tuple[str | None, int | None]]:
    """The calls among these that are on record already: label, and when they had ended."""
    asked = {}
    for call in told:
        row = database.execute(
            "select label, finished_at from tool_call where id = ?", (call[ID],)
        ).fetchone()
        if row is not None:
            asked[call[ID]] = row
    return asked


def _add_call(
    sums: dict[Place, Sums],
    call: tuple[Any, ...],
    *,
    place: Place,
    asked: tuple[str | None, int | None] | None,
) -> None:
    """Count a call; one that was asked for before counts only as what it turned out to be."""
    was_error = asked is not None and asked[0] == "error"
    is_error = was_error if asked and asked[1] is not None else call[LABEL] == "error"
    found = _sums_of(sums, place)
    _add(found, "tool_calls", 0 if asked else 1)
    _add(found, "tool_failures", int(is_error) - int(was_error))


def _sums_of(sums: dict[Place, Sums], place: Place) -> Sums:
    return sums.setdefault(place, dict(NOTHING))


def _add(sums: Sums, name: str, value: int | None) -> None:
    if value is not None:
        sums[name] = (sums[name] or 0) + value


def _add_sums(database: sqlite3.Connection, session_id: int, sums: dict[Place, Sums]) -> None:
    """Add what is new to the roll-up, and the time that passed."""
    is_widened = False
    for (day, model, provider), added in sums.items():
        values = {"session": session_id, "day": day, "model": model, "provider": provider, **added}
        walls = database.execute(ADD, values).fetchall()
        if not walls:
            database.execute(INSERT, values)
        is_widened |= any(wall_ms for (wall_ms,) in walls)
    if not is_widened:
        database.execute(WIDEN, {"session": session_id})
