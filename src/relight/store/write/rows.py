"""Rows of the index, written so that any order and any repetition give the same rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.judging.features import WordCounts
from relight.model import TOKENS, Cost, CostStatus, Session, TokenColumns, row_id
from relight.store.sql import Connection, greatest, insert, least, merge_rows, replacing, take_new
from relight.store.write.sealed import Sealed, TurnRow, name_tokens


class SessionRow(Struct, frozen=True):
    """A row of `session`, as far as its records give it."""

    id: int
    source: str
    key: str
    parent_id: int | None
    parent_kind: str | None
    forked_at: int | None
    root_id: int
    project: str | None
    branch: str | None
    title: str | None
    model: str | None
    version: str | None
    started_at: int | None
    ended_at: int | None
    ending: str | None
    prompted_at: int | None
    answer: str | None
    told_outcome: str | None
    script_error: str | None


class TotalRow(TokenColumns, frozen=True):
    """A row of `control_total`."""

    id: int
    session_id: int
    with_children: int
    at: int | None
    model: str | None
    provider: str | None
    role: str | None
    calls: int | None
    cost_nanos: int | None
    cost_status: CostStatus
    cost_source: str | None


class SessionWordsRow(WordCounts, frozen=True):
    """A row of `session_words`: counts with the stretch of records that they are from."""

    origin_id: int
    part: str
    position: int


class SharedTurnRow(Struct, frozen=True):
    """A row of `shared_turn`."""

    session_id: int
    turn_id: int


def _keep_first(table: str, *names: str) -> str:
    return ", ".join(f"{name} = coalesce({table}.{name}, excluded.{name})" for name in names)


def _choose_new(table: str, test: str, names: Iterable[str]) -> str:
    return ", ".join(
        f"{name} = case when {test} then excluded.{name} else {table}.{name} end" for name in names
    )


IS_LATER = "excluded.ended_at >= coalesce(session.ended_at, 0)"
MERGE_SESSION = f"""
    on conflict (id) do update set
        {_keep_first("session", "parent_id", "parent_kind", "project", "title", "told_outcome")},
        {_keep_first("session", "script_error")},
        model = coalesce(excluded.model, session.model),
        version = coalesce(excluded.version, session.version),
        {_choose_new("session", f"{IS_LATER} and excluded.ending is not null", ["ending"])},
        {_choose_new("session", f"{IS_LATER} and excluded.answer is not null", ["answer"])},
        {_choose_new("session", f"{IS_LATER} and excluded.branch is not null", ["branch"])},
        prompted_at = {greatest("session.prompted_at", "excluded.prompted_at")},
        started_at = {least("session.started_at", "excluded.started_at")},
        ended_at = {greatest("session.ended_at", "excluded.ended_at")},
        forked_at = {greatest("session.forked_at", "excluded.forked_at")}
"""


def _is_made_there(table: str) -> str:
    """True if the new row's session made what the old one copied, or has the smaller key.

    For calls and entries of skills without a turn: those of a turn follow it (`derive/forks`).
    """
    rank = "case when excluded.at < {0}.forked_at then 1 else 0 end, {0}.key"
    return (
        "exists (select 1 from session as made, session as known"
        f" where made.id = excluded.session_id and known.id = {table}.session_id"
        f" and ({rank.format('made')}) < ({rank.format('known')}))"
    )


# of two records of one turn, the one with more output has the figures, else that with more buckets
NULLS = " + ".join(f"case when {{0}}.{name} is null then 1 else 0 end" for name in TOKENS)
HAS_MORE_OUTPUT = (
    "(coalesce(excluded.output_tokens, -1) > coalesce(turn.output_tokens, -1)"
    " or (coalesce(excluded.output_tokens, -1) = coalesce(turn.output_tokens, -1)"
    f" and {NULLS.format('excluded')} < {NULLS.format('turn')}))"
)
FIGURES = (*TOKENS, "cost_nanos", "cost_source")
# of two records of one failure, the one with more words says what it was
HAS_MORE_WORDS = (
    "length(coalesce(excluded.failure_text, '')) > length(coalesce(turn.failure_text, ''))"
)
MERGE_TURN = f"""
        {_choose_new("turn", "excluded.at < turn.at", ["day"])},
        at = {least("turn.at", "excluded.at")},
        {_keep_first("turn", "branch", "model", "provider", "request")},
        duration_ms = {greatest("turn.duration_ms", "excluded.duration_ms")},
        first_token_ms = {least("turn.first_token_ms", "excluded.first_token_ms")},
        {_choose_new("turn", HAS_MORE_OUTPUT, FIGURES)},
        {_choose_new("turn", HAS_MORE_WORDS, ["failure", "failure_text"])},
        cost_status = case when 'included' in (turn.cost_status, excluded.cost_status)
            then 'included' when {HAS_MORE_OUTPUT} then excluded.cost_status
            else turn.cost_status end,
        {_choose_new("turn", "excluded.usage_status = 'final'", ["usage_status"])}
