"""Sessions by name, their facts, and the sums of a session with its sub-agents."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from relight.model import row_id
from relight.store import Store
from relight.store.queries.filters import Filter, where
from relight.store.queries.steps import FAMILY
from relight.store.queries.sums import UsageSums
from relight.store.queries.totals import DAYS, USAGE, SessionName
from relight.store.sql import flag, list_marks, read_list, read_usd
from relight.times import write_time

NAME = "source || ':' || key"
HAS_TAPE = """exists (
    select 1 from tape_part where session_id = session.id and is_figures = 0
)"""
# false for sub-agents whose id contains their parent's: those keep their whole names
IS_NAMED = "({0}.parent_id is null or {0}.key not like '%/%')"
KEY_COLUMNS = (
    f"session.id, session.source, session.key, {flag(IS_NAMED.format('session'))} as is_named"
)
KEY_FORMATS = {"is_named": bool}
MOST_IDS = 1000


class SessionKey(Struct, frozen=True):
    """A session's row, its source, and its id there; `is_named` if a beginning may stand for it."""

    id: int
    source: str
    key: str
    is_named: bool


class AdvisedSession(Struct, frozen=True):
    """A session in which models advised: its row, its full name and its end."""

    id: int
    session_id: str
    ended_at: int | None


class SessionNeighbours(Struct, frozen=True):
    """A session's id, and those before and after it."""

    source: str
    key: str
    before: str | None
    after: str | None


class SessionFacts(Struct, frozen=True):
    """The facts about a session; `machine` pushed it, null if it was recorded here."""

    session: str
    source: str
    id: str
    parent: str | None
    parent_kind: str | None
    project: str | None
    branch: str | None
    title: str | None
    model: str | None
    version: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    evidence: list[str]
    points_to: str | None
    answer: str | None
    task_type: str | None
    category: str | None
    score: float | None
    has_tape: bool
    machine: str | None


class FoundSession(SessionFacts, frozen=True):
    """The same with the row of its root and the key of its machine."""

    root_id: int
    machine_key: str | None

    @property
    def ending(self) -> str:
        """The end of its id that only this server adds: `@laptop`."""
        ending = f"@{self.machine_key}"
        return ending if self.machine_key and self.id.endswith(ending) else ""

    @property
    def own_id(self) -> str:
        """Its id as its own records have it."""
        return self.id.removesuffix(self.ending)


class SessionOutcome(Struct, frozen=True):
    """A session's outcome, and what the signs about an unknown one point to."""

    session_id: str
    outcome: str
    points_to: str | None


class ChildSession(Struct, frozen=True):
    """A session that another one started or that continues it."""

    session_id: str
    kind: str
    title: str | None
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int


def has_sessions(store: Store) -> bool:
    """True if any session is recorded."""
    return bool(store.query("select 1 from session limit 1"))


def find_exact(store: Store, name: str) -> list[SessionKey]:
    """Return the sessions with this id, or with this `source:id`."""
    source, _, key = name.partition(":")
    return store.read(
        SessionKey,
        f"select {KEY_COLUMNS} from session where key = :name or (source = :source and key = :key)",
        {"name": name, "source": source, "key": key},
        KEY_FORMATS,
    )


def find_by_prefix(store: Store, name: str, *, limit: int) -> list[SessionKey]:
    """Return the first sessions whose id, or `source:id`, begins so."""
    source, _, key = name.partition(":")
    return store.read(
        SessionKey,
        f"select {KEY_COLUMNS} from session"
        " where substr(key, 1, length(:name)) = :name"
        " or (:key <> '' and source = :source and substr(key, 1, length(:key)) = :key)"
        f" order by source, key limit {limit}",
        {"name": name, "source": source, "key": key},
        KEY_FORMATS,
    )


def find_spans_of_time(store: Store, source: str, prefix: str) -> list[tuple[str, int, int]]:
    """Return key, start and end of a source's sessions whose key begins so, newest first."""
    rows = store.query(
        "select key, started_at, ended_at from session where source = :source"
        " and substr(key, 1, length(:prefix)) = :prefix and ended_at is not null"
        " and started_at is not null order by ended_at desc limit 100",
        {"source": source, "prefix": prefix},
    )
    return [(key, started_at, ended_at) for key, started_at, ended_at in rows]


