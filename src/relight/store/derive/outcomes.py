"""Outcomes of sessions and runs, judged anew whenever their evidence changes."""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from relight.judging.outcomes import OutcomeEvidence, judge_outcome
from relight.store.derive.scheduled import IS_NAMED_AFTER

EVIDENCE = """
    select label.outcome, label.why, run.status, run.error, run.id is not null,
        session.told_outcome, session.script_error, session.ending, session.prompted_at,
        session.answer
    from session
    left join label on label.session_id = session.id
    left join run on run.session_id = session.id
    where session.id = ?
"""
LAST_API_FAILURE = """
    select failure, failure_text from turn where session_id = ? and failure is not null
        and role is not 'reference'
    order by at desc limit 1
"""
LAST_CALL = """
    select label, kind, tool, reason from tool_call where session_id = ?
    order by at desc, place desc limit 1
"""
HAS_TESTS = "select 1 from tool_call where session_id = ? and tests is not null limit 1"
LAST_CALLS = """
    select tests, work, at from tool_call where session_id = ?
    order by at desc, place desc limit 30
"""
WRITE = """
    update session set outcome = ?1, outcome_evidence = ?2
    where id = ?3 and (outcome is not ?1 or outcome_evidence is not ?2)
"""
# A scheduler's ledger knows no session: it is the one named after the job that began meanwhile.
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
# Ours were judged by those who ran them, and are told their session.
SESSIONLESS = """
    select id, status, error from run where session_id is null and source <> 'relight'
"""


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> set[int]:
    """Judge these sessions, and the runs that left them or no session at all; gives all judged."""
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
    for row in database.execute(EVIDENCE, (session_id,)).fetchall():
        label, why, status, error, is_run, told, script_error, ending, prompted_at, answer = row
        failure = _first(database, LAST_API_FAILURE, session_id) or (None, None)
        call = _first(database, LAST_CALL, session_id) or (None, None, None, None)
        judged = judge_outcome(
            OutcomeEvidence(
                label=label,
                label_why=why,
                is_run=bool(is_run),
                ledger_status=status,
                ledger_error=error,
                source_outcome=told,
                script_error=script_error,
                ending=ending,
                answer=answer,
                api_failure=failure[0],
                api_failure_text=failure[1],
                last_call_label=call[0],
                last_call_kind=call[1],
                last_call_tool=call[2],
                last_call_reason=call[3],
                last_tests=_find_last_tests(database, session_id, prompted_at),
            )
        )
        values = (judged.outcome, msgspec.json.encode(judged.evidence).decode(), session_id)
        database.execute(WRITE, values)
        if is_run:
            database.execute(
                "update run set outcome = ?, outcome_evidence = ?"
                " where session_id = ? and source <> 'relight'",
                values,
            )


def _find_last_tests(
    database: sqlite3.Connection, session_id: int, prompted_at: int | None
) -> str | None:
    """What the tests said that were run last: after the last change and a person's last word."""
    if _first(database, HAS_TESTS, session_id) is None:
        return None
    from relight.store.derive.words import HARMLESS, read_work

    for tests, work, at in database.execute(LAST_CALLS, (session_id,)).fetchall():
        if tests:
            is_stale = at is not None and prompted_at is not None and at < prompted_at
            return None if is_stale else str(tests)
        if not work or HARMLESS not in read_work(work)[1]:
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


def _first(database: sqlite3.Connection, statement: str, session_id: int) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = database.execute(statement, (session_id,)).fetchone()
    return row