"""
VERDICT = ("label", "kind", "reason", "evidence", "tests")
KEPT_OF_CALL = ("turn_id", "result_bytes", "exit_code", "duration_ms", "finished_at")
MERGE_CALL = f"""
        {_choose_new("tool_call", _is_made_there("tool_call"), ["session_id"])},
        {_choose_new("tool_call", "tool_call.finished_at is null", VERDICT)},
        {_keep_first("tool_call", *KEPT_OF_CALL)}
"""
# A running total only grows: a copy that is read later may be an older one. One without tokens
# stands for calls whose sums are not known yet.
GROWING = ("at", "calls", *TOKENS, "cost_nanos", "cost_status", "cost_source")
MERGE_TOTAL = f"""
    on conflict (id) do update set {take_new(GROWING)},
        {_choose_new("control_total", "control_total.output_tokens is null", ["model"])}
    where control_total.output_tokens is null
        or excluded.output_tokens >= control_total.output_tokens
        and excluded.input_tokens >= control_total.input_tokens
"""
# a fork copies the entry of a skill along with the turns, and one of the sessions owns it
MERGE_SKILL_ENTRY = f"""
    on conflict (id) do update set
        {_choose_new("skill_entry", _is_made_there("skill_entry"), ["session_id"])},
        at = {least("skill_entry.at", "excluded.at")},
        {_keep_first("skill_entry", "skill_version", "turn_id")}
"""


def write_turns(database: Connection, turns: Sequence[TurnRow]) -> None:
    merge_rows(database, "turn", turns, rule=MERGE_TURN)


def write_pieces(database: Connection, pieces: Sequence[Sealed]) -> None:
    """Write everything of pieces that is neither a session nor a turn."""

    def gather(read: Callable[[Sealed], Iterable[Any]]) -> list[Any]:
        return [row for piece in pieces for row in read(piece)]

    ignored = "on conflict do nothing"
    merge_rows(database, "tool_call", gather(attrgetter("calls")), rule=MERGE_CALL)
    insert(database, "file_edit", gather(attrgetter("edits")), on_conflict=ignored)
    insert(database, "git_commit", gather(attrgetter("commits")), on_conflict=ignored)
    insert(database, "control_total", gather(_total_rows), on_conflict=MERGE_TOTAL)
    insert(database, "skill_entry", gather(attrgetter("skills")), on_conflict=MERGE_SKILL_ENTRY)
    insert(database, "compaction", gather(attrgetter("compactions")), on_conflict=ignored)
    replaces = replacing(SessionWordsRow, "session_id", "origin_id", "part", "position")
    insert(database, "session_words", gather(_word_rows), on_conflict=replaces)


def write_sessions(database: Connection, piece: Sealed) -> set[int]:
    """Write sessions and place each below its root; return those whose root changed."""
    rows, children = [], []
    for session_id, session in piece.sessions:
        if session.parent is not None:
            parent_id = row_id("session", piece.source, session.parent)
            if session.parent_kind == "subagent":
                children.append(session_id)
            elif _is_forgotten(database, parent_id):
                session = replace(session, parent=None, parent_kind=None)
            if session.parent is not None:
                # a parent that has not been read yet has a row all the same
                rows.append(_session_row(parent_id, piece.source, Session(key=session.parent)))
        rows.append(_session_row(session_id, piece.source, session))
    insert(database, "session", rows, on_conflict=MERGE_SESSION)
    return {moved for child in children for moved in _place_below_root(database, child)}


def _is_forgotten(database: Connection, session_id: int) -> bool:
    statement = "select 1 from forgotten where session_id = ?"
    return database.execute(statement, (session_id,)).fetchone() is not None


def _session_row(session_id: int, source: str, session: Session) -> SessionRow:
    parent = session.parent
    return SessionRow(
        id=session_id,
        source=source,
        key=session.key,
        parent_id=None if parent is None else row_id("session", source, parent),
        parent_kind=session.parent_kind,
        forked_at=session.forked_at,
        root_id=session_id,
        project=session.project,
        branch=session.branch,
        title=session.title,
        model=session.model,
        version=session.version,
        started_at=session.started_at,
        ended_at=session.ended_at,
        ending=session.ending,
        prompted_at=session.prompted_at,
        answer=session.answer,
        told_outcome=session.told_outcome,
        script_error=session.script_error,
    )


def _place_below_root(database: Connection, session_id: int) -> list[int]:
    """Place a sub-agent and all below it under its parent's root; return those that moved."""
    (root_id,) = database.execute(
        "select parent.root_id from session join session as parent"
        " on parent.id = session.parent_id where session.id = ?",
        (session_id,),
    ).fetchone()
    below = database.execute(
        "select id from session where (root_id = :id or id = :id) and root_id <> :root",
        {"id": session_id, "root": root_id},
    ).fetchall()
    database.executemany(
        "update session set root_id = ? where id = ?", [(root_id, found) for (found,) in below]
    )
    return [found for (found,) in below]


