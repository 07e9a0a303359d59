"""Rows of the index: how they are written so that any order and any repetition give the same."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from relight.ids import row_id
from relight.model import Cost, Session, Turn, Usage
from relight.store.write.seal import Sealed

IS_LATER = "excluded.ended_at >= coalesce(ended_at, 0)"
WRITE_SESSION = f"""
    insert into session (id, source, key, parent_id, parent_kind, root_id, project, title, model,
        version, started_at, ended_at, ending, prompted_at, answer, told_outcome, script_error)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do update set
        parent_id = coalesce(parent_id, excluded.parent_id),
        parent_kind = coalesce(parent_kind, excluded.parent_kind),
        project = coalesce(project, excluded.project),
        title = coalesce(title, excluded.title),
        model = coalesce(excluded.model, model),
        version = coalesce(excluded.version, version),
        ending = iif({IS_LATER}, coalesce(excluded.ending, ending), ending),
        answer = iif({IS_LATER}, coalesce(excluded.answer, answer), answer),
        prompted_at = max(coalesce(prompted_at, excluded.prompted_at),
                          coalesce(excluded.prompted_at, prompted_at)),
        told_outcome = coalesce(told_outcome, excluded.told_outcome),
        script_error = coalesce(script_error, excluded.script_error),
        started_at = min(coalesce(started_at, excluded.started_at),
                         coalesce(excluded.started_at, started_at)),
        ended_at = max(coalesce(ended_at, excluded.ended_at),
                       coalesce(excluded.ended_at, ended_at))
"""

# Of two sessions that hold the same turn or call, the one with the smaller id owns it, since no
# file says who was first.
IS_SMALLER = (
    "(select key from session where id = excluded.session_id)"
    " < (select key from session where id = session_id)"
)

# A turn told twice keeps the figures of its fullest witness.
IS_FULLER = "coalesce(excluded.output_tokens, -1) > coalesce(output_tokens, -1)"
FIGURES = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "cost_nanos",
    "cost_status",
    "cost_source",
    "output_tokens",
)
WRITE_TURN = f"""
    insert into turn (id, session_id, at, day, model, provider, role, calls, input_tokens,
        cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
        reasoning_tokens, usage_status, cost_nanos, cost_status, cost_source, duration_ms,
        first_token_ms, failure, failure_text)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do update set
        session_id = iif({IS_SMALLER}, excluded.session_id, session_id),
        day = iif(excluded.at < at, excluded.day, day),
        at = min(coalesce(at, excluded.at), coalesce(excluded.at, at)),
        {", ".join(f"{name} = iif({IS_FULLER}, excluded.{name}, {name})" for name in FIGURES)},
        usage_status = iif(excluded.usage_status = 'final', 'final', usage_status)
"""

WRITE_CALL = f"""
    insert into tool_call (id, session_id, turn_id, at, day, finished_at, tool, fingerprint,
        arguments_bytes, result_bytes, exit_code, duration_ms, label, kind, reason, evidence,
        tests, work, name)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do update set
        session_id = iif({IS_SMALLER}, excluded.session_id, session_id),
        turn_id = coalesce(turn_id, excluded.turn_id),
        result_bytes = coalesce(result_bytes, excluded.result_bytes),
        exit_code = coalesce(exit_code, excluded.exit_code),
        duration_ms = coalesce(duration_ms, excluded.duration_ms),
        label = iif(finished_at is null, excluded.label, label),
        kind = iif(finished_at is null, excluded.kind, kind),
        reason = iif(finished_at is null, excluded.reason, reason),
        evidence = iif(finished_at is null, excluded.evidence, evidence),
        tests = iif(finished_at is null, excluded.tests, tests),
        finished_at = coalesce(finished_at, excluded.finished_at)
"""

# A running total only grows; a copy of it read later may be an older one.
WRITE_TOTAL = """
    insert into control_total values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do update set
        at = excluded.at, calls = excluded.calls, input_tokens = excluded.input_tokens,
        cache_read_tokens = excluded.cache_read_tokens,
        cache_write_tokens = excluded.cache_write_tokens,
        cache_write_1h_tokens = excluded.cache_write_1h_tokens,
        output_tokens = excluded.output_tokens, reasoning_tokens = excluded.reasoning_tokens,
        cost_nanos = excluded.cost_nanos, cost_status = excluded.cost_status,
        cost_source = excluded.cost_source
    where excluded.output_tokens >= output_tokens and excluded.input_tokens >= input_tokens
