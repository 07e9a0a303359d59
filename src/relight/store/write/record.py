"""The second half of the door: price sealed rows and write them with their read mark, at once.

The rows do not depend on the order of records, or on how often they arrive. An event of a live
session is added to its rows without summing the whole session again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from relight.judging.admissions import Admission
from relight.model import Session
from relight.store import Store, search_index
from relight.store.derive import outcomes, rollup, scores, unanswered
from relight.store.derive.pricing import Pricing, learn
from relight.store.derive.session_sums import WholeSums, find_sums, write_sums
from relight.store.sql import Connection, list_marks, write_touched
from relight.store.write import rows
from relight.store.write.seal import list_originals, list_origins, redate, strip_piece
from relight.store.write.sealed import Sealed
from relight.store.write.tape import find_continuing, write_place

if TYPE_CHECKING:
    from relight.store.derive.additions import GoingSession

# sources that record sessions as they happen: no turn is in two sessions, and none has totals
LIVE = frozenset(("relight",))
# what these tables have changes the turns of sessions after they are summed
CHANGING = ("call_report", "call_timing", "control_total", "machine_session")
# of answers, a hundred bytes each
MOST_ADMISSIONS = 20_000


class Recorder:
    """Writes sealed rows into a store; one for a whole import, so that prices stay in memory."""

    def __init__(self, store: Store, pricing: Pricing | None = None) -> None:
        self.store = store
        self.pricing = pricing or Pricing(store)
        # of answers read before: their sessions are judged again if the same task follows
        self.admissions: dict[int, Admission] = {}

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
            is_appended = len(wanted) == 1 and self._append(database, wanted[0])
            new = set() if is_appended else self.write(database, wanted)
            on_tape: list[tuple[int, Sealed]] = []
            for piece, is_gone, is_out in zip(current, forgotten, left_out, strict=True):
                kept = strip_piece(piece) if is_out else piece
                part_id = write_place(database, kept, is_forgotten=is_gone)
                if part_id is not None:
                    on_tape.append((part_id, piece))
            write_texts(database, on_tape)
        return current, new

    def _append(self, database: Connection, piece: Sealed) -> bool:
        """Add the next event of a live session, at a cost that does not grow with the session.

        False if `write` must do it: for a first turn, a parent, an event older than the last.
        """
        if piece.source not in LIVE:
            return False
        from relight.store.derive.additions import add_events, find_going

        going = find_going(database, piece)
        if going is None:
            return False
        turns = self.pricing.price_piece(piece)
        aliases = self.store.config.models.aliases
        names = learn(database, {turn.model for turn in turns}, aliases)
        named = [replace(turn, model=names.get(turn.model, turn.model)) for turn in turns]
        additions = add_events(database, going, piece.calls, named)
        if additions is None:
            return False
        ((session_id, session),) = piece.sessions
        rows.write_turns(database, turns)
        rows.write_pieces(database, [piece])
        _continue_session(database, going, session)
        additions.write(database, wall_ms=(session.ended_at or 0) - (going.started_at or 0))
        if any(turn.cache_write_tokens for turn in turns):
            from relight.store.derive.cache_rebuilds import append_turns

            append_turns(database, session_id, [turn.id for turn in turns], self.pricing)
        if not going.is_due:
            scores.postpone(database, session_id)
        judged = {session_id}
        if session.title is None:
            outcomes.judge_sessions(database, judged, piece.admissions)
        else:  # earlier sessions with this task may turn out to be asked again
            judged = outcomes.refresh(database, judged, piece.admissions)
        if going.has_skills:
            refresh_skills(database, judged)
        self.pricing.write_found(database)
        return True

    def write(self, database: Connection, pieces: Sequence[Sealed]) -> set[int]:
        """Write the rows of these pieces and everything derived from them."""
        touched = {found for piece in pieces for found, _ in piece.sessions}
        known = rows.find_starts(database, touched)
        new = {one for one in touched if known.get(one) is None}
        if any(piece.reports for piece in pieces) or _has_rows(database, "call_report"):
            from relight.store.derive import reports

            reports.write_reports(database, pieces, touched)
        for piece in pieces:
            touched |= rows.write_sessions(database, piece)
        turns = [turn for piece in pieces for turn in self.pricing.price_piece(piece)]
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
        if len(self.admissions) > MOST_ADMISSIONS:
            self.admissions.clear()
        for piece in pieces:
            self.admissions.update(piece.admissions)
        unread = touched - known.keys()
        sums = find_sums(pieces, unread, set().union(*shared.values()))
        measured = scores.find_measured(pieces, unread)
        self.derive(database, touched, measured=measured, sums=sums)
        return new

    def derive(
        self,
        database: Connection,
        touched: set[int],
        *,
        measured: Mapping[int, scores.Measured] | None = None,
        sums: Mapping[int, WholeSums] | None = None,
    ) -> None:
        """Write everything that is derived from the rows of these sessions.

        Some may have been measured and summed already.
        """
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
        scores.refresh(database, touched, measured)
        judged = outcomes.refresh(database, touched, self.admissions)
        # after the outcome, which is in its rows
        summed = (
            write_sums(database, sums) if sums and not _has_rows(database, *CHANGING) else set()
        )
        rollup.refresh(database, touched - summed)
        whole = {one for one in summed if sums and not sums[one].has_rebuilds}
        _refresh_rebuilds(database, touched - whole, self.pricing)
        if _has_rows(database, "run"):
            from relight.store.derive.skills.scheduled import write_scheduled

            write_scheduled(database, judged)
        refresh_skills(database, judged)
        self.pricing.write_found(database)


def _continue_session(database: Connection, going: "GoingSession", session: Session) -> None:
    """Write what an event changes of its session: first facts stay, the last end holds."""
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
    values = {**changed, "id": going.session_id}
    database.execute(f"update session set {changes} where id = :id", values)


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
    write_touched(database, touched)
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
