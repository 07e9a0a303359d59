"""The stumbles of sessions, as they were read from their tapes."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.judging.lessons import Key, TaughtSession, make_key
from relight.judging.recoveries import Stumble
from relight.judging.stumbles import STUMBLE_RULES, SessionStumbles
from relight.store import Store
from relight.store.provisions import read_given_lessons
from relight.store.queries.filters import Filter, where
from relight.store.sql import divide, insert, replacing

# Of each project the newest sessions are read: older ones weigh little.
NEWEST = 200
# sessions whose stumbles are counted by cause
MOST_COUNTED = 2000
# A fork repeats the calls of its parent. An index has all that is read here, in this order.
_PLACED = """(
    select id, root_id, project, machine_id, started_at, ended_at, row_number() over (
        partition by project, machine_id order by started_at desc nulls last, id
    ) as newness
    from session {test} coalesce(parent_kind, '') <> 'fork' and project is not null
        and project <> ''
) as placed"""
_IS_STALE = f"""(stumble_reading.session_id is null or rules <> {STUMBLE_RULES}
    or read_to <> coalesce(placed.ended_at, 0))"""


# a session without a call cannot stumble
_HAS_CALLED = "exists (select 1 from tool_call where tool_call.session_id = placed.id)"

_EMPTY = TaughtSession(0, None, SessionStumbles([], []))


class ReadingRow(Struct, frozen=True):
    """A row of `stumble_reading`."""

    session_id: int
    read_to: int
    rules: int
    found: str | None


class StaleSession(Struct, frozen=True):
    """A session that has to be read, up to its last moment."""

    session_id: int
    read_to: int


class _FoundRow(Struct, frozen=True):
    session_id: int
    root_id: int
    project: str
    at: int | None
    machine: str | None
    found: str | None
    is_stale: int


class _StumbledRow(Struct, frozen=True):
    session_id: int
    root_id: int
    at: int | None
    found: str


class _Stumbles(Struct, frozen=True):
    """The part of `found` without the programs, which take longest to read."""

    stumbles: list[Stumble]


class ProjectSessions(Struct, frozen=True):
    """The sessions of a project on one machine, sub-agents within them."""

    project: str
    # None for this machine
    machine: str | None
    sessions: list[TaughtSession]


def find_stale(store: Store, chosen: Filter) -> list[StaleSession]:
    """Return the sessions that have not been read as they are now, newest first."""
    placed, inner = _place(chosen)
    test, values = _where(chosen)
    return store.read(
        StaleSession,
        "select placed.id as session_id, coalesce(placed.ended_at, 0) as read_to"
        f" from {placed} left join stumble_reading on stumble_reading.session_id = placed.id"
        f" where {_HAS_CALLED} and newness <= {NEWEST} and {_IS_STALE} {test}"
        " order by placed.started_at desc nulls last, placed.id",
        inner + values,
    )


def write_readings(store: Store, rows: Sequence[ReadingRow]) -> None:
    """Record what was read, in place of what was read before."""
    with store.transaction() as database:
        insert(database, "stumble_reading", rows, on_conflict=replacing(ReadingRow, "session_id"))


def read_projects(store: Store, chosen: Filter) -> list[ProjectSessions]:
    """Return the sessions that were read, by project and machine."""
    return read_state(store, chosen)[0]


def read_state(store: Store, chosen: Filter) -> tuple[list[ProjectSessions], int]:
    """Return the sessions that were read, by project and machine, and how many are left to read."""
    placed, inner = _place(chosen)
    test, values = _where(chosen)
    rows = store.read(
        _FoundRow,
        "select * from (select placed.id as session_id, placed.root_id as root_id, project,"
        " started_at as at,"
        " (select name from machine where machine.id = placed.machine_id) as machine, found,"
        f" case when {_IS_STALE} and {_HAS_CALLED}"
        " then 1 else 0 end as is_stale"
        f" from {placed} left join stumble_reading on stumble_reading.session_id = placed.id"
        f" where newness <= {NEWEST} {test}) as newest where found is not null or is_stale = 1"
        " order by project, at nulls first, session_id",
        inner + values,
    )
    stale = sum(row.is_stale for row in rows)
    return _join_sessions(store, [row for row in rows if row.found is not None]), stale


def _join_sessions(store: Store, rows: Sequence[_FoundRow]) -> list[ProjectSessions]:
    given = {
        session_id: frozenset((one.kind, one.program, one.name) for one in lessons)
        for session_id, lessons in read_given_lessons(store).items()
    }
    projects: dict[tuple[str, str | None], dict[int, TaughtSession]] = {}
    for row in rows:
        found = msgspec.json.decode(row.found or "", type=SessionStumbles)
        sessions = projects.setdefault((row.project, row.machine), {})
        named = [replace(one, session_id=row.session_id) for one in found.stumbles]
        before = sessions.get(row.root_id) or _EMPTY
        found = SessionStumbles(
            [*before.found.stumbles, *named],
            list(dict.fromkeys([*before.found.programs, *found.programs])),
        )
        at = row.at if before.at is None else before.at
        sessions[row.root_id] = TaughtSession(
            row.root_id, at, found, given.get(row.root_id, frozenset())
        )
    return [
        ProjectSessions(project, machine, list(sessions.values()))
        for (project, machine), sessions in projects.items()
    ]


def read_causes(store: Store, roots: Sequence[int]) -> dict[int, set[Key]]:
    """Return what some sessions failed by, sub-agents included; those not read yet are left out."""
    found: dict[int, set[Key]] = {}
    for some, marks in divide(roots):
        rows = store.query(
            "select root_id, found from stumble_reading"
            " join session on session.id = stumble_reading.session_id"
            f" where found is not null and coalesce(parent_kind, '') <> 'fork'"
            f" and root_id in ({marks})",
            some,
        )
        for root, text in rows:
            stumbles = msgspec.json.decode(text, type=_Stumbles).stumbles
            found.setdefault(root, set()).update(map(make_key, stumbles))
    return found


def read_stumbled(store: Store, chosen: Filter) -> list[TaughtSession]:
    """Return the newest sessions that stumbled, oldest first."""
    test, values = where(chosen)
    if test:
        test = f"and session.root_id in (select root_id from session_day {test})"
    rows = store.read(
        _StumbledRow,
        "select session.id as session_id, root_id, started_at as at, found from stumble_reading"
        " join session on session.id = stumble_reading.session_id"
        f" where found like '{{\"stumbles\":[{{%' {test}"
        f" order by started_at desc nulls last, session.id limit {MOST_COUNTED}",
        values,
    )
    return [
        TaughtSession(
            row.root_id,
            row.at,
            SessionStumbles(
                [
                    replace(one, session_id=row.session_id)
                    for one in msgspec.json.decode(row.found, type=_Stumbles).stumbles
                ],
                [],
            ),
        )
        for row in reversed(rows)
    ]


def _place(chosen: Filter) -> tuple[str, list[str]]:
    """The sessions of the chosen projects, numbered from the newest on."""
    test, values = where(Filter(project=chosen.project, folders=chosen.folders))
    return _PLACED.format(test=f"{test} and" if test else "where"), values


def _where(chosen: Filter) -> tuple[str, list[str]]:
    """The test of the parts of a filter that are not about projects, by the days of sessions."""
    test, values = where(replace(chosen, project=None, folders=()))
    if not test:
        return "", []
    return f"and placed.root_id in (select root_id from session_day {test})", values
