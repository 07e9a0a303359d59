"""Outcomes of sessions and runs, judged again whenever their evidence changes."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.judging.admissions import Admissions
from relight.judging.outcomes import STOPPED, OutcomeEvidence, judge_outcome
from relight.judging.spirals import SPIRAL_MINIMUM, JudgedCall, Spiral, find_open_spiral
from relight.store.derive.scores import COMMITTED, HARMLESS, SUBMITTED, read_work
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.sql import Connection, S, count_if, differs, read, write_touched

EVIDENCE = """
    select label.outcome as label, label.why as label_why, run.id as run_id,
        run.status as ledger_status, run.error as ledger_error,
        session.told_outcome as source_outcome,
        session.script_error, session.ending, session.answer, session.prompted_at,
        coalesce(job.prompt, session.title) as task,
        session.project, session.title, session.ended_at
    from session
    left join label on label.session_id = session.id
    left join run on run.session_id = session.id
    left join job on job.id = run.job_id
    where session.id = ?
"""
LAST_API_FAILURE = """
    select failure as api_failure, failure_text as api_failure_text from turn
    where session_id = ? and failure is not null and coalesce(role, '') <> 'reference'
    order by at desc nulls last limit 1
"""
# a spiral at the end has some of its calls, and tests that were run last are, among so many
LATE = 30
CALLS_BACKWARDS = """
    select tool, fingerprint, label, kind, reason, tests, work, at from tool_call
    where session_id = ? order by at desc nulls last, place desc
"""
COUNT_CALLS = f"""
    select count(*) as judged_calls, {count_if("label = 'error'")} as failed_calls
    from tool_call where session_id = ? and label <> 'unknown'
        and coalesce(kind, '') not in ({", ".join(f"'{kind}'" for kind in STOPPED)})
"""
WRITE = f"""
    update session set outcome = :outcome, outcome_evidence = :evidence, points_to = :points_to
    where id = :id and ({differs("outcome", ":outcome")}
        or {differs("outcome_evidence", ":evidence")} or {differs("points_to", ":points_to")})
"""
# The last message is a reaction only if another one came before it. Two rows are enough to know;
# a sum of all would take longer with each message.
LAST_WORDS = """
    select last_words, user_messages from session_words
    where session_id = ? and user_messages > 0 order by position desc limit 2
"""
# A short title is not a task ("hi", "continue"), and programs ask the same thing every day.
LEAST_TITLE = 20
ASKED_WITHIN = 7 * 24 * 3_600_000
ASKED_AGAIN = f"""
    select min(started_at) from session where title = :title and project = :project
        and root_id = id and started_at > :ended_at and started_at <= :ended_at + {ASKED_WITHIN}
"""
ASKED_BEFORE = f"""
    select earlier.id from session join session as earlier
        on earlier.title = session.title and earlier.project = session.project
    where session.id in (select id from touched) and length(session.title) >= {LEAST_TITLE}
        and earlier.root_id = earlier.id and earlier.id <> session.id
        and earlier.ended_at < session.started_at
        and earlier.ended_at >= session.started_at - {ASKED_WITHIN}
"""
PROVEN = "proven_signs"
# Relight's runs are judged when they end, and pushed ones on the machine that has their words.
IS_JUDGED_HERE = "source <> 'relight' and machine_id is null"
WRITE_RUN = f"""
    update run set outcome = :outcome, outcome_evidence = :evidence
    where session_id = :id and {IS_JUDGED_HERE}
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
    where session_id is null and {IS_JUDGED_HERE} and started_at is not null
