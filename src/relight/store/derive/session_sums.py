"""Rows of sums that were added up from rows of turns and calls, instead of by the database.

Workers sum the sessions that one piece has from beginning to end (`whole_sessions`). The process
that writes fills in what stands in the session's own row, and leaves a session that has other
records too to `rollup.refresh`. A live session is summed event by event (`additions`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from relight.model import Session, TokenColumns
from relight.store.derive.rollup import NOTE_TOUCHED, OUTCOME, CallDayRow
from relight.store.sql import Connection, insert, read, write_touched

if TYPE_CHECKING:
    from relight.store.write.sealed import Sealed

# what the rows have from elsewhere, and whether they are all that the session has
SUMMED = f"""
    select id, root_id, project, branch, model, machine_id, started_at, ended_at,
        {OUTCOME.format("session")} as outcome,
        (select count(*) from turn where turn.session_id = session.id) as turns,
        (select count(*) from tool_call where tool_call.session_id = session.id) as calls
    from session where id in (select id from touched)
        and not exists (select 1 from shared_turn where shared_turn.session_id = session.id)
"""


class SessionDayRow(TokenColumns, frozen=True, array_like=True, gc=False):
    """A row of `session_day`."""

    session_id: int
    root_id: int
    day: str
    source: str
    project: str | None
    model: str | None
    provider: str | None
    branch: str | None
    machine_id: int | None
    outcome: str | None
    turns: int
    partial_turns: int
    unpriced_turns: int
    cost_nanos: int
    included_nanos: int
    tool_calls: int
    tool_failures: int
    wall_ms: int


class HourRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `session_hour`."""

    session_id: int
    hour: int
    source: str
    first_at: int
    turns: int
    unpriced_turns: int
    tokens: int
    nanos: int | None


class PositionRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `position_day`."""

    session_id: int
    day: str
    position: int
    root_id: int
    source: str
    project: str | None
    machine_id: int | None
    tool_calls: int
    tool_failures: int
    failed_turns: int
    failed_at: int | None


class WholeSums(Struct, frozen=True, array_like=True):
    """The rows of one session's sums, and the number of turns and calls that they add up."""

    session: Session
    turns: int
    calls: int
    has_rebuilds: bool
    days: list[SessionDayRow]
    hours: list[HourRow]
    calls_by_day: list[CallDayRow]
    positions: list[PositionRow]


class SummedSession(Struct, frozen=True):
    """The row of a session, as far as its sums depend on it."""

    id: int
    root_id: int
    project: str | None
    branch: str | None
    model: str | None
    machine_id: int | None
    started_at: int | None
    ended_at: int | None
    outcome: str | None
    turns: int
    calls: int

    def has_just(self, sums: WholeSums) -> bool:
        """True if the sums are of all that is known about the session."""
        known, seen = sums.session, (self.model, self.branch, self.started_at, self.ended_at)
        is_same = seen == (known.model, known.branch, known.started_at, known.ended_at)
        return is_same and (self.turns, self.calls) == (sums.turns, sums.calls)


def find_sums(
    pieces: Iterable["Sealed"], unread: Collection[int], shared: Collection[int]
) -> dict[int, WholeSums]:
    """Return the sums of sessions that have no record but those of one of these pieces.

    `unread` are those that had none before, `shared` those that copied turns or were copied.
    """
    times = Counter(found for piece in pieces for found, _ in piece.sessions)
    owners: dict[int, int] = {}
    doubled = set(shared)
    for call in (one for piece in pieces for one in piece.calls):
        if (other := owners.setdefault(call.id, call.session_id)) != call.session_id:
            doubled |= {other, call.session_id}
    return {
        found: sums
        for piece in pieces
        for found, sums in piece.sums.items()
        if found in unread and times[found] == 1 and found not in doubled
    }


def write_sums(database: Connection, sums: Mapping[int, WholeSums]) -> set[int]:
    """Write the sums of sessions that have no turn and no call more; return those sessions."""
    write_touched(database, sums)
    days: list[SessionDayRow] = []
    hours: list[HourRow] = []
    calls: list[CallDayRow] = []
    positions: list[PositionRow] = []
    found = [one for one in read(database, SummedSession, SUMMED) if one.has_just(sums[one.id])]
    for one in found:
        own = sums[one.id]
        place = {"root_id": one.root_id, "project": one.project, "machine_id": one.machine_id}
        for row in own.days:
            wall_ms = row.wall_ms if one.id == one.root_id else 0
            days.append(replace(row, **place, outcome=one.outcome, wall_ms=wall_ms))
        hours += own.hours
        calls += [replace(row, **place, outcome=one.outcome) for row in own.calls_by_day]
        positions += [replace(row, **place) for row in own.positions]
    insert(database, "session_day", days)
    insert(database, "session_hour", hours)
    insert(database, "call_day", calls)
    insert(database, "position_day", positions)
    database.execute(NOTE_TOUCHED)
    return {one.id for one in found}
