"""The second half of the door: price sealed rows and write them with their read mark, at once.

The rows do not depend on the order of records, or on how often they arrive. An event of a live
session is appended without summing the whole session again, at a cost that does not grow with it.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.judging.admissions import Admissions
from relight.model import AMOUNTS, TOKENS, WHOLE_TOKENS
from relight.store import Store, search_index
from relight.store.derive import outcomes, rollup, scores, unanswered
from relight.store.derive.pricing import NAMED, Pricing, learn
from relight.store.sql import Connection, list_marks, read, same
from relight.store.write import rows
from relight.store.write.rows import TurnRow
from relight.store.write.seal import (
    CallRow,
    Sealed,
    list_originals,
    list_origins,
    redate,
    strip_piece,
)
from relight.store.write.tape import find_continuing, write_place

# sources that record sessions as they happen: no turn is in two sessions, and none has totals
LIVE = frozenset(("relight",))
# this event is later than all others of the session: first facts stay, the last one holds
CONTINUE = """
    update session set title = coalesce(title, :title), ending = coalesce(:ending, ending),
        answer = coalesce(:answer, answer), prompted_at = coalesce(:prompted_at, prompted_at),
        told_outcome = coalesce(told_outcome, :told_outcome), ended_at = :ended_at
    where id = :id
"""
# the wall time is in the row of the first turn, which later events do not change
WALL = "(select ended_at - started_at from session where id = :session)"
ADDED = ", ".join(
    f"{name} = case when :{name} is null then {name} else coalesce({name}, 0) + :{name} end"
    for name in AMOUNTS
)
ADD = f"""
    update session_day set {ADDED}, wall_ms = case when wall_ms > 0 then {WALL} else 0 end
    where session_id = :session and day = :day and {same("model", ":model")}
        and {same("provider", ":provider")}
    returning wall_ms
"""
WIDEN = f"update session_day set wall_ms = {WALL} where session_id = :session and wall_ms > 0"
INSERT = f"""
    insert into session_day (session_id, root_id, day, source, project, model, provider, branch,
        machine_id, {", ".join(AMOUNTS)}, wall_ms)
    select id, root_id, :day, source, project, :model, :provider, branch, machine_id,
        {", ".join(f":{name}" for name in AMOUNTS)}, 0
    from session where id = :session
