"""Provisions: how each session was decided to begin, and how it ended."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from relight.store import Store
from relight.store.sql import FAILURES, SUCCESSES, divide, insert, list_marks

# A session is known by its agent's own id, which was given when it began.
_FOLLOWED = """session.key = provision.session_key
        and (provision.source is null or provision.source = session.source)"""
# A fork continues what its parent began with. So it counts with its parent's arm, not as another
# session, even if it was dealt an arm.
# Provisions are few: a `cross join` makes SQLite look up their sessions, not go through all.
BEGUN = f"""
    from provision cross join session
    where {_FOLLOWED} and coalesce(session.parent_kind, '') <> 'fork'
"""
JOINED = f"{BEGUN} and provision.template_id is not null"
# the same for provisions that no recorded session followed yet
IS_BEGINNING = f"""provision.arm <> 'continued' and not exists
    (select 1 from session where {_FOLLOWED} and session.parent_kind = 'fork')"""


class DealtLesson(Struct, frozen=True):
    """A lesson that a session began with, or would have: its id, its cause, its line of text."""

    id: str
    kind: str
    program: str
    name: str
    text: str


class Beginning(Struct, frozen=True):
    """The way in which a session begins."""

    id: str
    session_key: str
    source: str | None
    arm: str
    reason: str
    created_at: int
    version: int | None = None
    similarity: float | None = None
    project: str | None = None
    category: str | None = None
    tokens: int | None = None


class Decision(Beginning, frozen=True):
    """The decision how a session begins. A cold one names the template that it would have had.

    `lessons` are those of the project, as JSON; None if it had none, or gives none. They were given
    if `has_lessons` is 1, and held out if it is 0.
    """

    template_id: int | None = None
    experiment_id: int | None = None
    # the share of sessions held out when this one was dealt
    hold_out: float | None = None
    lessons: str | None = None
    has_lessons: int | None = None
    lessons_hold_out: float | None = None


class StartedSession(Struct, frozen=True):
    """A session that began with a template, and its outcome."""

    template_id: int
    version: int
    began_at: int
    outcome: str | None


class ArmCount(Struct, frozen=True):
    """The number of sessions of one version of a template in one arm."""

    template_id: int
    version: int
    arm: str
    sessions: int


class WarmOutcomes(Struct, frozen=True):
    """The number of warm sessions of one version of a template with one outcome."""

    template_id: int
    version: int
    outcome: str | None
    sessions: int


class ProvisionRow(Beginning, frozen=True):
    """A decision, the names of its template and experiment, and the session that followed."""

    has_lessons: int | None = None
    # None if the template was deleted, or none was like the task
    template: str | None = None
    experiment: str | None = None
    session: str | None = None
    outcome: str | None = None


_WITH_NAMES = """
    from provision
        left join template on template.id = provision.template_id
        left join experiment on experiment.id = provision.experiment_id
        left join session on session.id = (
            select min(followed.id) from session as followed
            where followed.key = provision.session_key
                and (provision.source is null or provision.source = followed.source))
