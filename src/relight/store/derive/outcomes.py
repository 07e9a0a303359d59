"""Outcomes of sessions and runs, judged again whenever their evidence changes."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from relight.judging.admissions import Admissions, hash_answer
from relight.judging.outcomes import STOPPED, OutcomeEvidence, judge_outcome
from relight.judging.spirals import SPIRAL_MINIMUM, JudgedCall, Spiral, find_open_spiral
from relight.model import Ending, OutcomeName
from relight.store.derive.scores import COMMITTED, HARMLESS, SUBMITTED, read_work
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.sql import Connection, count_if, read, write_touched

# The last message is a reaction only if another one came before it. Two rows are enough to know;
# a sum of all would take longer with each message.
LAST_WORDS = """
    from session_words where session_id = session.id and user_messages > 0
    order by position desc limit
"""
EVIDENCE = f"""
    select label.outcome as label, label.why as label_why, run.id as run_id,
        run.status as ledger_status, run.error as ledger_error,
        session.told_outcome as source_outcome,
        session.script_error, session.ending, session.answer, session.prompted_at,
        coalesce(job.prompt, session.title) as task,
        failed.failure as api_failure, failed.failure_text as api_failure_text,
        (select last_words {LAST_WORDS} 1) as last_words,
        (select coalesce(sum(user_messages), 0) from (select user_messages {LAST_WORDS} 2) as late)
            as late_messages,
        session.project, session.title, session.ended_at,
        session.outcome, session.outcome_evidence, session.points_to
    from session
    left join label on label.session_id = session.id
    left join run on run.session_id = session.id
    left join job on job.id = run.job_id
    left join turn as failed on failed.id = (
        select id from turn
        where session_id = session.id and failure is not null
            and coalesce(role, '') <> 'reference'
        order by at desc nulls last limit 1
    )
    where session.id = ?
"""
NO_FLAGS: frozenset[str] = frozenset()
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
WRITE = """
    update session set outcome = :outcome, outcome_evidence = :evidence, points_to = :points_to
    where id = :id
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
STANDARDS = """
    select (select value from meta where key = ?), exists (select 1 from told_outcome)
"""
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

    label: OutcomeName | None
    label_why: str | None
    run_id: int | None
    ledger_status: str | None
    ledger_error: str | None
    source_outcome: OutcomeName | None
    script_error: str | None
    ending: Ending | None
    answer: str | None
    prompted_at: int | None
    task: str | None
    # of the last failed model call
    api_failure: str | None
    api_failure_text: str | None
    # of a person in the last part that has any, and the messages in the last two
    last_words: Literal["thanks", "correction"] | None
    late_messages: int
    project: str | None
    title: str | None
    ended_at: int | None
    # as judged before
    outcome: str | None
    outcome_evidence: str | None
    points_to: str | None


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
    def flags(self) -> frozenset[str]:
        """The flags of the kind of work of this call."""
        return read_work(self.work)[1] if self.work else NO_FLAGS

    def is_before(self, at: int | None) -> bool:
        return self.at is not None and at is not None and self.at < at


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
    judge_sessions(database, judged_ids, admissions)
    return judged_ids


def judge_sessions(
    database: Connection, sessions: Collection[int], admissions: Admissions | None = None
) -> None:
    """Judge these sessions, and no other that their evidence bears on."""
    proven, has_told = database.execute(STANDARDS, (PROVEN,)).fetchone()
    kinds = _decode_proven(proven)
    for session_id in sessions:
        _judge_session(database, session_id, kinds, admissions or {})
    if has_told:
        from relight.store.derive.machines import apply_told

        apply_told(database, sessions)


def read_proven(database: Connection) -> frozenset[str]:
    """Return the kinds of signs that the user's labels have proven."""
    row = database.execute("select value from meta where key = ?", (PROVEN,)).fetchone()
    return _decode_proven(row[0] if row else None)


def _decode_proven(value: str | None) -> frozenset[str]:
    return frozenset(msgspec.json.decode(value, type=list[str])) if value else NO_FLAGS


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
    found = read(database, SessionEvidence, EVIDENCE, (session_id,))
    if not found:
        return
    before = found[0]
    seen = _gather_evidence(database, session_id, before, admissions)
    judged = judge_outcome(seen, proven)
    evidence = msgspec.json.encode(judged.evidence).decode()
    values = {"outcome": judged.outcome, "evidence": evidence, "id": session_id}
    after = (judged.outcome, evidence, judged.points_to)
    if after != (before.outcome, before.outcome_evidence, before.points_to):
        database.execute(WRITE, {**values, "points_to": judged.points_to})
    if seen.is_run:
        database.execute(WRITE_RUN, values)


