"""Kinds and scores of sessions, counted again from their rows whenever those change.

Sealing writes what is counted: the work of each call and the counts of what was said. A score
reads the whole session, so a step of a live session does not wait for it: the session is queued in
`score_due` and scored when it ends, or by the next import if its program was killed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.judging.features import Measures, is_submission, make_features, matches_tool
from relight.judging.kinds import (
    Meaning,
    Sides,
    Understood,
    changes_nothing,
    is_commit,
    judge_sides,
    take_sides,
)
from relight.judging.scoring import Weights, score_measures
from relight.model import Session
from relight.store.sql import Connection, read, write_touched

if TYPE_CHECKING:
    from relight.store import Store
    from relight.store.write.sealed import CallRow, Sealed

# a session as one piece has it, with its measures
Measured = tuple[Session, Measures]
KEY = "score_weights"
WAIT_SECONDS = 0.5
NOTHING, FILES = "-", {"s": "source", "d": "document"}
SUBMITTED, UNREADABLE, HARMLESS = "submitted", "unreadable", "harmless"
COMMITTED = "committed"
SESSIONS = """
    select session.id, ending, answer, coalesce(sum(messages), 0) as messages,
        coalesce(sum(corrections), 0) as corrections, coalesce(sum(malformed), 0) as malformed,
        coalesce(sum(give_ups), 0) as give_ups
    from session left join session_words on session_words.session_id = session.id
    where session.id in (select id from touched)
    group by session.id, ending, answer
    order by session.id
"""
OF_CALL = "label, kind, fingerprint, tests, work, tool, finished_at"
CALLS = f"""
    select session_id, {OF_CALL} from tool_call
    where session_id in (select id from touched)
    order by session_id, at nulls first, id
"""
# calls that a fork copied count for it as well, though another session owns them
SHARED = f"""
    select shared_turn.session_id, {OF_CALL}
    from shared_turn join tool_call on tool_call.turn_id = shared_turn.turn_id
    where shared_turn.session_id in (select id from touched)
    order by shared_turn.session_id, at nulls first, tool_call.id
"""
# the first user message of a session is the task, and no correction
FIRST = """
    select session_id, is_first_correction from session_words
    where session_id in (select id from touched) and user_messages > 0
    order by session_id, origin_id, part, position
"""
# all that measures are made of has come from one piece: the rows are as many as it has
UNCHANGED = """
    select id, ending, answer,
        (select count(*) from tool_call where tool_call.session_id = session.id),
        (select count(*) from session_words where session_words.session_id = session.id)
    from session where id in (select id from touched)
        and not exists (select 1 from shared_turn where shared_turn.session_id = session.id)
"""
WRITE = "update session set task_type = ?, category = ?, score = ? where id = ?"


class ScoredCall(Struct, frozen=True):
    """A tool call, as far as it bears on the score of a session."""

    session_id: int
    label: str | None
    kind: str | None
    fingerprint: int
    tests: str | None
    work: str | None
    tool: str
    finished_at: int | None


class ScoredSession(Struct, frozen=True):
    """A session, as far as its words and its end bear on its score."""

    id: int
    ending: str | None
    answer: str | None
    messages: int
    corrections: int
    malformed: int
    give_ups: int

    @property
    def has_answered(self) -> bool:
        return self.ending == "answer" or (self.ending == "prompt" and self.answer is not None)


def write_work(tool: str, arguments: Any, known: Understood) -> str:
    """The kind of work of a call, in a few words that are counted later.

    >>> arguments = {"command": "pytest -q tests/test_app.py"}
    >>> write_work("Bash", arguments, Understood("run", "pytest", frozenset({"source"})))
    'code coding s'
    """
    work = _write_sides(known.meaning, bool(known.command), known.files)
    if is_submission(tool, known.command):
        work += f" {SUBMITTED}"
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        work += f" {UNREADABLE}"
    if changes_nothing(known):
        work += f" {HARMLESS}"
    if is_commit(known):
        work += f" {COMMITTED}"
    return work


@lru_cache(maxsize=1024)
def _write_sides(meaning: Meaning, is_command: bool, files: frozenset[str]) -> str:
    sides = take_sides(Understood(meaning, "…" if is_command else None, files))
    letters = "".join(sorted(kind[0] for kind in sides.files))
    return " ".join(part or NOTHING for part in (sides.task_type, sides.category, letters))


@lru_cache(maxsize=1024)
def read_work(work: str) -> tuple[Sides, frozenset[str]]:
    """Return the sides that `write_work` wrote, and its flags."""
    task_type, category, files, *flags = work.split(" ")
    return (
        Sides(
            None if task_type == NOTHING else task_type,
            None if category == NOTHING else category,
            frozenset(FILES[letter] for letter in files if letter in FILES),
        ),
        frozenset(flags),
    )


def measure_piece(piece: "Sealed") -> dict[int, Measures]:
    """Return the measures of the sessions of a piece, by its records alone."""
    calls: dict[int, list[CallRow]] = {}
    for call in sorted(piece.calls, key=lambda one: (one.at is not None, one.at or 0, one.id)):
        calls.setdefault(call.session_id, []).append(call)
    sessions, measured = dict(piece.sessions), {}
    for words in piece.words:
        found, made = sessions.get(words.session_id), calls.get(words.session_id, [])
        if found is not None and (words.messages or made):
            scored = ScoredSession(
                id=words.session_id,
                ending=found.ending,
                answer=found.answer,
                messages=words.messages,
                corrections=words.corrections,
                malformed=words.malformed,
                give_ups=words.give_ups,
            )
            first = words.is_first_correction if words.user_messages else 0
            measured[scored.id] = _measure(scored, made, words.corrections - first)
    return measured


def find_measured(pieces: Iterable["Sealed"], unread: Collection[int]) -> dict[int, Measured]:
    """Return the measures of sessions that have no record but those of one of these pieces.

    `unread` are those that had none before. `refresh` looks whether that is all of their records.
    """
    times = Counter(found for piece in pieces for found, _ in piece.sessions)
    return {
        found: (one, piece.measures[found])
        for piece in pieces
        for found, one in piece.sessions
        if found in piece.measures and found in unread and times[found] == 1
    }


def refresh(
    database: Connection, touched: Iterable[int], measured: Mapping[int, Measured] | None = None
) -> None:
    """Write the kinds and scores of these sessions; some may have been measured already."""
    touched = set(touched)
    weights = read_weights(database)
    known = _check_measured(database, measured) if measured else {}
    every = [*known.items(), *read_measures(database, touched - known.keys())]
    rows = []
    for session_id, measures in every:
        score = score_measures(measures, weights=weights)
        rows.append((score.task_type, score.category, score.score, session_id))
    database.executemany(WRITE, rows)
    if database.execute("select 1 from score_due limit 1").fetchone():
        database.executemany(
            "delete from score_due where session_id = ?", [(one,) for one in touched]
        )


def postpone(database: Connection, session_id: int) -> None:
    """Queue a live session to be scored later."""
    database.execute(
        "insert into score_due (session_id) values (?) on conflict do nothing", (session_id,)
    )


def has_labels(store: "Store") -> bool:
    """True if a person or a program reported the outcome of a session."""
    statement = (
        "select 1 from label union all"
        " select 1 from session where told_outcome in ('success', 'failure') limit 1"
    )
    return bool(store.query(statement))


def refresh_due(store: "Store") -> None:
    """Score the queued sessions, or leave them to the next caller while another process writes."""
    if not store.has_rows("score_due"):
        return
    try:
        with store.waiting(WAIT_SECONDS), store.transaction() as database:
            rows = database.execute("select session_id from score_due").fetchall()
            refresh(database, [found for (found,) in rows])
    except RelightError:
        return


def read_weights(database: Connection) -> Weights | None:
    """Return the weights fitted to this store's labelled sessions; None for those shipped."""
    row = database.execute("select value from meta where key = ?", (KEY,)).fetchone()
    return msgspec.json.decode(row[0], type=Weights) if row else None


