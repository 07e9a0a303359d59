"""What came of a run, written down and joined to the sessions that it left."""

import sqlite3

import msgspec

from relight.ids import row_id
from relight.model import Usage
from relight.store import Store
from relight.store.derive import invocations, outcomes
from relight.work.jobs.job import RunResult

# a run whose holder was thought dead, and was not, may still say how it went
FINISH = """
    update run set status = ?, error = ?, finished_at = ?, outcome = ?, outcome_evidence = ?,
        attempts = ?, session_id = ?, model = ?, provider = ?, cost_nanos = ?, input_tokens = ?,
        cache_read_tokens = ?, cache_write_tokens = ?, output_tokens = ?, answer_file = ?,
        delivery = ?, warnings = ?, lease_until = null
    where id = ? and holder = ? and status in ('claimed', 'running', 'unknown')
"""


def finish(store: Store, run_id: int, result: RunResult, *, holder: str) -> bool:
    """Write down what came of a run; False if it is not this holder's."""
    usage = result.usage or Usage()
    evidence = result.evidence or ["nothing was said of how it went"]
    with store.transaction() as database:
        session_id = _find_session(database, run_id, result.session)
        written = database.execute(
            FINISH,
            (
                result.status,
                evidence[0] if result.status == "failed" else None,
                result.finished_at,
                result.outcome,
                _encode(evidence),
                result.attempts,
                session_id,
                result.model,
                result.provider,
                result.cost_nanos,
                usage.input,
                usage.cache_read,
                usage.cache_write,
                usage.output,
                result.answer_file,
                _encode(result.delivery),
                _encode(result.warnings),
                run_id,
                holder,
            ),
        )
        if not written.rowcount:
            return False
        earlier = [row_id("session", *name.split(":", 1)) for name in result.earlier]
        database.executemany(
            "insert or ignore into run_attempt values (?, ?)", [(one, run_id) for one in earlier]
        )
        left = {*earlier, *([session_id] if session_id is not None else [])}
        if left:
            invocations.refresh(database, outcomes.refresh(database, left))
    return True


def _find_session(database: sqlite3.Connection, run_id: int, session: str | None) -> int | None:
    """The session's row; one that was gone on with is the other run's, or it counts twice."""
    if session is None:
        return None
    session_id = row_id("session", *session.split(":", 1))
    other = database.execute(
        "select 1 from run where session_id = ? and id <> ?", (session_id, run_id)
    ).fetchone()
    return None if other else session_id


def _encode(value: object) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