"""

# A fork copies how a skill came in along with the turns: of the sessions that tell it, one has it.
WRITE_SKILL = f"""
    insert into skill_entry (id, session_id, skill_name, entry, at, skill_version, turn_id)
    values (?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do update set
        session_id = iif({IS_SMALLER}, excluded.session_id, session_id),
        at = min(coalesce(at, excluded.at), coalesce(excluded.at, at)),
        skill_version = coalesce(skill_version, excluded.skill_version),
        turn_id = coalesce(turn_id, excluded.turn_id)
"""
WRITE_WORDS = "insert or replace into session_words values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def turn_row(
    source: str, turn_id: int, day: str | None, turn: Turn, *, cost: Cost
) -> tuple[Any, ...]:
    return (
        turn_id,
        row_id("session", source, turn.session),
        turn.at,
        day,
        turn.model,
        turn.provider,
        turn.role,
        turn.calls,
        *_tokens(turn.usage),
        turn.usage_status,
        cost.nanos,
        cost.status,
        cost.source,
        turn.duration_ms,
        turn.first_token_ms,
        turn.failure,
        turn.failure_text,
    )


def write_sessions(database: sqlite3.Connection, piece: Sealed) -> set[int]:
    """Write sessions and put each below its root; gives those whose root changed."""
    rows, children = [], []
    for session_id, session in piece.sessions:
        parent_id = None
        if session.parent is not None:
            parent_id = row_id("session", piece.source, session.parent)
            # one that has not been read yet has a place all the same
            stub = Session(key=session.parent)
            rows.append(_session_row(parent_id, piece.source, stub, None))
            if session.parent_kind == "subagent":
                children.append(session_id)
        rows.append(_session_row(session_id, piece.source, session, parent_id))
    database.executemany(WRITE_SESSION, rows)
    return {moved for child in children for moved in _find_root(database, child)}


def _session_row(
    session_id: int, source: str, session: Session, parent_id: int | None
) -> tuple[Any, ...]:
    return (
        session_id,
        source,
        session.key,
        parent_id,
        session.parent_kind,
        session_id,
        session.project,
        session.title,
        session.model,
        session.version,
        session.started_at,
        session.ended_at,
        session.ending,
        session.prompted_at,
        session.answer,
        session.told_outcome,
        session.script_error,
    )


def _find_root(database: sqlite3.Connection, session_id: int) -> list[int]:
    """Put a sub-agent and all below it under its parent's root, whoever came first."""
    (root_id,) = database.execute(
        "select parent.root_id from session join session parent on parent.id = session.parent_id"
        " where session.id = ?",
        (session_id,),
    ).fetchone()
    below = database.execute(
        "select id from session where root_id = ? and root_id <> ? or id = ? and root_id <> ?",
        (session_id, root_id, session_id, root_id),
    ).fetchall()
    database.executemany(
        "update session set root_id = ? where id = ?", [(root_id, found) for (found,) in below]
    )
    return [found for (found,) in below]


def total_rows(piece: Sealed) -> Iterator[tuple[Any, ...]]:
    for total_id, total in piece.totals:
        cost = total.cost or Cost(None, "unknown", None)
        yield (
            total_id,
            row_id("session", piece.source, total.session),
            int(total.with_children),
            total.at,
            total.model,
            total.provider,
            total.role,
            total.calls,
            *_tokens(total.usage),
            cost.nanos,
            cost.status,
            cost.source,
        )


def _tokens(usage: Usage) -> tuple[int | None, ...]:
    """The tokens in the order of the columns."""
    return (
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.cache_write_1h,
        usage.output,
        usage.reasoning,
    )


def word_rows(piece: Sealed) -> Iterator[tuple[Any, ...]]:
    """What was said, by the stretch of records that tells it."""
    before = piece.before
    origin_id = row_id("origin", piece.source, before.path)
    for session_id, *counts in piece.words:
        yield (session_id, origin_id, before.part, before.offset, *counts)


def find_known(database: sqlite3.Connection, ids: set[int]) -> set[int]:
    statement = "select id from session where started_at is not null and id in"
    return {row[0] for row in _select_in(database, statement, ids)}


def find_shared(
    database: sqlite3.Connection, turns: Sequence[tuple[Any, ...]]
) -> dict[int, set[int]]:
    """Turns that more than one session holds, here or in the store, with their holders."""
    holder: dict[int, int] = {}
    shared: dict[int, set[int]] = {}
    for turn_id, session_id, *_ in turns:
        if (other := holder.setdefault(turn_id, session_id)) != session_id:
            shared.setdefault(turn_id, {other}).add(session_id)
    for turn_id, owner in _select_in(
        database, "select id, session_id from turn where id in", holder
    ):
        if owner != holder[turn_id]:
            shared.setdefault(turn_id, {holder[turn_id]}).add(owner)
    return shared


def write_shared(database: sqlite3.Connection, shared: dict[int, set[int]]) -> None:
    database.executemany(
        "insert or ignore into shared_turn values (?, ?)",
        [(session, turn) for turn, sessions in shared.items() for session in sessions],
    )
    database.executemany(
        "delete from shared_turn where turn_id = ?1"
        " and session_id = (select session_id from turn where id = ?1)",
        [(turn,) for turn in shared],
    )


def _select_in(
    database: sqlite3.Connection, statement: str, ids: Iterable[int]
) -> Iterator[tuple[Any, ...]]:
    remaining = iter(ids)
    while some := list(islice(remaining, 500)):
        yield from database.execute(f"{statement} ({','.join('?' * len(some))})", some).fetchall()
