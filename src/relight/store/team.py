"""The server that this machine has joined, and what it has not acknowledged yet.

Triggers write each new part of the tape and each changed outcome to `push_due`, in the transaction
that records it. A row goes when the server has committed it. So a push can be killed anywhere.
"""

import secrets
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from relight.store import Store
from relight.store.sql import META, Connection, find_first, read, set_meta

TARGET, OWN_ID, OWN_NAME, MARKS = "team", "store_id", "machine_name", "push_marks"
PARTS = """
    select tape_part.id, session.source, session.key as session, origin.path, part, generation,
        position, modified_ns, recorded_at, raw_bytes, length(records) as bytes,
        coalesce(root.project, session.project) as project
    from push_due join tape_part on tape_part.id = push_due.id
    join origin on origin.id = tape_part.origin_id
    join session on session.id = tape_part.session_id
    left join session as root on root.id = session.root_id
    where kind = 'part' and push_due.id > ? order by push_due.id limit ?
"""
OUTCOMES = """
    select session.id, source, key as session, session.outcome, points_to, task_type, category,
        score, case when label.session_id is null then 0 else 1 end as is_label,
        project
    from push_due join session on session.id = push_due.id
    left join label on label.session_id = session.id
    where kind = 'session' order by session.id
"""


class TeamTarget(Struct, frozen=True, kw_only=True):
    """The server that this machine has joined, what it shares, and how the last push went.

    `store_id` is the server's: what was sent to one store is not in another. `machine` is the key
    that the server gave this machine.
    """

    url: str
    store_id: str
    machine: str
    name: str
    share: str
    only: list[str] = []
    never: list[str] = []
    token_file: str | None = None
    # words that the server's jobs may ask for
    labels: list[str] = []
    joined_at: int
    pushed_at: int | None = None
    # why the last push failed, and when the next one by itself may try
    trouble: str | None = None
    try_at: int | None = None
    # the parts that the server had not derived yet at the last push
    behind: int | None = None


class TreeName(Struct, frozen=True):
    """A session of a tree of sub-agents, as the machine names it."""

    source: str
    key: str


class DuePart(Struct, frozen=True):
    """A part of the tape that was not acknowledged yet."""

    id: int
    source: str
    session: str
    path: str
    part: str
    generation: int
    position: int
    modified_ns: int
    recorded_at: int
    raw_bytes: int
    bytes: int
    project: str | None


class DueOutcome(Struct, frozen=True):
    """A session whose outcome, kind or score was not acknowledged yet."""

    id: int
    source: str
    session: str
    outcome: str | None
    points_to: str | None
    task_type: str | None
    category: str | None
    score: float | None
    is_label: int
    project: str | None


def read_target(store: Store) -> TeamTarget | None:
    """Return the server that this machine has joined; None if it has joined none."""
    found = store.find_meta(TARGET)
    return msgspec.json.decode(found, type=TeamTarget) if found else None


def write_target(store: Store, target: TeamTarget, *, is_new: bool = False) -> None:
    """Write the target; a new one gets everything that is recorded here."""
    with store.transaction() as database:
        set_meta(database, TARGET, msgspec.json.encode(target).decode())
        if is_new:
            set_meta(database, OWN_NAME, target.name)
            _fill(database)


def _fill(database: Connection) -> None:
    """Note everything as not acknowledged."""
    database.execute("delete from push_due where kind <> 'forget'")
    for rows in (
        "select 'part', id from tape_part where machine_id is null",
        "select 'session', id from session where machine_id is null and outcome is not null",
        "select 'forget', session_id from forgotten where session_id is not null",
        "select 'run', id from run where machine_id is null"
        " and status not in ('claimed', 'running') and id not in (select run_id from remote_run)",
        "select 'use', id from skill_told where machine_id is null",
    ):
        database.execute(f"insert into push_due (kind, id) {rows} on conflict do nothing")


def read_push_marks(store: Store) -> dict[str, list[str]]:
    """Return the marks of the last pushes by the id of the server's store: the acknowledged one,
    and one that was sent and perhaps not stored.
    """
    found = store.find_meta(MARKS)
    return msgspec.json.decode(found, type=dict[str, list[str]]) if found else {}