"""


def insert_decision(store: Store, decision: Decision) -> None:
    """Record a decision, unless there is one for the same session."""
    with store.transaction() as database:
        insert(database, "provision", [decision], on_conflict="on conflict do nothing")


def find_decision(store: Store, session_key: str) -> Decision | None:
    """Return the decision for a session, if any."""
    return store.find(Decision, "select * from provision where session_key = ?", (session_key,))


def read_lessons(text: str | None) -> list[DealtLesson]:
    """Return the lessons of a decision, as `Decision.lessons` has them."""
    return msgspec.json.decode(text, type=list[DealtLesson]) if text else []


def read_given_lessons(store: Store) -> dict[int, list[DealtLesson]]:
    """Return the lessons that recorded sessions began with, by session."""
    rows = store.query(f"select session.id, lessons {BEGUN} and has_lessons = 1")
    return {session_id: read_lessons(text) for session_id, text in rows}


def read_forks(store: Store, sessions: Sequence[int]) -> dict[int, int]:
    """Return the forks of some sessions, and their forks: the session that each goes back to."""
    roots: dict[int, int] = {}
    found = {one: one for one in sessions}
    while found:
        rows = [
            row
            for parents, marks in divide(found)
            for row in store.query(
                "select id, parent_id from session where parent_kind = 'fork'"
                f" and parent_id in ({marks})",
                parents,
            )
        ]
        found = {fork: found[parent] for fork, parent in rows if fork not in roots}
        roots |= found
    return roots


def move_decision(store: Store, provision_id: str, session_key: str, source: str | None) -> None:
    """Join a decision to a session, unless that session has another one."""
    store.write(
        "update provision set session_key = ?, source = ? where id = ? and not exists"
        " (select 1 from provision as other where other.session_key = ? and other.id <> ?)",
        (session_key, source, provision_id, session_key, provision_id),
    )


def read_provisions(
    store: Store, *, template: str | None, arm: str | None, limit: int
) -> list[ProvisionRow]:
    """Return the latest decisions, newest first, of all templates or of the one with this name."""
    columns = ", ".join(
        f"provision.{name} as {name}" for name in (*Beginning.__struct_fields__, "has_lessons")
    )
    where, values = _narrow(template, arm)
    return store.read(
        ProvisionRow,
        f"select {columns}, template.name as template, experiment.name as experiment,"
        " session.source || ':' || session.key as session, session.outcome as outcome"
        f" {_WITH_NAMES} {where} order by provision.created_at desc, provision.id limit ?",
        [*values, limit],
    )


def count_provisions(store: Store, *, template: str | None, arm: str | None) -> int:
    """Return the number of decisions, of all templates or of the one with this name."""
    where, values = _narrow(template, arm)
    ((number,),) = store.query(
        "select count(*) from provision left join template on template.id = provision.template_id"
        f" {where}",
        values,
    )
    return int(number)


def _narrow(template: str | None, arm: str | None) -> tuple[str, list[str]]:
    given = {"template.name": template, "provision.arm": arm}
    chosen = {column: value for column, value in given.items() if value is not None}
    where = " and ".join(f"{column} = ?" for column in chosen)
    return f"where {where}" if where else "", list(chosen.values())


def read_warm_sessions(store: Store, template_ids: Sequence[int]) -> list[StartedSession]:
    """Return the sessions that began with these templates."""
    return store.read(
        StartedSession,
        "select template_id, provision.version as version, provision.created_at as began_at,"
        f" session.outcome as outcome {JOINED} and arm = 'warm'"
        f" and template_id in ({list_marks(template_ids)})",
        list(template_ids),
    )


def count_arm_outcomes(
    store: Store, arm: str, *, template_id: int | None = None, version: int | None = None
) -> tuple[int, int]:
    """Return successes and failures of an arm, of all templates, of one, or of one version."""
    wanted = {"arm": arm, "template_id": template_id, "provision.version": version}
    given = {column: value for column, value in wanted.items() if value is not None}
    where = " ".join(f"and {column} = ?" for column in given)
    statement = f"select {SUCCESSES}, {FAILURES} {JOINED} {where}"
    ((successes, failures),) = store.query(statement, list(given.values()))
    return successes, failures


def count_by_arm(store: Store) -> list[ArmCount]:
    """Return the number of recorded sessions for each version of a template and arm."""
    return store.read(
        ArmCount,
        "select template_id, provision.version as version, arm, count(*) as sessions"
        f" {JOINED} group by template_id, provision.version, arm",
    )


def count_decisions(store: Store) -> dict[tuple[int, int], int]:
    """Return the number of decisions for each version of a template, with a session or not."""
    rows = store.query(
        "select template_id, version, count(*) from provision"
        f" where template_id is not null and {IS_BEGINNING} group by template_id, version"
    )
    return {(template_id, version): number for template_id, version, number in rows}


def count_by_outcome(store: Store) -> list[WarmOutcomes]:
    """Return the number of warm sessions for each version of a template and outcome."""
    return store.read(
        WarmOutcomes,
        "select template_id, provision.version as version, outcome, count(*) as sessions"
        f" {JOINED} and arm = 'warm' group by template_id, provision.version, outcome",
    )
