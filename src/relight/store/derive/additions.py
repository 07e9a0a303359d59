"""Additions to the sums of a live session, one event at a time.

The rows of `session_day`, `session_hour`, `call_day` and `position_day` become those that
`rollup.refresh` would write, at a cost that does not grow with the session.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.model import AMOUNTS, TOKENS, WHOLE_TOKENS
from relight.store.derive.pricing import NAMED
from relight.store.derive.rollup import NOTE_ROOT, OUTCOME, RANGES, CallDayRow
from relight.store.derive.session_sums import HourRow, PositionRow
from relight.store.sql import Connection, column_list, greatest, insert, read, same
from relight.store.write.sealed import CallRow, Sealed, TurnRow

K = TypeVar("K", bound=Hashable)
Sums = dict[str, int | None]
NOTHING: Sums = {name: None if name in TOKENS else 0 for name in AMOUNTS}
HOUR_MS = 3_600_000
_read_tokens = attrgetter(*TOKENS)
_read_whole = attrgetter(*WHOLE_TOKENS)
GOING = """
    select id as session_id, root_id, source, project, machine_id, title, told_outcome,
        started_at, ended_at,
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
OWNED = ("session_id", "root_id", "source", "project", "machine_id")
ADDED = ", ".join(
    f"{name} = case when :{name} is null then {name} else coalesce({name}, 0) + :{name} end"
    for name in AMOUNTS
)
ADD = f"""
    update session_day set {ADDED}, wall_ms = case when wall_ms > 0 then :wall_ms else 0 end
    where session_id = :session_id and day = :day and {same("model", ":model")}
        and {same("provider", ":provider")}
    returning wall_ms
"""
# the wall time is in the row of the first turn, which later events do not change
WIDEN = "update session_day set wall_ms = ? where session_id = ? and wall_ms > 0"
INSERT = f"""
    insert into session_day (session_id, root_id, day, source, project, model, provider, branch,
        machine_id, outcome, {", ".join(AMOUNTS)}, wall_ms)
    select id, root_id, :day, source, project, :model, :provider, branch, machine_id,
        {OUTCOME.format("session")}, {", ".join(f":{name}" for name in AMOUNTS)}, 0
    from session where id = :session_id
"""
SAME_KEYS = " and ".join(same(name, f":{name}") for name in ("model", "provider", "tool", "kind"))
SHIFT = f"""
    update call_day set tool_calls = tool_calls + :tool_calls,
        tool_failures = tool_failures + :tool_failures,
        failed_turns = failed_turns + :failed_turns, last_at = {{last_at}}
    where session_id = :session_id and day = :day and {SAME_KEYS}
"""
SHIFT_CALLS = SHIFT.format(last_at=greatest("last_at", ":last_at"))
# a call that turned out to have failed leaves the row of those that did not
TAKE_CALLS = SHIFT.format(
    last_at=f"""(
        select tool_call.at from tool_call join turn on turn.id = tool_call.turn_id
        where tool_call.session_id = :session_id and coalesce(tool_call.day, 'unknown') = :day
            and tool_call.tool = :tool and {same("tool_call.kind", ":kind")}
            and {same(NAMED.format("turn.model"), ":model")}
            and {same("turn.provider", ":provider")}
        order by tool_call.at desc nulls last limit 1
    )"""
)
READ_OUTCOME = "select outcome from session where id = ?"
DROP_EMPTY = "delete from call_day where session_id = ? and tool_calls = 0 and failed_turns = 0"
COUNT_LATER = """
    select count(*) from tool_call
    where session_id = ? and at >= ? and (at > ? or place > ?)
"""

GROUP = f"select day, {NAMED.format('turn.model')} as model, provider from turn where id = ?"


class Group(Struct, frozen=True):
    """The day, model and provider of a roll-up row."""

    day: str | None
    model: str | None
    provider: str | None


class EarlierCall(Struct, frozen=True):
    """A call that is recorded already, perhaps without its result."""

    place: int
    turn_id: int | None
    at: int | None
    day: str | None
    tool: str
    label: str | None
    kind: str | None
    finished_at: int | None


EARLIER = f"select {column_list(EarlierCall)} from tool_call where id = ?"


class GoingSession(Struct, frozen=True):
    """A session before its next event."""

    session_id: int
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


def _add_all(table: str, names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in names)


ADD_HOUR = f"""on conflict (session_id, hour) do update set
    {_add_all("session_hour", ("turns", "unpriced_turns", "tokens"))},
    nanos = case when excluded.nanos is null then session_hour.nanos
        else coalesce(session_hour.nanos, 0) + excluded.nanos end
"""
ADD_POSITION = f"""on conflict (session_id, day, position) do update set
    {_add_all("position_day", ("tool_calls", "tool_failures", "failed_turns"))},
    failed_at = {greatest("position_day.failed_at", "excluded.failed_at")}
"""


