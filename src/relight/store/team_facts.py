"""Facts that machines push beside their tapes: runs of jobs, and recorded uses of skills."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from relight.model import Count, Moment, Nanos
from relight.store import Store
from relight.store.derive import outcomes
from relight.store.derive.skills import facts, uses
from relight.store.derive.skills.facts import FACTS, SkillFact
from relight.store.jobs import JobRow
from relight.store.sql import (
    Connection,
    column_list,
    divide,
    find_among,
    find_first,
    insert,
    list_values,
    read,
    replacing,
)
from relight.store.team import strike
from relight.store.write.record import refresh_skills

EARLIER = """
    select session.source || ':' || session.key from run_attempt
    join session on session.id = run_attempt.session_id where run_id = ? order by session.id
"""


class RunFigures(Struct, frozen=True):
    """The columns of `run` that say how a run went, without any words."""

    status: str
    scheduled_for: Moment | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    outcome: str | None = None
    attempts: Count | None = None
    model: str | None = None
    provider: str | None = None
    cost_nanos: Nanos | None = None
    input_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    output_tokens: Count | None = None
    failure_kind: str | None = None


class DueRun(RunFigures, frozen=True):
    """A run that was not acknowledged yet; `session` is `source:key` of its last attempt."""

    id: int = 0
    source: str = ""
    key: str = ""
    job: str | None = None
    job_name: str | None = None
    prompt: str | None = None
    session: str | None = None
    project: str | None = None
    error: str | None = None
    outcome_evidence: str | None = None


RUNS = f"""
    select {column_list(RunFigures, "run.")}, run.id, run.source, run.key, job.key as job,
        job.name as job_name, job.prompt, session.source || ':' || session.key as session,
        session.project, run.error, run.outcome_evidence
    from push_due join run on run.id = push_due.id
    left join job on job.id = run.job_id
    left join session on session.id = run.session_id
    where push_due.kind = 'run'
"""
MOST = 1_000_000
VALUES = f"select {', '.join(FACTS)} from skill_told"


class DueUse(Struct, frozen=True):
    """A recorded use of a skill that was not acknowledged yet; `session` as it is stored."""

    id: int
    session: str
    skill: str
    entry: str | None
    project: str | None


class PushedRunRow(RunFigures, frozen=True, kw_only=True):
    """A row of `run` that another machine pushed."""

    id: int
    source: str
    key: str
    job_id: int
    session_id: int | None
    error: str | None
    outcome_evidence: str | None
    machine_id: int


class PushedJobRow(JobRow, frozen=True, kw_only=True):
    """A row of `job` whose runs another machine pushed."""

    machine_id: int


def strike_remote(store: Store) -> None:
    """Leave out runs for the server itself, which has them in its own history."""
    store.write("delete from push_due where kind = 'run' and id in (select run_id from remote_run)")


def read_due_runs(store: Store, limit: int = MOST) -> list[DueRun]:
    """Return the next runs to push, without those for the server, which has them already."""
    own = "and run.id not in (select run_id from remote_run)"
    return store.read(DueRun, f"{RUNS} {own} order by run.id limit ?", (limit,))


def strike_runs(store: Store, sent: Sequence[DueRun]) -> None:
    """Strike out runs that the server has; one that has changed meanwhile is sent again."""
    with store.transaction() as database:
        for some, marks in divide([run.id for run in sent]):
            current = read(database, DueRun, f"{RUNS} and run.id in ({marks})", some)
            strike(database, "run", [run.id for run in current if run in sent])


def strike_uses(store: Store, sent: Mapping[int, dict[str, Any]]) -> None:
    """Strike out uses that the server has, by id and what they said then."""
    with store.transaction() as database:
        same = (one for one, values in sent.items() if read_use_values(store, one) in ({}, values))
        strike(database, "use", same)


def read_earlier_attempts(store: Store, run_id: int) -> list[str]:
    """Return the sessions of a run's attempts before the last, as `source:key`."""
    return store.list_values(EARLIER, (run_id,))


def read_due_uses(store: Store, limit: int = MOST) -> list[DueUse]:
    """Return the next recorded uses of skills to push."""
    return store.read(
        DueUse,
        """
            select skill_told.id, skill_told.session_id as session, skill_name as skill, entry,
                session.project
            from push_due join skill_told on skill_told.id = push_due.id
            left join session on session.source || ':' || session.key = skill_told.session_id
            where push_due.kind = 'use' order by skill_told.id limit ?
        """,
        (limit,),
    )


def read_use_values(store: Store, fact_id: int) -> dict[str, Any]:
    """Return what a recorded use of a skill says, by column."""
    rows = store.query(f"{VALUES} where id = ?", (fact_id,))
    return _name_values(rows[0]) if rows else {}


def _name_values(row: Sequence[Any]) -> dict[str, Any]:
    pairs = zip(FACTS, row, strict=True)
    return {name: value for name, value in pairs if value is not None}


def write_runs(
    database: Connection,
    jobs: Sequence[PushedJobRow],
    runs: Sequence[PushedRunRow],
    attempts: Iterable[tuple[int, int]],
) -> None:
    """Write runs that a machine pushed; the last word about a run counts."""
    insert(database, "job", jobs, on_conflict=replacing(PushedJobRow, "id"))
    insert(database, "run", runs, on_conflict=replacing(PushedRunRow, "id"))
    statement = "insert into run_attempt (session_id, run_id) values (?, ?) on conflict do nothing"
    database.executemany(statement, list(attempts))
    touched = [run.session_id for run in runs if run.session_id is not None]
    refresh_skills(database, outcomes.refresh(database, touched))


def write_use(database: Connection, fact: SkillFact, machine_id: int, *, now: int) -> None:
    """Write a recorded use of a skill that a machine pushed."""
    named = "select root_id from session where source || ':' || key = ?"
    root = find_first(database, named, (fact.session_id,))
    # what another person sent before is no part of it
    database.execute(
        f"delete from skill_told where {facts.OF_USE} and machine_id in (select other.id"
        " from machine as own join machine as other on other.person_id <> own.person_id"
        " where own.id = ?)",
        (fact.session_id, fact.skill_name, fact.entry or "", machine_id),
    )
    known = facts.write_fact(database, fact)
    uses.record_use(database, known, root, begun_at=now)
    database.execute("update skill_told set machine_id = ? where id = ?", (machine_id, known.id))


def remove_pushed_facts(database: Connection, machine_id: int) -> None:
    """Delete the runs and uses that a machine pushed."""
    statement = "delete from run_attempt where run_id in (select id from run where machine_id = ?)"
    database.execute(statement, (machine_id,))
    statement = "select distinct session_id from skill_told where machine_id = ?"
    names = list_values(database, statement, (machine_id,))
    for table in ("run", "job", "skill_told"):
        database.execute(f"delete from {table} where machine_id = ?", (machine_id,))
    for some, marks in divide(names):
        # uses of recorded sessions are derived again without the facts
        database.execute(
            f"delete from skill_invocations where root_id is null and session_id in ({marks})",
            some,
        )
    touched = "select id from session where source || ':' || key in ({marks})"
    refresh_skills(database, find_among(database, touched, names))
