"""Forks: the owner of each turn that several sessions hold, and the session a fork was made from.

The file of a fork begins with a copy of its parent's records. A turn belongs to the session that
made it. As long as that one has not been read, the oldest fork owns the turn. Owners and parents
are functions of the rows, so the order of reading does not matter.
"""

from collections.abc import Iterable

from msgspec import Struct

from relight.store.sql import Connection, differs, make_id_table, read, write_touched

LATEST = 2**63 - 1
# the turns that one of these sessions shares with another
HELD = """
    select turn_id from shared_turn where session_id in (select id from touched)
    union
    select id from turn where session_id in (select id from touched)
        and id in (select turn_id from shared_turn)
"""
CLAIMS = """
    select turn.id as turn_id, turn.at, turn.session_id as owner_id, turn.session_id as holder_id
    from turn where id in (select id from held)
    union all
    select turn.id, turn.at, turn.session_id, shared_turn.session_id
    from shared_turn join turn on turn.id = turn_id where turn_id in (select id from held)
"""
# The first turn that a session has alone. Clients that do not mark copies copy everything, and a
# fork is made to go on at once: of two sessions the one that went on first is the fork.
HOLDERS = """
    select session.id, key, parent_id, parent_kind, forked_at, started_at,
        (select turn.at from turn where turn.session_id = session.root_id and total_id is null
            and turn.at is not null
            and not exists (select 1 from shared_turn where turn_id = turn.id)
            order by turn.at limit 1) as went_on_at
    from session where session.id in (select id from touched)
"""
# the last turn that a session copied: its owner is the parent, if it made the turn
LAST_COPIED = """
    select turn.session_id as owner_id,
        case when turn.at < owner.forked_at then 1 else 0 end as is_copy
    from shared_turn join turn on turn.id = turn_id
    join session as owner on owner.id = turn.session_id
    where shared_turn.session_id = ? order by turn.at desc nulls last, turn.id limit 1
"""
WRITE_PARENT = f"""
    update session set parent_id = :parent, parent_kind = :kind
    where id = :id and ({differs("parent_id", ":parent")} or {differs("parent_kind", ":kind")})
"""
# calls and entries of skills belong to the session of their turn
FOLLOW = """
    update {table} set session_id = (select session_id from turn where turn.id = turn_id)
    where session_id in (select id from touched) and turn_id in (select id from held)
        and session_id <> (select session_id from turn where turn.id = turn_id)
"""


class Claim(Struct, frozen=True):
    """A session that holds a turn, beside the session that owns it now."""

    turn_id: int
    at: int | None
    owner_id: int
    holder_id: int


class SharingSession(Struct, frozen=True):
    """A session that shares turns with others."""

    id: int
    key: str
    parent_id: int | None
    parent_kind: str | None
    forked_at: int | None
    started_at: int | None
    went_on_at: int | None

    def rank(self, at: int | None) -> tuple[int, int, str]:
        """The rank of this session among those that hold a turn of this time; the first owns it."""
        if self.forked_at is not None and at is not None and at < self.forked_at:
            return 1, LATEST if self.started_at is None else self.started_at, self.key
        return 0, -LATEST if self.went_on_at is None else -self.went_on_at, self.key


class LastCopied(Struct, frozen=True):
    """The owner of the last turn that a session copied, and whether that one copied it as well."""

    owner_id: int
    is_copy: int


def settle(database: Connection, touched: Iterable[int]) -> set[int]:
    """Give the turns that these sessions share to their owners; return all sessions changed."""
    write_touched(database, touched)
    make_id_table(database, "held")
    database.execute("delete from held")
    database.execute(f"insert into held (id) {HELD}")
    claims = read(database, Claim, CLAIMS)
    write_touched(database, {one.holder_id for one in claims})
    holders = {one.id: one for one in read(database, SharingSession, HOLDERS)}
    moved = _move_turns(database, claims, holders)
    for table in ("tool_call", "skill_entry"):
        database.execute(FOLLOW.format(table=table))
    return moved | {one.id for one in holders.values() if _write_parent(database, one)}


def _move_turns(
    database: Connection, claims: Iterable[Claim], holders: dict[int, SharingSession]
) -> set[int]:
    """Give each turn to the holder with the first rank; return the old and the new owners."""
    best: dict[int, Claim] = {}
    for claim in claims:
        known = best.setdefault(claim.turn_id, claim)
        if holders[claim.holder_id].rank(claim.at) < holders[known.holder_id].rank(claim.at):
            best[claim.turn_id] = claim
    moves = [one for one in best.values() if one.holder_id != one.owner_id]
    database.executemany(
        "update turn set session_id = ? where id = ?",
        [(one.holder_id, one.turn_id) for one in moves],
    )
    database.executemany(
        "update shared_turn set session_id = ? where turn_id = ? and session_id = ?",
        [(one.owner_id, one.turn_id, one.holder_id) for one in moves],
    )
    return {session for one in moves for session in (one.owner_id, one.holder_id)}


def _write_parent(database: Connection, fork: SharingSession) -> bool:
    """Write the parent of a fork; True if it changed. Sub-agents and others have their own."""
    if fork.parent_kind not in (None, "fork"):
        return False
    found = read(database, LastCopied, LAST_COPIED, (fork.id,))
    if not found and fork.forked_at is None:
        return False
    parent_id = found[0].owner_id if found and not found[0].is_copy else None
    values = {"parent": parent_id, "kind": "fork", "id": fork.id}
    return database.execute(WRITE_PARENT, values).rowcount > 0
