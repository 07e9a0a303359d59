"""The people and machines that push here, and the tokens by which they do.

A token is shown once. Only its hash is stored: a token is long and random, so a plain hash will do.
"""

import hmac
import re
import secrets
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.errors import MissingError, RelightError
from relight.model import row_id
from relight.store import Store
from relight.store.sql import Connection, find_among, find_first, insert, list_values, read
from relight.store.visibility import EVERYTHING
from relight.times import write_time

Scope = Literal["push", "read", "label", "claim", "admin"]
SCOPES: tuple[Scope, ...] = ("push", "read", "label", "claim", "admin")
NAME = re.compile(r"\w[\w.@+-]{0,62}")
# what may stand behind the `@` in keys of the server's own runs: the time of a slot
OWN_ENDING = re.compile(r"\d{8}T\d{6}Z(\.\w+)?|team")
NUMBER = re.compile(r"\d{1,18}", re.ASCII)
PREFIX = "relight_"
COOKIE_MARK = "."
# a token's last use is noted this often
USED_MS = 60_000
MACHINE = "select * from machine"


class CopiedHomeError(RelightError):
    """Two homes have the same id: one is a copy of the other."""


class Member(Struct, frozen=True):
    """A person, by a token that is not revoked, and what the token allows."""

    person_id: int
    person: str
    token_id: int
    scopes: str
    used_at: int | None
    # 1 if every project may be seen
    has_all: int = 0

    def may(self, scope: Scope) -> bool:
        """True if the token allows this; one for admin allows everything."""
        return not {scope, "admin"}.isdisjoint(self.scopes.split())

    @property
    def sees_all(self) -> bool:
        """True if the person sees the sessions of all projects."""
        return bool(self.has_all) or self.may("admin")


class Machine(Struct, frozen=True):
    """A machine that pushes here."""

    id: int
    key: str
    name: str
    person_id: int
    share: str
    copied_from: int | None = None
    push_mark: str | None = None


class MachineRow(Machine, frozen=True, kw_only=True):
    """A row of `machine`."""

    joined_at: int


class TokenLine(Struct, frozen=True):
    """A token in the list of members; the token itself is not known here."""

    token_id: int
    person: str
    scopes: str
    created_at: str | None
    used_at: str | None
    revoked_at: str | None


class MachineLine(Struct, frozen=True):
    """A machine in the list of members, with the sessions that it pushed."""

    machine: str
    person: str
    share: str
    joined_at: str | None
    pushed_at: str | None
    sessions: int


class ProjectLine(Struct, frozen=True):
    """A project in the list of members, `*` for all, and the person's role there."""

    project: str
    person: str
    role: str


class MemberLine(Struct, frozen=True):
    """A person with tokens, machines and projects."""

    person: str
    tokens: list[TokenLine]
    machines: list[MachineLine]
    projects: list[ProjectLine]


def add_person(store: Store, name: str) -> None:
    """Add a person; raise if there is one of that name."""
    if not NAME.fullmatch(name):
        raise RelightError(
            f"{name!r} is not a name", "use letters, digits, and . _ @ + - after the first"
        )
    with store.transaction() as database:
        statement = "insert into person (name, created_at) values (?, ?) on conflict do nothing"
        made = database.execute(statement, (name, _now()))
        if not made.rowcount:
            raise RelightError(
                f"there is already a member {name}", f"another token: relight member token {name}"
            )


def make_token(store: Store, name: str, scopes: Sequence[str] = ("push", "read")) -> str:
    """Return a new token of a person, which is stored nowhere."""
    token = PREFIX + secrets.token_urlsafe(32)
    with store.transaction() as database:
        database.execute(
            "insert into token (person_id, digest, scopes, created_at) values (?, ?, ?, ?)",
            (_find_person(database, name), _digest(token), " ".join(scopes), _now()),
        )
    return token


