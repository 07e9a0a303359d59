"""The second half of the door: price sealed rows and write them, with the mark, at once.

Whoever brings a record, in whatever order and however often, the same rows come out.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from relight.ids import row_id
from relight.model import Cost, Mark, Session, Total, Turn
from relight.store import Store, reconcile, rollup
from relight.store.pricing import Pricing
from relight.store.seal import Sealed

WRITE_SESSION = """
    insert into session (id, source, key, parent_id, parent_kind, root_id, project, title, model,
        version, started_at, ended_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do update set
        parent_id = coalesce(parent_id, excluded.parent_id),
        parent_kind = coalesce(parent_kind, excluded.parent_kind),
        project = coalesce(project, excluded.project),
        title = coalesce(title, excluded.title),
        model = coalesce(excluded.model, model),
        version = coalesce(excluded.version, version),
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
    insert into turn values
        (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, null)
    on conflict (id) do update set
        session_id = iif({IS_SMALLER}, excluded.session_id, session_id),
        day = iif(excluded.at < at, excluded.day, day),
        at = min(coalesce(at, excluded.at), coalesce(excluded.at, at)),
        {", ".join(f"{name} = iif({IS_FULLER}, excluded.{name}, {name})" for name in FIGURES)},
        usage_status = iif(excluded.usage_status = 'final', 'final', usage_status)
"""

WRITE_CALL = f"""
    insert into tool_call values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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


class Recorder:
    """Writes sealed rows into a store; one for the length of an import, so prices are kept."""

    def __init__(self, store: Store, pricing: Pricing | None = None) -> None:
        self.store = store
        self.pricing = pricing or Pricing(store)
        self._forgotten = {row[0] for row in store.query("select session_id from forgotten")}

    def record(self, pieces: Sequence[Sealed]) -> tuple[list[Sealed], set[int]]:
        """Write pieces in one transaction; gives those taken, and the sessions that are new.

        A piece whose mark has moved on since it was read was recorded by someone else: it is
        left out.
        """
        with self.store.transaction() as database:
            taken = _find_current(database, pieces)
            wanted = [piece for piece in taken if not self._is_forgotten(piece)]
            new = self.write(database, wanted)
            for piece in taken:
                _write_place(database, piece, with_tape=piece in wanted)
        return taken, new

    def write(self, database: sqlite3.Connection, pieces: Sequence[Sealed]) -> set[int]:
        """Write the rows of these pieces and all that follows from them."""
        touched = {found for piece in pieces for found, _ in piece.sessions}
        new = touched - _find_known(database, touched)
        for piece in pieces:
            touched |= _write_sessions(database, piece)
        turns = [self._turn_row(piece.source, *turn) for piece in pieces for turn in piece.turns]
        shared = _find_shared(database, turns)
        database.executemany(WRITE_TURN, turns)
        for piece in pieces:
            database.executemany(WRITE_CALL, piece.calls)
            database.executemany(WRITE_TOTAL, _total_rows(piece))
        _write_shared(database, shared)
        touched |= {session for sessions in shared.values() for session in sessions}
        touched |= reconcile.reconcile(database, touched, self.pricing)
        rollup.refresh(database, touched)
        self.pricing.keep_found(database)
        return new

    def _is_forgotten(self, piece: Sealed) -> bool:
        parents = (row_id("session", piece.source, one.parent or "") for _, one in piece.sessions)
        return bool(self._forgotten) and not self._forgotten.isdisjoint([piece.owner_id, *parents])

    def _turn_row(self, source: str, turn_id: int, day: str | None, turn: Turn) -> tuple[Any, ...]:
        cost = self.pricing.price(turn_id, turn)
        usage = turn.usage
        return (
            turn_id,
            row_id("session", source, turn.session),
            turn.at,
            day,
            turn.model,
            turn.provider,
            turn.role,
            turn.calls,
            usage.input,
            usage.cache_read,
            usage.cache_write,
            usage.cache_write_1h,
            usage.output,
            usage.reasoning,
            turn.usage_status,
            cost.nanos,
            cost.status,
            cost.source,
            turn.duration_ms,
            turn.first_token_ms,
            turn.failure,
            turn.failure_text,
        )


def read_marks(store: Store, source: str) -> dict[str, dict[str, Mark]]:
    """Every mark of a source, by path and part."""
    rows = store.query(
        "select path, part, size, modified_ns, inode, offset, generation, head, state"
        " from file_mark join origin on origin.id = origin_id where source = ?",
        (source,),
    )
    marks: dict[str, dict[str, Mark]] = {}
    for path, part, size, modified_ns, inode, offset, generation, head, state in rows:
        marks.setdefault(path, {})[part] = Mark(
            path=path,
            part=part,
            size=size,
            modified_ns=modified_ns,
            inode=inode,
            offset=offset,
            generation=generation,
            head=head,
            state=state,
        )
    return marks


def _find_current(database: sqlite3.Connection, pieces: Sequence[Sealed]) -> list[Sealed]:
    """The pieces that go on where the store's marks stand, or where the piece before them ends."""
    reached: dict[tuple[int, str], Mark | None] = {}
    current = []
    for piece in pieces:
        place = (row_id("origin", piece.source, piece.before.path), piece.before.part)
        if place not in reached:
            row = database.execute(
                "select offset, generation, head from file_mark where origin_id = ? and part = ?",
                place,
            ).fetchone()
            reached[place] = row and Mark(path="", offset=row[0], generation=row[1], head=row[2])
        if _goes_on(piece.before, reached[place]):
            current.append(piece)
            reached[place] = piece.after
    return current


def _goes_on(before: Mark, reached: Mark | None) -> bool:
    if reached is None:
        return before.generation == 0 and before.offset == 0
    if before.generation == reached.generation + 1 and before.offset == 0:
        return True  # the file was written anew since
    return (before.offset, before.generation, before.head) == (
        reached.offset,
        reached.generation,
        reached.head,
    )


def _write_place(database: sqlite3.Connection, piece: Sealed, *, with_tape: bool) -> None:
    """The tape, the lines that could not be read, and how far we have read."""
    origin_id = row_id("origin", piece.source, piece.after.path)
    after, before = piece.after, piece.before
    now = int(time.time() * 1000)
    database.execute(
        "insert or ignore into origin values (?, ?, ?)", (origin_id, piece.source, after.path)
    )
    if with_tape and piece.records and piece.owner_id is not None:
        database.execute(
            "insert or ignore into tape_part (session_id, origin_id, part, generation, offset,"
            " modified_ns, recorded_at, state, raw_bytes, records)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                piece.owner_id,
                origin_id,
                after.part,
                after.generation,
                before.offset,
                after.modified_ns,
                now,
                before.state,
                piece.raw_bytes,
                piece.records,
            ),
        )
    database.executemany(
        "insert or ignore into unreadable values (?, ?, ?, ?, ?)",
        [(origin_id, after.part, bad.offset, bad.reason, now) for bad in piece.unreadable],
    )
    database.execute(
        "insert or replace into file_mark values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            origin_id,
            after.part,
            after.size,
            after.modified_ns,
            after.inode,
            after.offset,
            after.generation,
            after.head,
            after.state,
        ),
    )