class Counts(Struct):
    """The calls added to one row of their sums."""

    tool_calls: int = 0
    tool_failures: int = 0
    failed_turns: int = 0
    at: int | None = None

    def add(self, at: int | None, *, calls: int = 0, failures: int = 0, turns: int = 0) -> None:
        self.tool_calls += calls
        self.tool_failures += failures
        self.failed_turns += turns
        if at is not None and (self.at is None or at > self.at):
            self.at = at


class Additions:
    """The changes of the sums of a session; nothing in it is later than what is added."""

    def __init__(self, going: GoingSession) -> None:
        self._going = going
        self._owner = {name: getattr(going, name) for name in OWNED}
        self._days: dict[Group, Sums] = {}
        self._hours: list[HourRow] = []
        # by the group, tool and kind of failure
        self._calls: dict[tuple[Group, str | None, str | None], Counts] = {}
        # by the day and the first place of the range
        self._positions: dict[tuple[str, int], Counts] = {}

    def add_turn(self, turn: TurnRow, *, calls_before: int) -> None:
        """Add a turn; a failed one is at the place of the tool call that it did not make."""
        day = turn.day or "unknown"
        group = Group(day, turn.model, turn.provider)
        add_turn(self._days, group, turn)
        if hour := make_hour(turn, self._going.source):
            self._hours.append(hour)
        if turn.failure is not None:
            self._count(group, None, turn.failure).add(turn.at, turns=1)
            self._place(day, calls_before + 1).add(turn.at, turns=1)

    def add_call(self, call: CallRow, group: Group, *, place: int) -> None:
        """Add a call that is the session's next; `place` counts from its first."""
        failed = int(call.label == "error")
        self._add(group, 1, failed)
        day = call.day or "unknown"
        own = Group(day, group.model, group.provider)
        self._count(own, call.tool, call.kind).add(call.at, calls=1, failures=failed)
        self._place(day, place).add(call.at if failed else None, calls=1, failures=failed)

    def finish_call(
        self, database: Connection, call: CallRow, group: Group, earlier: EarlierCall
    ) -> None:
        """Add what the result of a recorded call changes; one with a result stays as it is."""
        if earlier.finished_at is not None:
            return
        day, at = earlier.day or "unknown", earlier.at
        before, after = int(earlier.label == "error"), int(call.label == "error")
        own = Group(day, group.model, group.provider)
        if (earlier.kind, before) != (call.kind, after):
            self._count(own, earlier.tool, earlier.kind).add(at, calls=-1, failures=-before)
            self._count(own, earlier.tool, call.kind).add(at, calls=1, failures=after)
        if before != after:
            self._add(group, 0, after - before)
            values = (self._going.session_id, at, at, earlier.place)
            (later,) = database.execute(COUNT_LATER, values).fetchone()
            place = self._going.tool_calls - later
            self._place(day, place).add(at if after else None, failures=after - before)

    def write(self, database: Connection, *, wall_ms: int) -> None:
        """Write the changes, and the time that has passed since the session's start."""
        self._write_days(database, wall_ms)
        insert(database, "session_hour", self._hours, on_conflict=ADD_HOUR)
        self._write_calls(database)
        rows = [make_position(self._owner, *one) for one in self._positions.items()]
        insert(database, "position_day", rows, on_conflict=ADD_POSITION)

    def _write_days(self, database: Connection, wall_ms: int) -> None:
        is_widened = False
        for group, added in self._days.items():
            values = {"session_id": self._going.session_id, **asdict(group), **added}
            walls = database.execute(ADD, {**values, "wall_ms": wall_ms}).fetchall()
            if not walls:
                database.execute(INSERT, values)
            is_widened |= any(before for (before,) in walls)
        if not is_widened:
            database.execute(WIDEN, (wall_ms, self._going.session_id))

    def _write_calls(self, database: Connection) -> None:
        for (group, tool, kind), counts in self._calls.items():
            row = CallDayRow(
                **self._owner,
                **asdict(group),
                tool=tool,
                kind=kind,
                outcome=None,
                tool_calls=counts.tool_calls,
                tool_failures=counts.tool_failures,
                failed_turns=counts.failed_turns,
                last_at=counts.at,
            )
            shift = TAKE_CALLS if counts.tool_calls < 0 else SHIFT_CALLS
            if not database.execute(shift, asdict(row)).rowcount:
                found = database.execute(READ_OUTCOME, (row.root_id,)).fetchone()
                insert(database, "call_day", [replace(row, outcome=found and found[0])])
                database.execute(NOTE_ROOT, (row.root_id,))
        if any(counts.tool_calls < 0 for counts in self._calls.values()):
            database.execute(DROP_EMPTY, (self._going.session_id,))

    def _add(self, group: Group, calls: int, failures: int) -> None:
        found = self._days.setdefault(group, {**NOTHING})
        add_amount(found, "tool_calls", calls)
        add_amount(found, "tool_failures", failures)

    def _count(self, group: Group, tool: str | None, kind: str | None) -> Counts:
        return self._calls.setdefault((group, tool, kind), Counts())

    def _place(self, day: str, place: int) -> Counts:
        return self._positions.setdefault((day, find_position(place)), Counts())