"""

Sums = dict[str, int | None]
NOTHING: Sums = {name: None if name in TOKENS else 0 for name in AMOUNTS}


class Recorder:
    """Writes sealed rows into a store; one for a whole import, so that prices stay in memory."""

    def __init__(self, store: Store, pricing: Pricing | None = None) -> None:
        self.store = store
        self.pricing = pricing or Pricing(store)

    def record(self, pieces: Sequence[Sealed]) -> tuple[list[Sealed], set[int]]:
        """Write pieces in one transaction; return those written, and the sessions that are new.

        A piece whose mark has moved on since it was read was recorded by another process, and is
        left out.
        """
        with self.store.transaction() as database:
            if self.store.reread():  # sealed in the time zone before
                pieces = [redate(piece, self.store.timezone) for piece in pieces]
            current = find_continuing(database, pieces)
            forgotten = [is_forgotten(database, piece) for piece in current]
            left_out = [
                is_gone or has_original(database, piece)
                for piece, is_gone in zip(current, forgotten, strict=True)
            ]
            wanted = [one for one, is_out in zip(current, left_out, strict=True) if not is_out]
            is_appended = len(wanted) == 1 and append(database, wanted[0], self.pricing)
            new = set() if is_appended else self.write(database, wanted)
            on_tape: list[tuple[int, Sealed]] = []
            for piece, is_gone, is_out in zip(current, forgotten, left_out, strict=True):
                kept = strip_piece(piece) if is_out else piece
                part_id = write_place(database, kept, is_forgotten=is_gone)
                if part_id is not None:
                    on_tape.append((part_id, piece))
            write_texts(database, on_tape)
        return current, new

    def write(self, database: Connection, pieces: Sequence[Sealed]) -> set[int]:
        """Write the rows of these pieces and everything derived from them."""
        touched = {found for piece in pieces for found, _ in piece.sessions}
        new = touched - rows.find_known(database, touched)
        if any(piece.reports for piece in pieces) or _has_rows(database, "call_report"):
            from relight.store.derive import reports

            reports.write_reports(database, pieces, touched)
        for piece in pieces:
            touched |= rows.write_sessions(database, piece)
        turns = [turn for piece in pieces for turn in _price_turns(piece, self.pricing)]
        models = {turn.model for turn in turns}
        models |= {session.model for piece in pieces for _, session in piece.sessions}
        models |= {total.model for piece in pieces for _, total in piece.totals}
        learn(database, models, self.store.config.models.aliases)
        shared = rows.find_shared_turns(database, turns)
        rows.write_turns(database, turns)
        rows.write_pieces(database, pieces)
        rows.write_shared(database, shared)
        touched |= {session for sessions in shared.values() for session in sessions}
        touched |= _write_side_records(database, pieces)
        known = {text: found for piece in pieces for text, found in piece.admissions.items()}
        self.derive(database, touched, known)
        return new

    def derive(
        self, database: Connection, touched: set[int], admissions: Admissions | None = None
    ) -> None:
        """Write everything that is derived from the rows of these sessions."""
        if _has_rows(database, "shared_turn"):
            from relight.store.derive import forks

            touched |= forks.settle(database, touched)
        if _has_rows(database, "call_report") or _has_rows(database, "call_timing"):
            from relight.store.derive import reports

            touched |= reports.join_reports(database, touched, self.pricing)
        if _has_rows(database, "control_total"):
            from relight.store.derive.reconcile import reconcile

            touched |= reconcile(database, touched, self.pricing)
        asked = touched | outcomes.join_runs(database)
        touched |= unanswered.refresh(database, asked, self.store.config)
        if _has_rows(database, "machine_session"):
            from relight.store.derive import machines

            machines.settle(database, touched)
        if _has_rows(database, "call_timing"):
            from relight.store.write.side_records import refresh_durations

            refresh_durations(database, touched)
        rollup.refresh(database, touched)
        _refresh_rebuilds(database, touched, self.pricing)
        scores.refresh(database, touched)
        judged = outcomes.refresh(database, touched, admissions)
        if _has_rows(database, "run"):
            from relight.store.derive.skills.scheduled import write_scheduled

            write_scheduled(database, judged)
        refresh_skills(database, judged)
        self.pricing.write_found(database)


def is_forgotten(database: Connection, piece: Sealed) -> bool:
    """Checked for each piece: a session may be forgotten while it goes on."""
    ids = list_origins(piece)
    statement = f"select 1 from forgotten where session_id in ({list_marks(ids)})"
    return database.execute(statement, ids).fetchone() is not None


def has_original(database: Connection, piece: Sealed) -> bool:
    """True for an export of a session that this store has: it would count twice."""
    return bool(rows.find_known(database, list_originals(piece)))


def write_texts(database: Connection, pieces: Iterable[tuple[int, Sealed]]) -> None:
    """Index the texts of pieces on the tape, each given with its part, for the search."""
    owned = [(part, one.owner_id, one.texts) for part, one in pieces if one.owner_id is not None]
    search_index.add_texts(database, owned)


# Most agents leave no side records, totals or skills: the modules for them are loaded when needed.


def _write_side_records(database: Connection, pieces: Sequence[Sealed]) -> set[int]:
    """Write the records beside sessions; return the sessions that logs have durations of."""
    found = [
        one for one in pieces if one.jobs or one.runs or one.timings or one.latencies or one.limits
    ]
    if not found:
        return set()
    from relight.store.write.side_records import write_side_records

    return {session for piece in found for session in write_side_records(database, piece)}


def _refresh_rebuilds(database: Connection, touched: set[int], pricing: Pricing) -> None:
    written = "session_id in (select id from touched) and cache_write_tokens > 0"
    if _has_rows(database, f"turn where {written}"):
        from relight.store.derive import cache_rebuilds

        cache_rebuilds.refresh(database, touched, pricing)


def refresh_skills(database: Connection, judged: set[int]) -> None:
    if _has_rows(database, "skill_entry", "skill_invocations"):
        from relight.store.derive.skills import uses

        uses.refresh(database, judged)


def _has_rows(database: Connection, *tables: str) -> bool:
    """True if one of these tables has a row."""
    return any(database.execute(f"select 1 from {one} limit 1").fetchone() for one in tables)


def _price_turns(piece: Sealed, pricing: Pricing) -> list[TurnRow]:
    source, price = piece.source, pricing.price
    return [
        rows.turn_row(source, found, day, turn, cost=price(found, turn, source=source))
        for found, day, turn in piece.turns
    ]


class Group(Struct, frozen=True):
    """The day, model and provider of a roll-up row."""

    day: str | None
    model: str | None
    provider: str | None


class EarlierCall(Struct, frozen=True):
    """A call that is recorded already, perhaps without its result."""

    label: str | None
    finished_at: int | None


def append(database: Connection, piece: Sealed, pricing: Pricing) -> bool:
    """Write the piece and add its figures to the roll-up; False if `Recorder.write` must do it.

    That is for unusual events: a first turn, a parent, an event older than the last.
    """
    if piece.source not in LIVE or len(piece.sessions) != 1 or piece.skills or piece.totals:
        return False
    (session_id, session) = piece.sessions[0]
    opening = (session.parent, session.project, session.model, session.version)
    if any(fact is not None for fact in opening):
        return False
    if not _continues(database, session_id, session.started_at):
        return False
    turns = _price_turns(piece, pricing)
    own = pricing.store.config.models.aliases
    names = learn(database, {turn.model for turn in turns}, own)
    named = [replace(turn, model=names.get(turn.model, turn.model)) for turn in turns]
    groups = _group_calls(database, piece.calls, named)
    if groups is None or _has_any(database, turns):
        return False
    earlier = _find_earlier(database, piece.calls)
    sums = sum_turns(named)
    for call in piece.calls:
        _add_call(sums, call, groups[call.turn_id], earlier.get(call.id))
    rollup.shift_calls(database, list(earlier), -1)
    rows.write_turns(database, turns)
    rows.write_pieces(database, [piece])
    failed = [turn.id for turn in turns if turn.failure is not None]
    rollup.shift_calls(database, [*(call.id for call in piece.calls), *failed], 1)
    rollup.add_hours(database, [turn.id for turn in turns])
    facts = {
        "id": session_id,
        "title": session.title,
        "ending": session.ending,
        "answer": session.answer,
        "prompted_at": session.prompted_at,
        "told_outcome": session.told_outcome,
        "ended_at": session.ended_at,
    }
    database.execute(CONTINUE, facts)
    _add_sums(database, session_id, sums)
    if any(turn.cache_write_tokens for turn in turns):
        from relight.store.derive.cache_rebuilds import append_turns

        append_turns(database, session_id, [turn.id for turn in turns], pricing)
    scores.postpone(database, session_id)
    refresh_skills(database, outcomes.refresh(database, {session_id}))
    pricing.write_found(database)
    return True


def _continues(database: Connection, session_id: int, started_at: int | None) -> bool:
    """True if the session has turns and a wall time, and nothing in it is later."""
    row = database.execute(
        "select ended_at, id <> root_id or exists (select 1 from session_day"
        "   where session_id = session.id and wall_ms > 0),"
        " exists (select 1 from session_day where session_id = session.id and turns > 0)"
        " from session where id = ?",
        (session_id,),
    ).fetchone()
    if row is None or started_at is None:
        return False
    ended_at, has_time, has_turns = row
    return bool(ended_at is not None and has_time and has_turns and started_at >= ended_at)


def _group_calls(
    database: Connection, calls: Sequence[CallRow], turns: Sequence[TurnRow]
) -> dict[int | None, Group] | None:
    """Return the roll-up groups of the turns that made these calls; None if one is unknown."""
    known = {turn.id: Group(turn.day, turn.model, turn.provider) for turn in turns}
    needed: dict[int | None, Group] = {}
    for call in calls:
        if call.turn_id is None:
            return None
        if call.turn_id not in known:
            statement = f"select day, {NAMED.format('turn.model')} as model, provider from turn"
            statement += " where id = ?"
            found = read(database, Group, statement, (call.turn_id,))
            if not found:
                return None
            known[call.turn_id] = found[0]
        needed[call.turn_id] = known[call.turn_id]
    if any(group.day is None or group.model is None for group in needed.values()):
        return None
    return needed


def _has_any(database: Connection, turns: Iterable[TurnRow]) -> bool:
    return any(
        database.execute("select 1 from turn where id = ?", (turn.id,)).fetchone() for turn in turns
    )


def sum_turns(turns: Iterable[TurnRow]) -> dict[Group, Sums]:
    """Return the sums of turns by day, model and provider."""
    sums: dict[Group, Sums] = {}
    for turn in turns:
        if _is_counted(turn):
            _add_turn(sums, turn)
    return sums


def _is_counted(turn: TurnRow) -> bool:
    """True if a turn of a live session adds to the sums, as `rollup.IS_COUNTED` says."""
    has_tokens = any(getattr(turn, name) for name in WHOLE_TOKENS)
    return turn.calls > 0 or turn.cost_nanos != 0 or has_tokens


def _add_turn(sums: dict[Group, Sums], turn: TurnRow) -> None:
    found = sums.setdefault(Group(turn.day or "unknown", turn.model, turn.provider), {**NOTHING})
    _add(found, "turns", turn.calls)
    _add(found, "partial_turns", turn.calls if turn.usage_status == "partial" else 0)
    _add(found, "unpriced_turns", (turn.calls or 1) if turn.cost_nanos is None else 0)
    for name in TOKENS:
        _add(found, name, getattr(turn, name))
    is_included = turn.cost_status == "included"
    _add(found, "included_nanos" if is_included else "cost_nanos", turn.cost_nanos or 0)


def _find_earlier(database: Connection, calls: Sequence[CallRow]) -> dict[int, EarlierCall]:
    """Return those of these calls that are recorded already, by id."""
    statement = "select label, finished_at from tool_call where id = ?"
    found = {call.id: read(database, EarlierCall, statement, (call.id,)) for call in calls}
    return {call_id: rows[0] for call_id, rows in found.items() if rows}


def _add_call(
    sums: dict[Group, Sums], call: CallRow, group: Group, earlier: EarlierCall | None
) -> None:
    """Count a call; one that was recorded before counts only by what its result changes."""
    was_error = earlier is not None and earlier.label == "error"
    is_finished = earlier is not None and earlier.finished_at is not None
    is_error = was_error if is_finished else call.label == "error"
    found = sums.setdefault(group, {**NOTHING})
    _add(found, "tool_calls", 0 if earlier else 1)
    _add(found, "tool_failures", int(is_error) - int(was_error))


def _add(sums: Sums, name: str, value: int | None) -> None:
    if value is not None:
        sums[name] = (sums[name] or 0) + value


def _add_sums(database: Connection, session_id: int, sums: dict[Group, Sums]) -> None:
    """Add the sums to the roll-up, and the time that has passed."""
    is_widened = False
    for group, added in sums.items():
        values = {
            "session": session_id,
            "day": group.day,
            "model": group.model,
            "provider": group.provider,
            **added,
        }
        walls = database.execute(ADD, values).fetchall()
        if not walls:
            database.execute(INSERT, values)
        is_widened |= any(wall_ms for (wall_ms,) in walls)
    if not is_widened:
        database.execute(WIDEN, {"session": session_id})
