"""Sessions by name, their facts, and the sums of a session with its sub-agents."""

from msgspec import Struct

from relight.store import Store
from relight.store.queries.totals import SUMS, SessionName, UsageSums

# an index finds all sessions below one root; `union` ends where parents form a circle
FAMILY = """
    with recursive family (id, root) as (
        select id, root_id from session where id = :session
        union
        select session.id, root from family
        join session on root_id = root and parent_id = family.id and parent_kind = 'subagent'
    )
"""
NAME = "source || ':' || key"


class SessionKey(Struct, frozen=True):
    """A session's row, its source, and its id there."""

    id: int
    source: str
    key: str


class SessionFacts(Struct, frozen=True):
    """The columns of a session that a report shows."""

    source: str
    key: str
    parent_id: int | None
    parent_kind: str | None
    root_id: int
    project: str | None
    title: str | None
    model: str | None
    version: str | None
    started_at: int | None
    ended_at: int | None
    outcome: str | None
    outcome_evidence: str | None
    answer: str | None
    task_type: str | None
    category: str | None
    score: float | None


class ChildSums(Struct, frozen=True):
    """A child of a session and its cost."""

    session: str
    kind: str
    title: str | None
    cost_nanos: int | None
    unpriced_turns: int | None


class SourceCount(Struct, frozen=True):
    """How many root sessions a source has."""

    source: str
    sessions: int


class RecordSpan(Struct, frozen=True):
    """The first start and the last end of all sessions, in Unix milliseconds."""

    first: int | None
    last: int | None


def has_sessions(store: Store) -> bool:
    """True if any session is recorded."""
    return bool(store.query("select 1 from session limit 1"))


def find_exact(store: Store, name: str) -> list[SessionKey]:
    """Return the sessions with this id, or with this `source:id`."""
    source, _, key = name.partition(":")
    return store.read(
        SessionKey,
        "select id, source, key from session"
        " where key = :name or (source = :source and key = :key)",
        {"name": name, "source": source, "key": key},
    )


def find_by_prefix(store: Store, name: str, *, limit: int) -> list[SessionKey]:
    """Return the first sessions whose id, or `source:id`, begins so."""
    source, _, key = name.partition(":")
    return store.read(
        SessionKey,
        "select id, source, key from session where substr(key, 1, length(:name)) = :name"
        " or (:key <> '' and source = :source and substr(key, 1, length(:key)) = :key)"
        f" order by source, key limit {limit}",
        {"name": name, "source": source, "key": key},
    )


def read_name(store: Store, session_id: int | None) -> SessionName | None:
    """Return the name and title of a session; None if it is not recorded."""
    statement = f"select id, {NAME} as session, title from session where id = ?"
    return next(iter(store.read(SessionName, statement, (session_id,))), None)


def read_facts(store: Store, session_id: int) -> SessionFacts | None:
    """Return the facts of a session; None if it is not recorded."""
    columns = ", ".join(SessionFacts.__struct_fields__)
    statement = f"select {columns} from session where id = ?"
    return next(iter(store.read(SessionFacts, statement, (session_id,))), None)


def read_children(store: Store, session_id: int) -> list[ChildSums]:
    """Return the sessions directly below a session, in the order they began."""
    return store.read(
        ChildSums,
        f"select {NAME} as session, parent_kind as kind, title,"
        " (select sum(cost_nanos) from session_day where session_id = session.id) as cost_nanos,"
        " (select sum(unpriced_turns) from session_day where session_id = session.id)"
        " as unpriced_turns"
        " from session where parent_id = ? order by started_at nulls first, key",
        (session_id,),
    )


def has_tape(store: Store, session_id: int) -> bool:
    """True if the records of a session are on tape."""
    return bool(store.query("select 1 from tape_part where session_id = ? limit 1", (session_id,)))


def sum_family(store: Store, session_id: int) -> UsageSums:
    """Return the sums of a session and all sub-agents below it; the time is the session's."""
    single = {
        "wall_ms": "(select ended_at - started_at from session where id = :session)",
        "failed_turns": "(select count(*) from turn where failure is not null"
        " and session_id in (select id from family))",
    }
    sums = ", ".join(f"{single.get(name, f'sum({name})')} as {name}" for name in SUMS)
    (found,) = store.read(
        UsageSums,
        f"{FAMILY} select 1 as sessions, {sums}"
        " from session_day where session_id in (select id from family)",
        {"session": session_id},
    )
    return found


def count_by_source(store: Store) -> list[SourceCount]:
    """Return the number of root sessions of each source, the largest first."""
    return store.read(
        SourceCount,
        "select source, count(*) as sessions from session where id = root_id"
        " group by source order by sessions desc, source",
    )


def count_of_source(store: Store, source: str) -> int:
    """Return the number of sessions of a source, sub-agents included."""
    return int(store.query("select count(*) from session where source = ?", (source,))[0][0])


def count_subagents(store: Store) -> int:
    """Return the number of sessions that are part of another."""
    return int(store.query("select count(*) from session where id <> root_id")[0][0])


def count_successes(store: Store) -> int:
    """Return the number of sessions that succeeded."""
    return int(store.query("select count(*) from session where outcome = 'success'")[0][0])


def find_span(store: Store) -> RecordSpan:
    """Return the time from the first session's start to the last one's end."""
    statement = "select min(started_at) as first, max(ended_at) as last from session"
    return store.read(RecordSpan, statement)[0]