def _write_sessions(database: sqlite3.Connection, piece: Sealed) -> set[int]:
    """Write sessions and put each below its root; gives those whose root changed."""
    rows, children = [], []
    for session_id, session in piece.sessions:
        parent_id = None
        if session.parent is not None:
            parent_id = row_id("session", piece.source, session.parent)
            rows.append(_stub_row(parent_id, piece.source, session.parent))
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
    )


def _stub_row(session_id: int, source: str, key: str) -> tuple[Any, ...]:
    """A parent that has not been read yet, so that its children have a place."""
    return _session_row(session_id, source, Session(key=key), None)


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


def _total_rows(piece: Sealed) -> Iterator[tuple[Any, ...]]:
    for total_id, total in piece.totals:
        yield _total_row(total_id, row_id("session", piece.source, total.session), total)


def _total_row(total_id: int, session_id: int, total: Total) -> tuple[Any, ...]:
    usage, cost = total.usage, total.cost or Cost(None, "unknown", None)
    return (
        total_id,
        session_id,
        int(total.with_children),
        total.at,
        total.model,
        total.provider,
        total.role,
        total.calls,
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.cache_write_1h,
        usage.output,
        usage.reasoning,
        cost.nanos,
        cost.status,
        cost.source,
    )


def _find_known(database: sqlite3.Connection, ids: set[int]) -> set[int]:
    statement = "select id from session where started_at is not null and id in"
    return {row[0] for row in _select_in(database, statement, ids)}


def _find_shared(
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


def _write_shared(database: sqlite3.Connection, shared: dict[int, set[int]]) -> None:
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