def write_mark(store: Store, store_id: str, *marks: str) -> None:
    """Write the marks of the last push to a server."""
    found = {**read_push_marks(store), store_id: list(marks)}
    with store.transaction() as database:
        set_meta(database, MARKS, msgspec.json.encode(found).decode())


def renew_own_id(store: Store) -> None:
    """Give this store another id, and forget the marks of the one that it is a copy of."""
    with store.transaction() as database:
        set_meta(database, OWN_ID, secrets.token_hex(16))
        set_meta(database, MARKS, None)


def drop_marks(store: Store) -> None:
    """Forget the marks of the last pushes: the server gives this machine a new one."""
    store.write("delete from meta where key = ?", (MARKS,))


def drop_target(store: Store) -> None:
    """Forget the server; nothing is pushed any more."""
    with store.transaction() as database:
        set_meta(database, TARGET, None)
        database.execute("delete from push_due")


def read_own_id(store: Store) -> str:
    """Return this store's id, made on first use."""
    if (known := store.find_meta(OWN_ID)) is None:
        with store.transaction() as database:
            # another process may have been faster
            known = find_first(database, META, (OWN_ID,)) or secrets.token_hex(16)
            set_meta(database, OWN_ID, known)
    return known


def read_due_parts(store: Store, after: int, limit: int = 64) -> list[DuePart]:
    """Return the next parts of the tape to push, in the order of their ids."""
    return store.read(DuePart, PARTS, (after, limit))


def read_waiting(store: Store) -> set[int]:
    """Return the sessions, with their sub-agents, of which parts are to be pushed."""
    found = store.list_values(
        "select id from session where root_id in (select root_id from session"
        " join tape_part on tape_part.session_id = session.id"
        " join push_due on push_due.id = tape_part.id and push_due.kind = 'part')"
    )
    return set(found)


def count_without_tape(store: Store) -> int:
    """Return how many sessions cannot be pushed: their tapes were dropped."""
    statement = "select count(*) from session where is_frozen = 1 and root_id = id"
    return int(store.query(f"{statement} and machine_id is null")[0][0])


def read_due_outcomes(store: Store) -> list[DueOutcome]:
    """Return the sessions whose outcome is to be pushed."""
    return store.read(DueOutcome, OUTCOMES)


def read_due_forgets(store: Store) -> list[int]:
    """Return the ids, on the server, of forgotten sessions."""
    return store.list_values("select id from push_due where kind = 'forget' order by id")


def count_due(store: Store) -> int:
    """Return how many parts, outcomes, facts and forgotten sessions are not acknowledged yet."""
    return int(store.query("select count(*) from push_due")[0][0])


def set_pushed(
    store: Store,
    *,
    parts: list[tuple[int, int]],
    outcomes: list[DueOutcome],
    forgets: list[int],
) -> None:
    """Note what the server has committed: parts with their size as sent, so that one which grew
    meanwhile is sent again, and outcomes as sent.
    """
    with store.transaction() as database:
        database.executemany(
            "delete from push_due where kind = 'part' and id = ? and not exists"
            " (select 1 from tape_part where tape_part.id = push_due.id and raw_bytes <> ?)",
            parts,
        )
        current = {one.id: one for one in read(database, DueOutcome, OUTCOMES)}
        strike(database, "session", [one.id for one in outcomes if current.get(one.id) == one])
        strike(database, "forget", forgets)


def drop_due(store: Store, kind: str, ids: list[int]) -> None:
    """Leave out what the user does not share."""
    with store.transaction() as database:
        strike(database, kind, ids)


def strike(database: Connection, kind: str, ids: Iterable[int]) -> None:
    """Note that these need not be pushed any more."""
    statement = "delete from push_due where kind = ? and id = ?"
    database.executemany(statement, [(kind, one) for one in ids])


def note_forgotten(database: Connection, ids: Sequence[int]) -> None:
    """Note that sessions, by their ids on the server, are to be forgotten there."""
    statement = "insert into push_due (kind, id) values ('forget', ?) on conflict do nothing"
    database.executemany(statement, [(one,) for one in ids])


def read_tree(store: Store, session_id: int) -> list[TreeName]:
    """Return a session and its sub-agents."""
    statement = "select * from session where root_id = :id or id = :id"
    return store.read(TreeName, statement, {"id": session_id})