def _check_measured(database: Connection, measured: Mapping[int, Measured]) -> dict[int, Measures]:
    """Return the measures that hold: the store has just the records that they were made of."""
    write_touched(database, measured)
    known = {}
    for session_id, ending, answer, calls, words in database.execute(UNCHANGED).fetchall():
        session, measures = measured[session_id]
        seen = (session.ending, session.answer, measures.tool_calls, 1)
        if seen == (ending, answer, calls, words):
            known[session_id] = measures
    return known


def read_measures(database: Connection, touched: Iterable[int]) -> list[tuple[int, Measures]]:
    """Return the measures of these sessions, without those in which nothing was said or done."""
    write_touched(database, touched)
    calls = _group(read(database, ScoredCall, SHARED))
    for session_id, own in _group(read(database, ScoredCall, CALLS)).items():
        calls[session_id] = calls.get(session_id, []) + own
    first: dict[int, int] = {}
    for session_id, is_correction in database.execute(FIRST):
        first.setdefault(session_id, is_correction)
    measured = []
    for session in read(database, ScoredSession, SESSIONS):
        made = calls.get(session.id, [])
        if session.messages or made:
            corrections = session.corrections - first.get(session.id, 0)
            measured.append((session.id, _measure(session, made, corrections)))
    return measured


def _group(calls: Sequence[ScoredCall]) -> dict[int, list[ScoredCall]]:
    return {found: list(own) for found, own in groupby(calls, attrgetter("session_id"))}


def _measure(
    session: ScoredSession, calls: "Sequence[ScoredCall] | Sequence[CallRow]", corrections: int
) -> Measures:
    works = [read_work(call.work) for call in calls if call.work]
    failed = [call.label == "error" for call in calls if call.label not in (None, "unknown")]
    broken = {call.fingerprint for call in calls if call.label == "error"}
    kinds = Counter(call.kind for call in calls)
    tests = [call.tests for call in calls if call.tests is not None]
    tools = {call.tool for call in calls}
    unusable = kinds["tool_not_available"] + sum(UNREADABLE in flags for _, flags in works)
    is_handed_in = any(SUBMITTED in flags for _, flags in works[-2:])
    kind = judge_sides(Counter(sides for sides, _ in works))
    return Measures(
        total_messages=session.messages,
        tool_calls=len(calls),
        tool_results=sum(call.finished_at is not None for call in calls),
        judged_calls=len(failed),
        error_count=sum(failed),
        tools=tuple(sorted(tools)),
        task_type=kind.task_type,
        category=kind.category,
        features=make_features(
            messages=session.messages,
            calls=len(calls),
            failed=failed,
            broken=len(broken),
            malformed=session.malformed + unusable,
            corrections=corrections,
            give_ups=session.give_ups,
            time_outs=kinds["timeout"],
            last_tests_passed=tests[-1] == "passed" if tests else None,
            is_submitted=is_handed_in or session.has_answered,
            is_handed_over=any(matches_tool("handed_over", tool) for tool in tools),
        ),
    )