def find_by_source(store: Store, name: str, *, limit: int) -> list[SessionKey]:
    """Return the first sessions of the sources whose name begins so; no sub-agents."""
    return store.read(
        SessionKey,
        f"select {KEY_COLUMNS} from session where parent_id is null"
        " and substr(source || ':', 1, length(:name)) = :name"
        f" order by source, key limit {limit}",
        {"name": name},
        KEY_FORMATS,
    )


def find_by_ends(store: Store, head: str, tail: str, *, limit: int) -> list[SessionKey]:
    """Return the first sessions whose id, or `source:id`, begins and ends so; sub-agents last."""
    source, _, key = head.partition(":")
    return store.read(
        SessionKey,
        f"select {KEY_COLUMNS} from session where length(key) >= length(:tail)"
        " and substr(key, length(key) - length(:tail) + 1) = :tail"
        " and (substr(key, 1, length(:head)) = :head"
        " or (source = :source and substr(key, 1, length(:key)) = :key))"
        f" order by is_named desc, source, key limit {limit}",
        {"head": head, "tail": tail, "source": source, "key": key},
        KEY_FORMATS,
    )


def read_keys_below(
    store: Store, heads: Collection[tuple[str, str]], *, with_parts: bool
) -> dict[tuple[str, str], list[str]]:
    """Return the ids that begin so, by source and beginning; with those of sub-agents if asked."""
    found: dict[tuple[str, str], list[str]] = {}
    named = "" if with_parts else f" and {IS_NAMED.format('session')}"
    for source, head in heads:
        rows = store.read(
            SessionKey,
            f"select {KEY_COLUMNS} from session where source = :source and key >= :head"
            f" and substr(key, 1, length(:head)) = :head{named}",
            {"source": source, "head": head},
            KEY_FORMATS,
        )
        found[source, head] = [row.key for row in rows]
    return found


def find_newest(store: Store, place: int) -> list[SessionKey]:
    """Return the newest session, or one so many places before it; none if there are too few."""
    return store.read(
        SessionKey,
        f"select {KEY_COLUMNS} from listing"
        " join session on session.id = listing.root_id"
        " order by listing.began_at desc, listing.root_id desc limit 1 offset ?",
        (place,),
        KEY_FORMATS,
    )


def read_neighbours(store: Store, names: Sequence[str]) -> list[SessionNeighbours]:
    """Return the ids before and after each of these sessions, in the order of ids of its source.

    Sub-agents with a slash are left out: a beginning never stands for one of them.
    """
    ids = [row_id("session", *name.split(":", 1)) for name in names]
    next_to = (
        "(select {0}(near.key) from session as near where near.source = session.source"
        f" and near.key {{1}} session.key and {IS_NAMED.format('near')})"
    )
    statement = (
        f"select source, key, {next_to.format('max', '<')} as before,"
        f" {next_to.format('min', '>')} as after from session where id in ({{}})"
        f" and {IS_NAMED.format('session')}"
    )
    found: list[SessionNeighbours] = []
    for first in range(0, len(ids), MOST_IDS):  # a statement takes only so many
        part = ids[first : first + MOST_IDS]
        marks = ", ".join("?" for _ in part)
        found += store.read(SessionNeighbours, statement.format(marks), part)
    return found


def read_name(store: Store, session_id: int) -> SessionName:
    """Return the name and title of a recorded session."""
    statement = f"select id, {NAME} as session, title from session where id = ?"
    return store.read(SessionName, statement, (session_id,))[0]


def read_outcomes(store: Store, names: Sequence[str]) -> dict[str, SessionOutcome]:
    """Return the outcomes of sessions by their names."""
    ids = [row_id("session", *name.split(":", 1)) for name in names]
    found = store.read(
        SessionOutcome,
        f"select {NAME} as session_id, coalesce(outcome, 'unknown') as outcome, points_to"
        f" from session where id in ({list_marks(ids)})",
        ids,
    )
    return {one.session_id: one for one in found}


def find_advised(store: Store) -> list[AdvisedSession]:
    """Return the sessions of mixtures that other agents ran."""
    return store.read(
        AdvisedSession,
        f"select id, {NAME} as session_id, coalesce(ended_at, started_at) as ended_at"
        " from session where source <> 'relight'"
        " and id in (select session_id from turn where role = 'reference')",
    )