def revoke_tokens(store: Store, name: str, token_id: int | None = None) -> int:
    """Revoke a person's tokens, or one of them; return how many were valid until now."""
    test = "" if token_id is None else "and id = :token"
    with store.transaction() as database:
        person = _find_person(database, name)
        done = database.execute(
            "update token set revoked_at = :now where person_id = :person"
            f" and revoked_at is null {test}",
            {"now": _now(), "person": person, "token": token_id},
        )
    return done.rowcount


def find_member(store: Store, token: str) -> Member | None:
    """Return whom a token, or the cookie of one, belongs to; None if it is unknown or revoked."""
    number, _, proof = token.partition(COOKIE_MARK)
    if proof and NUMBER.fullmatch(number):
        valid = "select digest from token where id = ? and revoked_at is null"
        digest = store.find_first(valid, (int(number),))
        if digest is None or not hmac.compare_digest(_prove(digest), proof):
            return None
    else:
        digest = _digest(token)
    return store.find(
        Member,
        "select person.id as person_id, person.name as person, token.id as token_id, scopes,"
        " used_at, case when exists (select 1 from member where member.person_id = person.id"
        " and project = ?) then 1 else 0 end as has_all"
        " from token join person on person.id = person_id"
        " where digest = ? and revoked_at is null",
        (EVERYTHING, digest),
    )


def make_cookie(member: Member, token: str) -> str:
    """Return a proof of a token for a browser, which is not the token."""
    return f"{member.token_id}{COOKIE_MARK}{_prove(_digest(token))}"


def _prove(digest: str) -> str:
    return hmac.new(digest.encode(), b"relight cookie", "sha256").hexdigest()


def note_use(database: Connection, member: Member) -> None:
    """Note that a token was used, at most once a minute."""
    if (member.used_at or 0) < _now() - USED_MS:
        database.execute("update token set used_at = ? where id = ?", (_now(), member.token_id))


def list_members(store: Store) -> list[MemberLine]:
    """Return all people with their tokens, machines and projects, by name."""
    times = dict.fromkeys(("created_at", "used_at", "revoked_at"), write_time)
    tokens = store.read(
        TokenLine,
        "select token.id as token_id, person.name as person, scopes, token.created_at, used_at,"
        " revoked_at from token join person on person.id = person_id order by token.id",
        formats=times,
    )
    machines = store.read(
        MachineLine,
        "select machine.name as machine, person.name as person, share, joined_at, pushed_at,"
        " (select count(*) from session where session.machine_id = machine.id"
        " and session.root_id = session.id) as sessions"
        " from machine join person on person.id = person_id order by machine.name, machine.id",
        formats={"joined_at": write_time, "pushed_at": write_time},
    )
    projects = store.read(
        ProjectLine,
        "select project, person.name as person, role from member"
        " join person on person.id = person_id order by project",
    )
    return [
        MemberLine(
            name,
            [one for one in tokens if one.person == name],
            [one for one in machines if one.person == name],
            [one for one in projects if one.person == name],
        )
        for name in store.list_values("select name from person order by name")
    ]


def find_machine(store: Store, store_id: str, person_id: int) -> Machine | None:
    """Return a person's machine by its own store id."""
    values = (row_id("machine", store_id), person_id)
    return store.find(Machine, f"{MACHINE} where id = ? and person_id = ?", values)


def find_called(store: Store, name: str) -> list[str]:
    """Return the keys of the machines that have this name or this key."""
    rows = store.query(
        "select key from machine where name = ? or key = ? order by id", (name, name)
    )
    return [key for (key,) in rows]


