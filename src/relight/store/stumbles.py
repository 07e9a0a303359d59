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
from relight.times import LATEST_MS

# Of each project the newest sessions are read: older ones weigh little.
NEWEST = 200
# sessions whose stumbles are counted by cause
MOST_COUNTED = 2000
# The place of a session in the order of an index, which has all that is read here.
_MACHINE, _START = "coalesce(machine_id, 0)", "coalesce(started_at, 0)"
# A fork repeats the calls of its parent.
_IS_NO_FORK = "coalesce(parent_kind, '') <> 'fork'"
# The sums of days name all projects and machines: each is looked up in the index, up to the last of
# its newest sessions.
_PLACED = f"""
    with place as materialized (
        select distinct project, {_MACHINE} as machine from usage_day {{test}} project is not null
            and project <> ''
    ),
    oldest as materialized (
        select project, machine, (
            select id from session
            where session.project = place.project and {_MACHINE} = place.machine and {_IS_NO_FORK}
            order by {_START} desc, id limit 1 offset {NEWEST - 1}
        ) as id from place
    ),
    bound as materialized (
        select oldest.project, oldest.machine, oldest.id,
            case when session.id is null then -{LATEST_MS} else {_START} end as start
        from oldest left join session on session.id = oldest.id
    ),
    placed as materialized (
        select session.id, session.root_id, session.project, machine_id, started_at, ended_at,
            found, case when stumble_reading.session_id is null or rules <> {STUMBLE_RULES}
                or read_to <> coalesce(ended_at, 0) then 1 else 0 end as is_changed
        from bound join session on session.project = bound.project and {_MACHINE} = bound.machine
            and {_START} >= bound.start
        left join stumble_reading on stumble_reading.session_id = session.id
        where {_IS_NO_FORK} and ({_START} > bound.start or session.id <= bound.id) {{days}}
    )
"""
# a session without a call cannot stumble
_IS_STALE = """placed.is_changed = 1 and exists (
    select 1 from call_day where call_day.session_id = placed.id and tool is not null)"""

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


class _StumbledRow(Struct, frozen=True):
    session_id: int
    root_id: int
    at: int | None
    found: str


class _FoundRow(_StumbledRow, frozen=True):
    project: str
    machine: str | None


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
    placed, values = _place(chosen)
    return store.read(
        StaleSession,
        f"{placed} select placed.id as session_id, coalesce(placed.ended_at, 0) as read_to"
        f" from placed where {_IS_STALE} order by placed.started_at desc nulls last, placed.id",
        values,
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
    placed, values = _place(chosen)
    rows = store.read(
        _FoundRow,
        f"{placed} select placed.id as session_id, placed.root_id, started_at as at, found,"
        " project, (select name from machine where machine.id = placed.machine_id) as machine"
        " from placed where found is not null order by project, at nulls first, session_id",
        values,
    )
    ((stale,),) = store.query(f"{placed} select count(*) from placed where {_IS_STALE}", values)
    return _join_sessions(store, rows), stale


def _join_sessions(store: Store, rows: Sequence[_FoundRow]) -> list[ProjectSessions]:
    given = {
        session_id: frozenset((one.kind, one.program, one.name) for one in lessons)
        for session_id, lessons in read_given_lessons(store).items()
    }
    projects: dict[tuple[str, str | None], dict[int, TaughtSession]] = {}
    for row in rows:
        found = msgspec.json.decode(row.found, type=SessionStumbles)
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
    if test:  # few sessions stumbled: their days are looked up
        test = f"and exists (select 1 from session_day {test} and root_id = session.root_id)"
    rows = store.read(
        _StumbledRow,
        # a cross join keeps SQLite from going through all sessions in the order of their start
        "select session.id as session_id, root_id, started_at as at, found from stumble_reading"
        " cross join session where session.id = stumble_reading.session_id"
        f" and found like '{{\"stumbles\":[{{%' {test}"
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
    """The newest sessions of the chosen projects, and those of them that the rest chooses.

    The rest of a filter is tested by the days of the sessions.
    """
    test, values = where(Filter(project=chosen.project, folders=chosen.folders))
    days, more = where(replace(chosen, project=None, folders=()))
    if days:
        days = f"and session.root_id in (select root_id from session_day {days})"
    return _PLACED.format(test=f"{test} and" if test else "where", days=days), values + more