def read_evidence(database: Connection, session_id: int) -> OutcomeEvidence | None:
    """Return the evidence about a session, and about the run that it belongs to."""
    found = read(database, SessionEvidence, EVIDENCE, (session_id,))
    return _gather_evidence(database, session_id, found[0], {}) if found else None


def _gather_evidence(
    database: Connection, session_id: int, session: SessionEvidence, admissions: Admissions
) -> OutcomeEvidence:
    prompted_at, is_run = session.prompted_at, session.run_id is not None
    late = read(database, LateCall, f"{CALLS_BACKWARDS} limit {LATE}", (session_id,))
    last = late[0] if late else None
    # a request that needed no call is not judged by the calls before it
    is_stale = last is None or last.is_before(prompted_at)
    counts = CallCounts()
    if last is not None and last.label == "error" and not is_stale:
        (counts,) = read(database, CallCounts, COUNT_CALLS, (session_id,))
    spiral = None if is_stale else _find_spiral(late)
    if spiral and len(late) == LATE:  # it may have begun earlier
        spiral = _find_spiral(read(database, LateCall, CALLS_BACKWARDS, (session_id,)))
    recent = _look_back(late, prompted_at)
    return OutcomeEvidence(
        label=session.label,
        label_why=session.label_why,
        is_run=is_run,
        ledger_status=session.ledger_status,
        ledger_error=session.ledger_error,
        source_outcome=session.source_outcome,
        script_error=session.script_error,
        task=session.task,
        ending=session.ending,
        answer=session.answer,
        api_failure=session.api_failure,
        api_failure_text=session.api_failure_text,
        last_call_label=last.label if last else None,
        last_call_kind=last.kind if last else None,
        last_call_tool=last.tool if last else None,
        last_call_reason=last.reason if last else None,
        last_tests=recent.tests,
        spiral_tool=spiral.tool if spiral else None,
        spiral_count=spiral.count if spiral else 0,
        judged_calls=counts.judged_calls,
        failed_calls=counts.failed_calls,
        is_submitted=last is not None and not is_stale and SUBMITTED in last.flags,
        is_committed=recent.is_committed,
        # a reaction only if another message came before it
        last_words=session.last_words if session.late_messages > 1 else None,
        asked_again_at=None if is_run else _find_asked_again(database, session),
        admission=admissions.get(hash_answer(session.answer))
        if admissions and session.answer
        else None,
    )


class LateWork(Struct):
    """The signs in the last calls, back to the last one that changed anything."""

    tests: str | None = None
    # True if a commit or push worked, and nothing was changed after it
    is_committed: bool = False


def _look_back(late: Sequence[LateCall], prompted_at: int | None) -> LateWork:
    """Return the result of the last tests, if they ran after the last prompt, and the commit."""
    found, has_commit, has_tests = LateWork(), False, False
    for call in late:
        if call.tests and not has_tests:
            has_tests = True
            found.tests = None if call.is_before(prompted_at) else call.tests
        flags = read_work(call.work)[1] if call.work else NO_FLAGS
        if COMMITTED in flags and not has_commit:
            has_commit = True
            found.is_committed = call.label == "ok"
        if HARMLESS not in flags and SUBMITTED not in flags:
            break
    return found


def _find_asked_again(database: Connection, session: SessionEvidence) -> int | None:
    """Return the time of the next session with the same task in the same project."""
    if len(session.title or "") < LEAST_TITLE or session.ended_at is None:
        return None
    named = {"title": session.title, "project": session.project, "ended_at": session.ended_at}
    found: int | None = database.execute(ASKED_AGAIN, named).fetchone()[0]
    return found


def _find_spiral(calls: Sequence[LateCall]) -> Spiral | None:
    """Return the spiral that a session ends in; calls that a person stopped are left out.

    The calls are given backwards.
    """
    if [call.label for call in calls].count("error") < SPIRAL_MINIMUM:
        return None
    judged = [
        JudgedCall(
            call.tool,
            str(call.fingerprint),
            call.label or "unknown",
            is_harmless=HARMLESS in call.flags,
        )
        for call in reversed(calls)
        if call.kind not in STOPPED
    ]
    return find_open_spiral(judged)


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
