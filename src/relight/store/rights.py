"""The rights of people on a team's server, who read which tape, and all rows of one person.

A person always sees what their own machines pushed. `visibility` has the rules for the rest.
"""

import time
from collections.abc import Collection, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.store import Store
from relight.store.members import find_person
from relight.store.sql import insert, replacing
from relight.store.visibility import EVERYTHING, RULES, Viewer
from relight.store.write.tape import decompress
from relight.times import write_time

Role = Literal["reader", "lead"]
ROLES: tuple[Role, ...] = ("reader", "lead")
HOUR_MS = 3_600_000
# their rows are about a person, though no machine pushed them
ABOUT_PERSON = {
    "person": "select * from person where id = ?",
    "token": "select id, person_id, scopes, created_at, used_at, revoked_at from token"
    " where person_id = ?",
    "machine": "select * from machine where person_id = ?",
    "member": "select * from member where person_id = ?",
    "forgotten_by": "select * from forgotten_by where person_id = ?",
    "tape_read": "select * from tape_read where person_id = ?",
}
# of the server, or made from the rows that are exported
LEFT_OUT = {
    *ABOUT_PERSON,
    *("tape_part", "meta", "price", "model_alias", "search_words"),
    *("stale_day", "failure_day", "failure_session"),
}


class MemberRow(Struct, frozen=True):
    """A row of `member`."""

    person_id: int
    project: str
    role: Role
    granted_at: int


class ReadRow(Struct, frozen=True):
    """A row of `tape_read`."""

    person_id: int
    session_id: int
    hour: int
    read_at: int


class TapeRead(Struct, frozen=True):
    """A person who read a session's tape; the session is unknown after it was deleted."""

    person: str
    session: str | None
    read_at: str | None


class ExportedRow(Struct, frozen=True):
    """A row of a table, in a file of what the store has of a person."""

    table: str
    row: dict[str, object]


def allow_projects(
    store: Store, name: str, projects: Collection[str], *, role: Role = "reader"
) -> None:
    """Let a person see projects, by their folders or the last parts of these; `*` is everything."""
    empty = [one for one in projects if not one.strip("/ ")]
    if empty:
        raise RelightError(f"{empty[0]!r} is no project", "name a folder, or the last part of one")
    person, now = find_person(store, name), int(time.time() * 1000)
    rows = [MemberRow(person, one.rstrip("/"), role, now) for one in projects]
    with store.transaction() as database:
        insert(database, "member", rows, on_conflict=replacing(MemberRow, "person_id", "project"))


def deny_projects(store: Store, name: str, projects: Collection[str]) -> int:
    """Take projects from a person; return how many of them the person had."""
    person = find_person(store, name)
    with store.transaction() as database:
        return sum(
            database.execute(
                "delete from member where person_id = ? and project = ?", (person, one.rstrip("/"))
            ).rowcount
            for one in projects
        )


def may_label(store: Store, person_id: int, session_id: int) -> bool:
    """True if a person may label a session: their own, or one of a project that they lead."""
    rows = store.query(
        """
        select 1 from session left join machine on machine.id = machine_id
        where session.id = :session and (machine.person_id = :person or exists (
            select 1 from member where member.person_id = :person and role = 'lead'
            and (member.project in (session.project, :everything) or '/' || member.project
                = substr(session.project, length(session.project) - length(member.project)))))
        """,
        {"session": session_id, "person": person_id, "everything": EVERYTHING},
    )
    return bool(rows)


def note_reads(store: Store, person_id: int, sessions: Collection[int]) -> None:
    """Note that a person read tapes, once an hour for each."""
    now = int(time.time() * 1000)
    rows = [ReadRow(person_id, one, now // HOUR_MS, now) for one in sorted(sessions)]
    with store.transaction() as database:
        insert(database, "tape_read", rows, on_conflict="on conflict do nothing")


def list_reads(store: Store, name: str | None = None, *, limit: int = 100) -> list[TapeRead]:
    """Return who read which tape, the newest first; of one person, or of one who owns a tape."""
    person = None if name is None else find_person(store, name)
    return store.read(
        TapeRead,
        """
        select person.name as person, session.source || ':' || session.key as session, read_at
        from tape_read join person on person.id = tape_read.person_id
        left join session on session.id = session_id
        left join machine on machine.id = session.machine_id
        where cast(:person as bigint) is null or person.id = :person or machine.person_id = :person
        order by read_at desc, session_id limit :limit
        """,
        {"person": person, "limit": limit},
        formats={"read_at": write_time},
    )


def export_person(store: Store, name: str) -> Iterator[ExportedRow]:
    """Yield every row that the store has of a person: their account, and what they pushed.

    Tapes are given as the texts of their records. The full-text index, made from these, and the
    hashes of tokens are left out.
    """
    person = find_person(store, name)
    for table, statement in ABOUT_PERSON.items():
        yield from _read_rows(store, table, statement, person)
    with store.snapshot(Viewer(person, only_own=True)):
        for table in sorted(set(RULES) - LEFT_OUT):
            yield from _read_rows(store, table, f"select * from {table}")
        for part in store.list_values("select id from tape_part order by id"):
            for found in _read_rows(
                store, "tape_part", "select * from tape_part where id = ?", part
            ):
                yield ExportedRow("tape_part", found.row | {"records": _read_records(found.row)})


def _read_rows(store: Store, table: str, statement: str, *values: int) -> Iterator[ExportedRow]:
    with store.reading() as database:
        cursor = database.execute(statement, values)
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    for row in rows:
        yield ExportedRow(table, dict(zip(names, row, strict=True)))


def _read_records(row: dict[str, object]) -> object:
    """Return the records of a part as texts, or as the figures that they are."""
    records = row["records"]
    assert isinstance(records, bytes)
    raw = decompress(records)
    if row["is_figures"]:
        return msgspec.msgpack.decode(raw)
    return raw.decode(errors="replace").splitlines()
