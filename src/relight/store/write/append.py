"""Add the next event of a live session to its rows, at a cost that does not grow with the session.

The rows are those that `Recorder.write` would write. It does what is unusual: a first turn, a
parent, an event older than the last.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.model import Session
from relight.store.derive import outcomes, scores
from relight.store.derive.additions import Additions, EarlierCall, Group, Owner
from relight.store.derive.pricing import NAMED, Pricing, learn
from relight.store.sql import Connection, column_list, read
from relight.store.write import rows
from relight.store.write.sealed import CallRow, Sealed, TurnRow

GOING = """
    select root_id, source, project, machine_id, title, told_outcome, started_at, ended_at,
        id <> root_id or exists (
            select 1 from session_day where session_id = session.id and wall_ms > 0
        ) as has_time,
        exists (select 1 from session_day where session_id = session.id and turns > 0) as has_turns,
        (select coalesce(sum(tool_calls), 0) from position_day where session_id = session.id)
            as tool_calls,
        exists (select 1 from score_due where session_id = session.id) as is_due,
        exists (select 1 from skill_entry) or exists (select 1 from skill_invocations) as has_skills
    from session where id = ?
"""
OWNED = Owner.__struct_fields__[1:]
GROUP = f"select day, {NAMED.format('turn.model')} as model, provider from turn where id = ?"
EARLIER = f"select {column_list(EarlierCall)} from tool_call where id = ?"


class GoingSession(Struct, frozen=True):
    """A session before its next event."""

    root_id: int
    source: str
    project: str | None
    machine_id: int | None
    title: str | None
    told_outcome: str | None
    started_at: int | None
    ended_at: int | None
    # a session without turns or without a wall time is summed as a whole
    has_time: bool
    has_turns: bool
    tool_calls: int
    is_due: bool
    has_skills: bool


def append(database: Connection, piece: Sealed, pricing: Pricing) -> bool:
    """Write the piece and add its figures to the roll-up; False if `Recorder.write` must do it."""
    if len(piece.sessions) != 1 or piece.skills or piece.totals:
        return False
    ((session_id, session),) = piece.sessions
    opening = (session.parent, session.project, session.model, session.version)
    if any(fact is not None for fact in opening):
        return False
    found = read(database, GoingSession, GOING, (session_id,))
    if not found or not _continues(found[0], session):
        return False
    going = found[0]
    turns = rows.price_turns(piece, pricing.price_row)
    own = pricing.store.config.models.aliases
    names = learn(database, {turn.model for turn in turns}, own)
    named = [replace(turn, model=names.get(turn.model, turn.model)) for turn in turns]
    earlier = _find_earlier(database, piece.calls)
    callers = [earlier.get(call.id, call).turn_id for call in piece.calls]
    groups = _group_turns(database, callers, named)
    if groups is None or _has_any(database, turns):
        return False
    owner = Owner(session_id, *(getattr(going, name) for name in OWNED))
    additions = Additions(owner, calls_before=going.tool_calls)
    for call, caller in zip(piece.calls, callers, strict=True):
        if known := earlier.get(call.id):
            additions.finish_call(database, call, groups[caller], known)
    new = [call for call in piece.calls if call.id not in earlier]
    _add_new(additions, new, named, groups, calls_before=going.tool_calls)
    rows.write_turns(database, turns)
    rows.write_pieces(database, [piece])
    _write_session(database, session_id, going, session)
    additions.write(database, wall_ms=(session.ended_at or 0) - (going.started_at or 0))
    if any(turn.cache_write_tokens for turn in turns):
        from relight.store.derive.cache_rebuilds import append_turns

        append_turns(database, session_id, [turn.id for turn in turns], pricing)
    if not going.is_due:
        scores.postpone(database, session_id)
    judged = {session_id}
    if session.title is None:
        outcomes.judge_sessions(database, judged, piece.admissions)
    else:  # earlier sessions with this task may turn out to be asked again
        judged = outcomes.refresh(database, judged, piece.admissions)
    if going.has_skills:
        from relight.store.derive.skills import uses

        uses.refresh(database, judged)
    pricing.write_found(database)
    return True


def _continues(going: GoingSession, session: Session) -> bool:
    """True if the session has turns and a wall time, and nothing in it is later."""
    is_known = going.ended_at is not None and going.has_time and going.has_turns
    return (
        is_known and session.started_at is not None and session.started_at >= (going.ended_at or 0)
    )


def _find_earlier(database: Connection, calls: Sequence[CallRow]) -> dict[int, EarlierCall]:
    """Return those of these calls that are recorded already, by id."""
    return {
        call.id: row for call in calls for row in read(database, EarlierCall, EARLIER, (call.id,))
    }


def _group_turns(
    database: Connection, callers: Sequence[int | None], turns: Sequence[TurnRow]
) -> dict[int | None, Group] | None:
    """Return the roll-up groups of the turns that made calls; None if one is unknown."""
    known = {turn.id: Group(turn.day, turn.model, turn.provider) for turn in turns}
    needed: dict[int | None, Group] = {}
    for caller in callers:
        if caller is None:
            return None
        if caller not in known:
            found = read(database, Group, GROUP, (caller,))
            if not found:
                return None
            known[caller] = found[0]
        needed[caller] = known[caller]
    if any(group.day is None or group.model is None for group in needed.values()):
        return None
    return needed


def _has_any(database: Connection, turns: Iterable[TurnRow]) -> bool:
    return any(
        database.execute("select 1 from turn where id = ?", (turn.id,)).fetchone() for turn in turns
    )


def _add_new(
    additions: Additions,
    calls: Sequence[CallRow],
    turns: Sequence[TurnRow],
    groups: dict[int | None, Group],
    *,
    calls_before: int,
) -> None:
    """Add calls and turns that are not recorded yet, each at its place among the session's."""
    in_order = sorted(calls, key=lambda call: call.at or 0)
    for place, call in enumerate(in_order, calls_before + 1):
        additions.add_call(call, groups[call.turn_id], place=place)
    for turn in turns:
        before = sum((call.at or 0) <= (turn.at or 0) for call in calls)
        additions.add_turn(turn, calls_before=calls_before + before)


def _write_session(
    database: Connection, session_id: int, going: GoingSession, session: Session
) -> None:
    """Write what the event changes: first facts stay, the last end holds."""
    facts: dict[str, Any] = {
        "title": session.title if going.title is None else None,
        "told_outcome": session.told_outcome if going.told_outcome is None else None,
        "ending": session.ending,
        "answer": session.answer,
        "prompted_at": session.prompted_at,
        "ended_at": session.ended_at,
    }
    changed = {name: value for name, value in facts.items() if value is not None}
    changes = ", ".join(f"{name} = :{name}" for name in changed)
    database.execute(f"update session set {changes} where id = :id", {**changed, "id": session_id})
