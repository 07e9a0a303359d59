"""Outcomes of sessions and runs, judged again whenever their evidence changes."""

import sqlite3
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from relight.judging.outcomes import OutcomeEvidence, judge_outcome
from relight.store.derive.scores import HARMLESS, read_work
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.sql import S, differs, read

EVIDENCE = """
    select label.outcome as label, label.why as label_why, run.id as run_id,
        run.status as ledger_status, run.error as ledger_error,
        session.told_outcome as source_outcome,
        session.script_error, session.ending, session.answer, session.prompted_at
    from session
    left join label on label.session_id = session.id
    left join run on run.session_id = session.id
    where session.id = ?
"""
LAST_API_FAILURE = """
    select failure as api_failure, failure_text as api_failure_text from turn
    where session_id = ? and failure is not null and coalesce(role, '') <> 'reference'
    order by at desc nulls last limit 1
"""
LAST_CALL = """
    select label as last_call_label, kind as last_call_kind, tool as last_call_tool,
        reason as last_call_reason
    from tool_call where session_id = ?
    order by at desc nulls last, place desc limit 1
"""
HAS_TESTS = "select 1 from tool_call where session_id = ? and tests is not null limit 1"
LAST_CALLS = """
    select tests, work, at from tool_call where session_id = ?
    order by at desc nulls last, place desc limit 30
"""
WRITE = f"""
    update session set outcome = :outcome, outcome_evidence = :evidence
    where id = :id and ({differs("outcome", ":outcome")}
        or {differs("outcome_evidence", ":evidence")})
"""
WRITE_RUN = """
    update run set outcome = :outcome, outcome_evidence = :evidence
    where session_id = :id and source <> 'relight'
"""
# A scheduler's ledger has no session: it is the one named after the job that began meanwhile.
JOIN_RUNS = f"""
    update run set session_id = (
        select session.id from session join job on {IS_NAMED_AFTER}
        where job.id = run.job_id
            and session.started_at >= run.started_at - 1000
            and session.started_at <= coalesce(run.finished_at, run.started_at + 3600000)
        order by session.started_at limit 1
    )
    where session_id is null and source <> 'relight' and started_at is not null
"""
# Relight's runs are judged when they end, and know their session.
SESSIONLESS = """
    select id, status, error from run where session_id is null and source <> 'relight'
"""


class SessionEvidence(Struct, frozen=True):
    """The store's evidence about a session's end."""

    label: str | None
    label_why: str | None
    run_id: int | None
    ledger_status: str | None
    ledger_error: str | None
    source_outcome: str | None
    script_error: str | None
    ending: str | None
    answer: str | None
    prompted_at: int | None


class ApiFailure(Struct, frozen=True):
    """The last failed model call of a session."""

    api_failure: str | None = None
    api_failure_text: str | None = None


class LastCall(Struct, frozen=True):
    """The last tool call of a session."""

    last_call_label: str | None = None
    last_call_kind: str | None = None
    last_call_tool: str | None = None
    last_call_reason: str | None = None


class RecentCall(Struct, frozen=True):
    """A late tool call of a session: its tests and its work."""

    tests: str | None
    work: str | None
    at: int | None


def join_runs(database: sqlite3.Connection) -> set[int]:
    """Join other schedulers' runs to their sessions; return those whose run is known to be failed.

    Only sessions of runs that have not been judged since their ledger was read.
    """
    if database.execute(f"{SESSIONLESS} limit 1").fetchone():
        database.execute(JOIN_RUNS)
    rows = database.execute(
        "select session_id from run where session_id is not null and outcome is null"
        " and status = 'failed'"
    )
    return {found for (found,) in rows}


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> set[int]:
    """Judge these sessions and the runs that concern them; return all sessions judged."""
    if database.execute(f"{SESSIONLESS} limit 1").fetchone():
        database.execute(JOIN_RUNS)
        _judge_sessionless(database)
    joined = database.execute(
        "select session_id from run where session_id is not null and outcome is null"
    )
    judged_ids = {*touched, *(found for (found,) in joined)}
    for session_id in judged_ids:
        _judge_session(database, session_id)
    return judged_ids


def _judge_session(database: sqlite3.Connection, session_id: int) -> None:
    for known in read(database, SessionEvidence, EVIDENCE, (session_id,)):
        failure = _read_last(database, ApiFailure, LAST_API_FAILURE, session_id)
        call = _read_last(database, LastCall, LAST_CALL, session_id)
        facts = asdict(known)
        is_run = facts.pop("run_id") is not None
        prompted_at = facts.pop("prompted_at")
        judged = judge_outcome(
            OutcomeEvidence(
                **facts,
                **asdict(failure),
                **asdict(call),
                is_run=is_run,
                last_tests=_find_last_tests(database, session_id, prompted_at),
            )
        )
        evidence = msgspec.json.encode(judged.evidence).decode()
        values = {"outcome": judged.outcome, "evidence": evidence, "id": session_id}
        database.execute(WRITE, values)
        if is_run:
            database.execute(WRITE_RUN, values)


def _find_last_tests(
    database: sqlite3.Connection, session_id: int, prompted_at: int | None
) -> str | None:
    """Return the result of the last tests, if they ran after the last change and prompt."""
    if database.execute(HAS_TESTS, (session_id,)).fetchone() is None:
        return None
    for call in read(database, RecentCall, LAST_CALLS, (session_id,)):
        if call.tests:
            is_stale = call.at is not None and prompted_at is not None and call.at < prompted_at
            return None if is_stale else call.tests
        if not call.work or HARMLESS not in read_work(call.work)[1]:
            return None
    return None


def _judge_sessionless(database: sqlite3.Connection) -> None:
    for run_id, status, error in database.execute(SESSIONLESS).fetchall():
        seen = OutcomeEvidence(
            is_run=True, has_session=False, ledger_status=status, ledger_error=error
        )
        judged = judge_outcome(seen)
        database.execute(
            "update run set outcome = ?, outcome_evidence = ? where id = ?",
            (judged.outcome, msgspec.json.encode(judged.evidence).decode(), run_id),
        )


def _read_last(database: sqlite3.Connection, shape: type[S], statement: str, session_id: int) -> S:
    rows = read(database, shape, statement, (session_id,))
    return rows[0] if rows else shape()