def read_facts(store: Store, session_id: int) -> FoundSession | None:
    """Return the facts of a session; None if it is not recorded."""
    found = store.read(
        FoundSession,
        f"""
        select {NAME} as session, source, session.key as id,
            (select {NAME} from session as other where other.id = session.parent_id) as parent,
            parent_kind, project, branch, title, model, version, started_at, ended_at,
            coalesce(outcome, 'unknown') as outcome, outcome_evidence as evidence,
            points_to, answer,
            task_type, category, score,
            {flag(HAS_TAPE)} as has_tape,
            (select name from machine where machine.id = session.machine_id) as machine,
            root_id,
            (select machine.key from machine where machine.id = session.machine_id) as machine_key
        from session where id = ?
        """,
        (session_id,),
        {"started_at": write_time, "ended_at": write_time, "evidence": read_list, "has_tape": bool},
    )
    return next(iter(found), None)


def read_children(store: Store, session_id: int) -> list[ChildSession]:
    """Return the sessions directly below a session, in the order they began."""
    return store.read(
        ChildSession,
        f"""
        select session_id, kind, title,
            case when coalesce(unpriced, 0) = 0 or nanos <> 0 then nanos end as cost_usd,
            coalesce(included, 0) as included_usd, coalesce(unpriced, 0) as unpriced_turns
        from (
            select {NAME} as session_id, parent_kind as kind, title, started_at, key,
                (select sum(cost_nanos) from session_day
                    where session_day.session_id = session.id) as nanos,
                (select sum(included_nanos) from session_day
                    where session_day.session_id = session.id) as included,
                (select sum(unpriced_turns) from session_day
                    where session_day.session_id = session.id) as unpriced
            from session where parent_id = ?
        ) as child order by started_at nulls first, key
        """,
        (session_id,),
        {"cost_usd": read_usd, "included_usd": read_usd},
    )


def sum_usage(store: Store, session_id: int) -> UsageSums:
    """Return the sums of a session and all sub-agents below it; the time is the session's."""
    single = {
        "sessions": "1",
        "wall_ms": "(select ended_at - started_at from session where id = :session)",
        "failed_turns": "(select count(*) from turn where failure is not null"
        " and session_id in (select id from family))",
    }
    names = UsageSums.__struct_fields__
    sums = ", ".join(f"{single.get(name, f'sum({name})')} as {name}" for name in names)
    (found,) = store.read(
        UsageSums,
        f"{FAMILY} select {sums} from session_day where session_id in (select id from family)",
        {"session": session_id},
    )
    return found


def count_by_source(store: Store) -> dict[str, int]:
    """Return the number of sessions of each source as reports count them, the largest first.

    A sub-agent is part of its parent's session. A session that others only name, such as the parent
    of a fork whose file is gone, does not count.
    """
    rows = store.query(
        "select source, cast(sum(sessions) as bigint) as sessions from ("
        f" select source, sum(sessions) as sessions from {DAYS} group by source union all"
        f" select source, count(distinct root_id) from {USAGE} where is_alone = 0 group by source"
        ") as parts group by source order by sessions desc, source"
    )
    return dict(rows)


def count_subagents(store: Store) -> dict[str, int]:
    """Return the number of sub-agents of each source."""
    rows = store.query(
        # PostgreSQL would join an `exists` with all sessions
        "select source, count(*) from session where id <> root_id and"
        " (select 1 from session_day where session_id = session.id limit 1) = 1 group by source"
    )
    return dict(rows)


def count_successes(store: Store) -> int:
    """Return the number of sessions that succeeded."""
    return int(store.query("select count(*) from listing where outcome = 'success'")[0][0])


def find_first_days(store: Store, chosen: Filter) -> dict[str, str]:
    """Return the first recorded day of each source that has records in a part of the record."""
    test, values = where(chosen)
    # by the index of days, which ends at the first row of the source
    table = DAYS if chosen.is_of_days else USAGE
    first = "select day from usage_day where source = found.source order by day limit 1"
    rows = store.query(
        f"select source, ({first}) from (select distinct source from {table} {test}) as found",
        values,
    )
    return {source: day for source, day in rows if day[:1].isdigit()}


def find_span(store: Store) -> tuple[str | None, str | None]:
    """Return the first session's start and the last one's end."""
    ((first, last),) = store.query("select min(started_at), max(ended_at) from session")
    return write_time(first), write_time(last)


def list_titled(store: Store) -> list[tuple[str, str, str, int, int, str | None]]:
    """Return name, title, project, start, end and outcome of sessions in projects, by start."""
    statement = (
        f"select {NAME}, title, project, started_at, ended_at, outcome from session"
        " where id = root_id and project is not null and title is not null"
        " order by started_at nulls first"
    )
    return [(*row,) for row in store.query(statement)]
