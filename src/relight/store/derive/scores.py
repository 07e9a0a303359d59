"""Kinds and scores of sessions, counted anew from their rows whenever those change."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from relight.judging.features import Measures, make_features, matches_tool
from relight.judging.kinds import judge_sides
from relight.judging.scoring import Weights, score_measures
from relight.store.derive import due
from relight.store.derive.words import SUBMITTED, UNREADABLE, read_work

KEY = "score_weights"
SESSIONS = """
    select session.id, ending, answer, coalesce(sum(messages), 0), coalesce(sum(corrections), 0),
        coalesce(sum(malformed), 0), coalesce(sum(give_ups), 0)
    from session left join session_words on session_words.session_id = session.id
    where session.id in (select id from touched)
    group by session.id
"""
CALLS = """
    select session_id, label, kind, fingerprint, tests, work, tool, finished_at from tool_call
    where session_id in (select id from touched)
    order by session_id, at, id
"""
# what forks copied is theirs as well, though another session owns it
SHARED = """
    select shared_turn.session_id, label, kind, fingerprint, tests, work, tool, finished_at
    from shared_turn join tool_call on tool_call.turn_id = shared_turn.turn_id
    where shared_turn.session_id in (select id from touched)
    order by shared_turn.session_id, at, tool_call.id
"""
# of the first stretch with a user's message, that message is the task and no remark on it
FIRST = """
    select session_id, is_first_correction from session_words
    where session_id in (select id from touched) and user_messages > 0
    order by session_id, origin_id, part, position
"""
WRITE = "update session set task_type = ?, category = ?, score = ? where id = ?"


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> None:
    """Tell these sessions' kinds and scores anew."""
    touched = set(touched)
    weights = read_weights(database)
    rows = []
    for session_id, measures in read_measures(database, touched):
        score = score_measures(measures, weights=weights)
        rows.append((score.task_type, score.category, score.score, session_id))
    database.executemany(WRITE, rows)
    due.strike_out(database, touched)


def read_weights(database: sqlite3.Connection) -> Weights | None:
    """The weights fitted to this store's labelled sessions; None while those shipped hold."""
    row = database.execute("select value from meta where key = ?", (KEY,)).fetchone()
    return msgspec.json.decode(row[0], type=Weights) if row else None


def read_measures(
    database: sqlite3.Connection, touched: Iterable[int]
) -> list[tuple[int, Measures]]:
    """What is counted in these sessions; one in which nothing was said or done is left out."""
    database.execute("create temp table if not exists touched (id integer primary key)")
    database.execute("delete from touched")
    database.executemany("insert or ignore into touched values (?)", [(one,) for one in touched])
    calls = _group(database.execute(SHARED).fetchall())
    for session_id, own in _group(database.execute(CALLS).fetchall()).items():
        calls[session_id] = calls.get(session_id, []) + own
    first: dict[int, int] = {}
    for session_id, is_correction in database.execute(FIRST):
        first.setdefault(session_id, is_correction)
    measured = []
    for session_id, ending, answer, messages, corrections, *rest in database.execute(SESSIONS):
        made = calls.get(session_id, [])
        if messages or made:
            words = (messages, corrections - first.get(session_id, 0), *rest)
            is_ended = ending == "answer" or (ending == "prompt" and answer is not None)
            measured.append((session_id, _measure(made, words, is_ended=is_ended)))
    return measured


def _group(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    return {
        session_id: [row[1:] for row in own] for session_id, own in groupby(rows, itemgetter(0))
    }


def _measure(
    calls: Sequence[tuple[Any, ...]], words: tuple[int, ...], *, is_ended: bool
) -> Measures:
    messages, corrections, malformed, give_ups = words
    works = [read_work(work) for *_, work, _, _ in calls if work]
    failed = [label == "error" for label, *_ in calls if label not in (None, "unknown")]
    broken = {fingerprint for label, _, fingerprint, *_ in calls if label == "error"}
    kinds = Counter(kind for _, kind, *_ in calls)
    tests = [row[3] for row in calls if row[3] is not None]
    tools = {tool for *_, tool, _ in calls}
    unusable = kinds["tool_not_available"] + sum(UNREADABLE in marks for _, marks in works)
    is_handed_in = any(SUBMITTED in marks for _, marks in works[-2:])
    kind = judge_sides(Counter(sides for sides, _ in works))
    return Measures(
        total_messages=messages,
        tool_calls=len(calls),
        tool_results=sum(finished_at is not None for *_, finished_at in calls),
        judged_calls=len(failed),
        error_count=sum(failed),
        unique_tools=len(tools),
        task_type=kind.task_type,
        category=kind.category,
        features=make_features(
            messages=messages,
            calls=len(calls),
            failed=failed,
            broken=len(broken),
            malformed=malformed + unusable,
            corrections=corrections,
            give_ups=give_ups,
            time_outs=kinds["timeout"],
            last_tests_passed=tests[-1] == "passed" if tests else None,
            is_submitted=is_handed_in or is_ended,
            is_handed_over=any(matches_tool("handed_over", tool) for tool in tools),
        ),
    )