def _total_rows(piece: Sealed) -> Iterator[TotalRow]:
    for total_id, total in piece.totals:
        cost = total.cost or Cost(None, "unknown", None)
        yield TotalRow(
            id=total_id,
            session_id=row_id("session", piece.source, total.session),
            with_children=int(total.with_children),
            at=total.at,
            model=total.model,
            provider=total.provider,
            role=total.role,
            calls=total.calls,
            **name_tokens(total.usage),
            cost_nanos=cost.nanos,
            cost_status=cost.status,
            cost_source=cost.source,
        )


def _word_rows(piece: Sealed) -> Iterator[SessionWordsRow]:
    before = piece.before
    origin_id = row_id("origin", piece.source, before.path)
    for counts in piece.words:
        yield SessionWordsRow(
            **asdict(counts), origin_id=origin_id, part=before.part, position=before.offset
        )


def find_known(database: Connection, ids: set[int]) -> set[int]:
    """Return those of these sessions that are recorded already."""
    return {found for found, at in find_starts(database, ids).items() if at is not None}


def find_starts(database: Connection, ids: set[int]) -> dict[int, int | None]:
    """Return the start of each of these sessions that has a row; None if only others name it."""
    return dict(_select_in(database, "select id, started_at from session where id in", ids))


def find_roots(database: Connection, ids: set[int]) -> dict[int, int]:
    """Return the root of each of these sessions: sub-agents are part of it."""
    return dict(_select_in(database, "select id, root_id from session where id in", ids))


def find_shared_turns(database: Connection, turns: Sequence[TurnRow]) -> dict[int, set[int]]:
    """Return the turns that more than one session holds, here or in the store, with the holders."""
    holder: dict[int, int] = {}
    shared: dict[int, set[int]] = {}
    for turn in turns:
        if (other := holder.setdefault(turn.id, turn.session_id)) != turn.session_id:
            shared.setdefault(turn.id, {other}).add(turn.session_id)
    for turn_id, owner in _select_in(
        database, "select id, session_id from turn where id in", holder
    ):
        if owner != holder[turn_id]:
            shared.setdefault(turn_id, {holder[turn_id]}).add(owner)
    return shared


def write_shared(database: Connection, shared: dict[int, set[int]]) -> None:
    """Write which sessions hold a turn besides the one that owns it."""
    rows = [SharedTurnRow(one, turn) for turn, sessions in shared.items() for one in sessions]
    insert(database, "shared_turn", rows, on_conflict="on conflict do nothing")
    database.executemany(
        "delete from shared_turn where turn_id = :turn"
        " and session_id = (select session_id from turn where id = :turn)",
        [{"turn": turn} for turn in shared],
    )


def _select_in(
    database: Connection, statement: str, ids: Iterable[int]
) -> Iterator[tuple[Any, ...]]:
    remaining = iter(ids)
    while some := list(islice(remaining, 500)):
        yield from database.execute(f"{statement} ({','.join('?' * len(some))})", some).fetchall()