"""
SESSIONLESS = f"select id, status, error from run where session_id is null and {IS_JUDGED_HERE}"


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
    task: str | None
    project: str | None
    title: str | None
    ended_at: int | None


class ApiFailure(Struct, frozen=True):
    """The last failed model call of a session."""

    api_failure: str | None = None
    api_failure_text: str | None = None


class LateCall(Struct, frozen=True):
    """One of the last tool calls of a session."""

    tool: str
    fingerprint: int
    label: Literal["ok", "negative", "error", "unknown"] | None
    kind: str | None
    reason: str | None
    tests: str | None
    work: str | None
    at: int | None

    @property
    def is_harmless(self) -> bool:
        return self.does(HARMLESS)

    def does(self, flag: str) -> bool:
        """True if the kind of work of this call has a flag."""
        return bool(self.work) and flag in read_work(self.work or "")[1]

    def is_before(self, at: int | None) -> bool:
        return self.at is not None and at is not None and self.at < at


class LastWords(Struct, frozen=True):
    """The last words of a person in one part of a session, and the messages there."""

    last_words: Literal["thanks", "correction"] | None
    user_messages: int


class CallCounts(Struct, frozen=True):
    """The calls of a session that have a verdict, and how many of them failed."""

    judged_calls: int = 0
    failed_calls: int = 0


def join_runs(database: Connection) -> set[int]:
    """Join other schedulers' runs to their sessions; return those whose run is known to be failed.

    Only sessions of runs that have not been judged since their ledger was read.
    """
    if database.execute(f"{SESSIONLESS} limit 1").fetchone():
        database.execute(JOIN_RUNS)
    rows = database.execute(
        "select session_id from run where session_id is not null and outcome is null"
        " and status = 'failed' and machine_id is null"
    )
    return {found for (found,) in rows}


def refresh(
    database: Connection, touched: Iterable[int], admissions: Admissions | None = None
) -> set[int]:
    """Judge these sessions and the runs that concern them; return all sessions judged.

    `admissions` are those of answers that have been read for them already.
    """
    if database.execute(f"{SESSIONLESS} limit 1").fetchone():
        database.execute(JOIN_RUNS)
        _judge_sessionless(database)
    joined = database.execute(
        "select session_id from run where session_id is not null and outcome is null"
        " and machine_id is null"
    )
    judged_ids = {*touched, *(found for (found,) in joined)}
    write_touched(database, judged_ids)
    judged_ids.update(found for (found,) in database.execute(ASKED_BEFORE))
    proven = read_proven(database)
    for session_id in judged_ids:
        _judge_session(database, session_id, proven, admissions or {})
    if database.execute("select 1 from told_outcome limit 1").fetchone():
        from relight.store.derive.machines import apply_told

        apply_told(database, judged_ids)
    return judged_ids


def read_proven(database: Connection) -> frozenset[str]:
    """Return the kinds of signs that the user's labels have proven."""
    row = database.execute("select value from meta where key = ?", (PROVEN,)).fetchone()
    return frozenset(msgspec.json.decode(row[0], type=list[str])) if row else frozenset()


def write_proven(database: Connection, kinds: Iterable[str]) -> None:
    """Let these kinds of signs decide from now on."""
    database.execute(
        "insert into meta (key, value) values (?, ?)"
        " on conflict (key) do update set value = excluded.value",
        (PROVEN, msgspec.json.encode(sorted(kinds)).decode()),
    )


def _judge_session(
    database: Connection,
    session_id: int,
    proven: frozenset[str],
    admissions: Admissions,
) -> None:
    seen = read_evidence(database, session_id)
    if seen is None:
        return
    if known := admissions.get(seen.answer or ""):
        seen = replace(seen, admission=known)
    judged = judge_outcome(seen, proven)
    evidence = msgspec.json.encode(judged.evidence).decode()
    values = {"outcome": judged.outcome, "evidence": evidence, "id": session_id}
    database.execute(WRITE, {**values, "points_to": judged.points_to})
    if seen.is_run:
        database.execute(WRITE_RUN, values)


