"""Deletion of what machines pushed: all of one machine's, or a session that a person forgot."""

import time
from collections.abc import Sequence

from relight.store import Store
from relight.store.keep.retention import clean_file, delete_index, forget
from relight.store.members import find_person
from relight.store.search_index import DeriveTexts
from relight.store.sql import Connection, divide, find_among, list_values
from relight.store.team_facts import remove_pushed_facts
from relight.store.write.pushed import remove_parts

# Also of parts that wait to be derived. Without a machine it is this server's own, unless machines
# pushed sub-agents of it.
SENDERS = """
    select machine_id, person_id from (
        select machine_id from machine_session where session_id = :session
        union select machine_id from tape_part where session_id = :session
        union select machine_id from session where id = :session and (machine_id is not null
            or not exists (select 1 from machine_session where session_id = :session))
    ) as found left join machine on machine.id = machine_id
"""

# the paths of a machine's files of which no tape is left, also of tapes that were pruned before
FORGET_FILES = """
    delete from origin where exists (
        select 1 from machine where machine.id = :machine
        and substr(origin.path, 1, length(machine.key) + 1) = machine.key || ':'
    )
    and not exists (select 1 from tape_part where origin_id = origin.id)
    and not exists (select 1 from file_mark where origin_id = origin.id)
"""


def remove_machine(store: Store, machine_id: int, derive: DeriveTexts) -> int:
    """Delete everything that a machine pushed; return the number of sessions that are gone.

    A session that another machine pushed too, or that was recorded here, stays as that one's, and
    is derived again from what is left of its tape.
    """
    store.keep_up("overwrite")
    with store.transaction() as database:
        # also of sessions whose parts wait to be derived
        tables = ("machine_session", "tape_part", "told_outcome")
        places = (f"select session_id from {one} where machine_id = ?" for one in tables)
        sessions = list_values(database, " union ".join(places), [machine_id] * len(tables))
        gone = _remove_copies(store, database, [machine_id], sessions, derive)
        database.execute(FORGET_FILES, {"machine": machine_id})
        remove_pushed_facts(database, machine_id)
    clean_file(store)
    return gone


def remove_person(store: Store, name: str, derive: DeriveTexts) -> int:
    """Delete a person with tokens and machines, and all that these pushed; return the number of
    sessions that are gone.
    """
    person_id = find_person(store, name)
    gone = 0
    for machine_id in store.list_values("select id from machine where person_id = ?", (person_id,)):
        gone += remove_machine(store, machine_id, derive)
    with store.transaction() as database:
        for table in ("forgotten_by", "token", "machine", "member", "tape_read"):
            database.execute(f"delete from {table} where person_id = ?", (person_id,))
        database.execute("delete from person where id = ?", (person_id,))
    clean_file(store)
    return gone


def forget_pushed(store: Store, session_id: int, person_id: int, derive: DeriveTexts) -> bool:
    """Forget a session for a person; False if none of their machines pushed it.

    It is refused from then on. If another person pushed it too, or the server has it itself, only
    this person's copies go, and only what this person's machines push of it is refused.
    """
    store.keep_up("overwrite")
    senders = store.query(SENDERS, {"session": session_id})
    own = [machine for machine, person in senders if person == person_id]
    if not senders or len(own) < len(senders):
        with store.transaction() as database:
            database.execute(
                "insert into forgotten_by (session_id, person_id) values (?, ?)"
                " on conflict do nothing",
                (session_id, person_id),
            )
            if own:
                _remove_copies(store, database, own, [session_id], derive)
        if own:
            clean_file(store)
        return bool(own)
    if store.query("select 1 from session where id = ?", (session_id,)):
        forget(store, session_id, derive)
    with store.transaction() as database:
        # also one whose parts wait to be derived
        parts = list_values(database, "select id from tape_part where session_id = ?", [session_id])
        remove_parts(database, parts, derive)
        statement = "insert into forgotten (session_id) values (?) on conflict do nothing"
        database.execute(statement, (session_id,))
        for table in ("machine_session", "told_outcome"):
            database.execute(f"delete from {table} where session_id = ?", (session_id,))
    return True


def _remove_copies(
    store: Store,
    database: Connection,
    machines: Sequence[int],
    sessions: Sequence[int],
    derive: DeriveTexts,
) -> int:
    """Delete what these machines pushed of sessions; derive the rest of them again."""
    for machine_id in machines:
        for some, marks in divide(sessions):
            statement = f"select id from tape_part where machine_id = ? and session_id in ({marks})"
            parts = list_values(database, statement, [machine_id, *some])
            _remove_with_origins(database, parts, derive)
            for table in ("machine_session", "told_outcome"):
                statement = f"delete from {table} where machine_id = ? and session_id in ({marks})"
                database.execute(statement, [machine_id, *some])
    known = find_among(database, "select id from session where id in ({marks})", sessions)
    left = "select session_id from tape_part where session_id in ({marks})"
    sent = "select session_id from machine_session where session_id in ({marks})"
    kept = find_among(database, left, sessions) | find_among(database, sent, sessions)
    labels = [row for one in kept for row in _read_labels(database, one)]
    delete_index(store, database, known)
    statement = "insert into label (session_id, outcome, why, labelled_at) values (?, ?, ?, ?)"
    database.executemany(statement, labels)
    for some, marks in divide(kept):
        # a sub-agent may be on its parent's tape
        database.execute(
            "insert into derive_due (tape_part_id, received_at)"
            f" select id, ? from tape_part where session_id in ({marks}) on conflict do nothing",
            [int(time.time() * 1000), *some],
        )
    return len(known - kept)


def _remove_with_origins(database: Connection, parts: list[int], derive: DeriveTexts) -> None:
    """Delete parts of the tape, and the paths of files of which no part is left."""
    statement = "select distinct origin_id from tape_part where id in ({marks})"
    origins = find_among(database, statement, parts)
    remove_parts(database, parts, derive)
    database.executemany(
        "delete from origin where id = ?"
        " and not exists (select 1 from tape_part where origin_id = origin.id)"
        " and not exists (select 1 from file_mark where origin_id = origin.id)",
        [(one,) for one in origins],
    )


def _read_labels(database: Connection, session_id: int) -> list[tuple[object, ...]]:
    return database.execute(
        "select session_id, outcome, why, labelled_at from label where session_id = ?",
        (session_id,),
    ).fetchall()