def join_machine(
    database: Connection,
    store_id: str,
    name: str,
    *,
    person_id: int,
    share: str,
    marks: Sequence[str] = (),
    copied_from: str | None = None,
) -> tuple[Machine, str | None]:
    """Add a machine, or change its name and share; return it, and what it shared before.

    Its key is its name, or longer if another machine has that already: two containers of one name
    stay two. It has no `@`, before which the ids of machines stand. `marks` are those that the
    machine knows of its pushes to this store. One that knows none may be a restored backup, and
    gets a new mark.
    """
    machine_id = row_id("machine", store_id)
    known = read(database, Machine, f"{MACHINE} where id = ?", (machine_id,))
    if known and known[0].person_id != person_id:
        raise RelightError(
            "this machine has joined as another person",
            "`relight leave` there, or use a token of that person",
        )
    if known:
        check_marks(known[0], marks)
        mark = (known[0].push_mark if marks else None) or make_mark()
        statement = "update machine set name = ?, share = ?, push_mark = ? where id = ?"
        database.execute(statement, (name, share, mark, machine_id))
        return replace(known[0], name=name, share=share, push_mark=mark), known[0].share
    key = name.replace("@", "-")
    if find_first(database, "select 1 from machine where key = ?", (key,)) or OWN_ENDING.fullmatch(
        key
    ):
        key = f"{key}-{store_id[:8]}"
    twin = copied_from and read(
        database,
        Machine,
        f"{MACHINE} where id = ? and person_id = ?",
        (row_id("machine", copied_from), person_id),
    )
    first = (twin[0].copied_from or twin[0].id) if twin else None
    machine = Machine(machine_id, key, name, person_id, share, first, make_mark())
    insert(database, "machine", [MachineRow(**asdict(machine), joined_at=_now())])
    return machine, None


def check_marks(machine: Machine, marks: Sequence[str]) -> None:
    """Raise if a machine knows marks of its pushes, and none of them is of the last one."""
    if marks and machine.push_mark is not None and machine.push_mark not in marks:
        raise CopiedHomeError(
            f"another home with the same id has pushed as {machine.key} since then",
            "one of the two is a copy",
        )


def move_mark(database: Connection, machine: Machine, *, before: str, mark: str) -> None:
    """Note the mark of a push; raise if the last one was another home's."""
    if not mark:
        return  # of a client that knows no marks
    (found,) = read(database, Machine, f"{MACHINE} where id = ?", (machine.id,))
    check_marks(found, [before, mark])
    database.execute("update machine set push_mark = ? where id = ?", (mark, machine.id))


def make_mark() -> str:
    return secrets.token_hex(16)


def find_labels(database: Connection, machine: Machine) -> list[str]:
    """Return the words by which jobs may ask for a machine."""
    labels = find_first(database, "select labels from machine where id = ?", (machine.id,))
    return (labels or "").split()


def set_labels(database: Connection, machine: Machine, labels: Sequence[str]) -> None:
    """Write the words by which jobs may ask for a machine."""
    database.execute("update machine set labels = ? where id = ?", (" ".join(labels), machine.id))


def find_twins(database: Connection, machine: Machine) -> list[str]:
    """Return the keys of machines whose homes are copies of the same one."""
    return list_values(
        database,
        "select key from machine where coalesce(copied_from, id) = ? and id <> ? order by id",
        (machine.copied_from or machine.id, machine.id),
    )


def note_push(database: Connection, machine_id: int) -> None:
    """Note that a machine has pushed."""
    database.execute("update machine set pushed_at = ? where id = ?", (_now(), machine_id))


def find_forgotten(database: Connection, ids: Sequence[int], person_id: int) -> set[int]:
    """Return those of these sessions that were forgotten here, by everybody or by this person."""
    by_all = "select session_id from forgotten where session_id in ({marks})"
    by_one = "select session_id from forgotten_by where session_id in ({marks}) and person_id = ?"
    return find_among(database, by_all, ids) | find_among(database, by_one, ids, person_id)


def find_person(store: Store, name: str) -> int:
    """Return the id of a person; raise if there is none of that name."""
    with store.reading() as database:
        return _find_person(database, name)


def _find_person(database: Connection, name: str) -> int:
    found: int | None = find_first(database, "select id from person where name = ?", (name,))
    if found is None:
        raise MissingError(f"there is no member {name!r}", "`relight member list` shows them")
    return found


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _now() -> int:
    return int(time.time() * 1000)