def add_amount(sums: Sums, name: str, value: int | None) -> None:
    """Add a number to a sum that is unknown until one is known."""
    if value is not None:
        sums[name] = (sums[name] or 0) + value


def add_turn(sums: dict[K, Sums], group: K, turn: TurnRow) -> None:
    """Add a turn to its group if it counts, as `rollup.IS_COUNTED` says; sources reconcile none."""
    if not is_counted(turn):
        return
    found = sums.setdefault(group, {**NOTHING})
    add_amount(found, "turns", turn.calls)
    add_amount(found, "partial_turns", turn.calls if turn.usage_status == "partial" else 0)
    add_amount(found, "unpriced_turns", (turn.calls or 1) if turn.cost_nanos is None else 0)
    for name, value in zip(TOKENS, _read_tokens(turn), strict=True):
        add_amount(found, name, value)
    is_included = turn.cost_status == "included"
    add_amount(found, "included_nanos" if is_included else "cost_nanos", turn.cost_nanos or 0)


def is_counted(turn: TurnRow) -> bool:
    return turn.calls > 0 or turn.cost_nanos != 0 or any(_read_whole(turn))


def make_hour(turn: TurnRow, source: str) -> HourRow | None:
    """Return what a turn adds to its hour, which ends with its last moment; None if nothing."""
    tokens = sum(filter(None, _read_whole(turn)))
    if turn.at is None or not tokens:
        return None
    return HourRow(
        session_id=turn.session_id,
        hour=max(turn.at - 1, 0) // HOUR_MS,
        source=source,
        first_at=turn.at,
        turns=1,
        unpriced_turns=int(turn.cost_nanos is None),
        tokens=tokens,
        nanos=turn.cost_nanos,
    )


def find_position(place: int) -> int:
    """Return the first place of the range of a place in a session."""
    return max(first for first in RANGES if first <= max(place, 1))


def make_position(owner: Mapping[str, Any], place: tuple[str, int], counts: Counts) -> PositionRow:
    """Return the row of a day and a range of places."""
    return PositionRow(
        **owner,
        day=place[0],
        position=place[1],
        tool_calls=counts.tool_calls,
        tool_failures=counts.tool_failures,
        failed_turns=counts.failed_turns,
        failed_at=counts.at,
    )


def find_going(database: Connection, piece: Sealed) -> GoingSession | None:
    """Return the session that a piece goes on with; None if the piece does more than that."""
    if len(piece.sessions) != 1 or piece.skills or piece.totals:
        return None
    ((session_id, session),) = piece.sessions
    opening = (session.parent, session.project, session.model, session.version)
    if session.started_at is None or any(fact is not None for fact in opening):
        return None
    found = read(database, GoingSession, GOING, (session_id,))
    if not found or not (found[0].has_time and found[0].has_turns):
        return None
    ended_at = found[0].ended_at
    return found[0] if ended_at is not None and ended_at <= session.started_at else None


def add_events(
    database: Connection, going: GoingSession, calls: Sequence[CallRow], turns: Sequence[TurnRow]
) -> Additions | None:
    """Return what the next calls and turns add; None if a turn is recorded, or a caller unknown."""
    earlier = {
        call.id: row for call in calls for row in read(database, EarlierCall, EARLIER, (call.id,))
    }
    callers = [earlier.get(call.id, call).turn_id for call in calls]
    groups = _group_turns(database, callers, turns)
    if groups is None:
        return None
    additions = Additions(going)
    for call, caller in zip(calls, callers, strict=True):
        if known := earlier.get(call.id):
            additions.finish_call(database, call, groups[caller], known)
    new = sorted((call for call in calls if call.id not in earlier), key=lambda call: call.at or 0)
    for place, call in enumerate(new, going.tool_calls + 1):
        additions.add_call(call, groups[call.turn_id], place=place)
    for turn in turns:
        before = sum((call.at or 0) <= (turn.at or 0) for call in new)
        additions.add_turn(turn, calls_before=going.tool_calls + before)
    return additions


def _group_turns(
    database: Connection, callers: Sequence[int | None], turns: Sequence[TurnRow]
) -> dict[int | None, Group] | None:
    """Return the roll-up groups of new turns and of those that made calls."""
    new: dict[int | None, Group] = {
        turn.id: Group(turn.day, turn.model, turn.provider) for turn in turns
    }
    ids = {*callers, *new}
    recorded = {one: row for one in ids for row in read(database, Group, GROUP, (one,))}
    groups = recorded | new
    is_known = all(
        one in groups and groups[one].day is not None and groups[one].model is not None
        for one in callers
    )
    return groups if is_known and not recorded.keys() & new.keys() else None


def sum_turns(turns: Iterable[TurnRow]) -> dict[Group, Sums]:
    """Return the sums of turns by day, model and provider."""
    sums: dict[Group, Sums] = {}
    for turn in turns:
        add_turn(sums, Group(turn.day or "unknown", turn.model, turn.provider), turn)
    return sums