def read_evidence(database: Connection, session_id: int) -> OutcomeEvidence | None:
    """Return the evidence about a session, and about the run that it belongs to."""
    found = read(database, SessionEvidence, EVIDENCE, (session_id,))
    if not found:
        return None
    facts = asdict(found[0])
    is_run = facts.pop("run_id") is not None
    prompted_at = facts.pop("prompted_at")
    named = {name: facts.pop(name) for name in ("project", "title", "ended_at")}
    failure = _read_first(database, ApiFailure, LAST_API_FAILURE, session_id)
    late = read(database, LateCall, f"{CALLS_BACKWARDS} limit {LATE}", (session_id,))
    last = late[0] if late else None
    # a request that needed no call is not judged by the calls before it
    is_stale = last is None or last.is_before(prompted_at)
    has_failed = last is not None and last.label == "error" and not is_stale
    counts = (
        _read_first(database, CallCounts, COUNT_CALLS, session_id) if has_failed else CallCounts()
    )
    spiral = None if is_stale else _find_spiral(late)
    if spiral and len(late) == LATE:  # it may have begun earlier
        spiral = _find_spiral(read(database, LateCall, CALLS_BACKWARDS, (session_id,)))
    return OutcomeEvidence(
        **facts,
        **asdict(failure),
        **asdict(counts),
        is_run=is_run,
        last_call_label=last.label if last else None,
        last_call_kind=last.kind if last else None,
        last_call_tool=last.tool if last else None,
        last_call_reason=last.reason if last else None,
        last_tests=_find_last_tests(late, prompted_at),
        spiral_tool=spiral.tool if spiral else None,
        spiral_count=spiral.count if spiral else 0,
        is_submitted=last is not None and not is_stale and last.does(SUBMITTED),
        is_committed=_is_committed(late),
        last_words=_read_last_words(database, session_id),
        asked_again_at=None if is_run else _find_asked_again(database, named),
    )


def _is_committed(late: Sequence[LateCall]) -> bool:
    """True if a commit or push worked, and nothing was changed after it."""
    for call in late:
        if call.does(COMMITTED):
            return call.label == "ok"
        if not call.is_harmless and not call.does(SUBMITTED):
            return False
    return False


def _read_last_words(
    database: Connection, session_id: int
) -> Literal["thanks", "correction"] | None:
    rows = read(database, LastWords, LAST_WORDS, (session_id,))
    has_earlier = sum(row.user_messages for row in rows) > 1
    return rows[0].last_words if has_earlier else None


def _find_asked_again(database: Connection, named: dict[str, Any]) -> int | None:
    """Return the time of the next session with the same task in the same project."""
    if len(named["title"] or "") < LEAST_TITLE or named["ended_at"] is None:
        return None
    found: int | None = database.execute(ASKED_AGAIN, named).fetchone()[0]
    return found


def _find_spiral(calls: Sequence[LateCall]) -> Spiral | None:
    """Return the spiral that a session ends in; calls that a person stopped are left out.

    The calls are given backwards.
    """
    if sum(call.label == "error" for call in calls) < SPIRAL_MINIMUM:
        return None
    judged = [
        JudgedCall(
            call.tool,
            str(call.fingerprint),
            call.label or "unknown",
            is_harmless=call.is_harmless,
        )
        for call in reversed(calls)
        if call.kind not in STOPPED
    ]
    return find_open_spiral(judged)


def _find_last_tests(late: Sequence[LateCall], prompted_at: int | None) -> str | None:
    """Return the result of the last tests, if they ran after the last change and prompt."""
    for call in late:
        if call.tests:
            return None if call.is_before(prompted_at) else call.tests
        if not call.is_harmless and not call.does(SUBMITTED):
            return None
    return None


def _judge_sessionless(database: Connection) -> None:
    for run_id, status, error in database.execute(SESSIONLESS).fetchall():
        seen = OutcomeEvidence(
            is_run=True, has_session=False, ledger_status=status, ledger_error=error
        )
        judged = judge_outcome(seen)
        database.execute(
            "update run set outcome = ?, outcome_evidence = ? where id = ?",
            (judged.outcome, msgspec.json.encode(judged.evidence).decode(), run_id),
        )


def _read_first(database: Connection, shape: type[S], statement: str, session_id: int) -> S:
    rows = read(database, shape, statement, (session_id,))
    return rows[0] if rows else shape()
