"""The machine that each pushed session belongs to, and the outcome that its machine reported.

A session that two machines pushed has the same rows from both, and belongs to the one that recorded
it first. If that one leaves, it is the other's. Of two people it belongs to the one whose machine
pushed it first: a time that a machine sends gives nobody the session of another person.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from relight.model import row_id
from relight.store.sql import (
    Connection,
    differs,
    divide,
    flag,
    insert,
    least,
    replacing,
    same,
    write_touched,
)
from relight.store.write.sealed import Sealed

IS_HERE = """exists (select 1 from tape_part
    where tape_part.session_id = session.id and tape_part.machine_id is null)"""
FIRST = f"""case when {IS_HERE} then null else (
    select machine.id from machine_session join machine
        on machine.id = machine_session.machine_id
    where machine_session.session_id = session.id
    order by first_at, joined_at, machine.id limit 1
) end"""
# of a session that waits to be derived
SENDER = """(
    select tape_part.machine_id from tape_part where tape_part.session_id = named.id
    order by case when tape_part.machine_id is null then 0 else 1 end, tape_part.id limit 1
)"""
OWN = f"""
    update session set machine_id = {FIRST}
    where id in (select id from touched) and {differs("machine_id", FIRST)}
"""
# A machine may have sent a run or a use of a skill for a session that another person pushed later.
# That of a session whose owner is not known stays: it may be its own.
IS_FOREIGN = f"""exists (
    select 1 from session join machine as sender on {{is_sender}}
    left join machine as owner on owner.id = session.machine_id
    where {{is_session}} and (session.machine_id is not null or {IS_HERE})
        and {differs("owner.person_id", "sender.person_id")}
)"""
IS_RUNS_SENDER = """(sender.id = run.machine_id
    or substr(run.holder, 1, length(sender.key) + 2) = '@' || sender.key || '/')"""
OF_RUN = IS_FOREIGN.format(is_sender=IS_RUNS_SENDER, is_session="session.id = run.session_id")
OF_ATTEMPT = IS_FOREIGN.format(
    is_sender=IS_RUNS_SENDER, is_session="session.id = run_attempt.session_id"
)
OF_USE = IS_FOREIGN.format(
    is_sender="sender.id = skill_told.machine_id",
    is_session="source || ':' || session.key = skill_told.session_id"
    " and session.id in (select id from touched)",
)
TAKE_BACK = (
    f"update run set session_id = null where session_id in (select id from touched) and {OF_RUN}",
    "delete from run_attempt where session_id in (select id from touched) and exists"
    f" (select 1 from run where run.id = run_attempt.run_id and {OF_ATTEMPT})",
    "delete from skill_told where machine_id is not null and session_id in"
    " (select source || ':' || key from session where id in (select id from touched))"
    f" and {OF_USE}",
)
# words of another machine's copy would count twice
DROP_COPIES = f"""
    delete from session_words where session_id in (select id from touched)
    and exists (
        select 1 from tape_part join session on session.id = session_words.session_id
        where tape_part.origin_id = session_words.origin_id and tape_part.machine_id is not null
            and not {same("tape_part.machine_id", "session.machine_id")}
    )
"""
# Words are the better evidence: what a machine reported counts for a session without any here, and
# a label everywhere. A label that was made here counts most. Only machines of the person whose
# session it is are heard.
REPORTED = """
    select {column} from told_outcome join machine on machine.id = told_outcome.machine_id
    where told_outcome.session_id = session.id and machine.person_id =
        (select owner.person_id from machine as owner where owner.id = session.machine_id)
    order by is_label desc, told_at desc, told_outcome.machine_id limit 1
"""
COLUMNS = ("outcome", "points_to", "task_type", "category", "score")
APPLY = f"""
    update session set {", ".join(f"{one} = ({REPORTED.format(column=one)})" for one in COLUMNS)},
        outcome_evidence = :evidence
    where id in (select id from touched)
        and exists ({REPORTED.format(column="1")})
        and not exists (select 1 from label where session_id = session.id)
        and (1 = ({REPORTED.format(column="is_label")}) or not exists (
            select 1 from tape_part where session_id = session.id and is_figures = 0))
"""
EVIDENCE = '["as its own machine reports it"]'


class MachineSessionRow(Struct, frozen=True):
    """A row of `machine_session`."""

    session_id: int
    machine_id: int
    first_at: int


class ToldOutcomeRow(Struct, frozen=True):
    """A row of `told_outcome`."""

    session_id: int
    machine_id: int
    outcome: str | None
    points_to: str | None
    task_type: str | None
    category: str | None
    score: float | None
    is_label: int
    told_at: int


MERGE = f"""
    on conflict (session_id, machine_id) do update
    set first_at = {least("machine_session.first_at", "excluded.first_at")}
"""


def note_machine(database: Connection, piece: Sealed, machine_id: int, recorded_at: int) -> None:
    """Note that a machine pushed the sessions of a piece, and their parents."""
    found = {found for found, _ in piece.sessions}
    parents = {one.parent for _, one in piece.sessions if one.parent is not None}
    found |= {row_id("session", piece.source, parent) for parent in parents}
    after = _read_first_of_others(database, found, machine_id)
    rows = [
        MachineSessionRow(one, machine_id, max(recorded_at, after.get(one, 0) + 1)) for one in found
    ]
    insert(database, "machine_session", rows, on_conflict=MERGE)


def _read_first_of_others(
    database: Connection, sessions: Iterable[int], machine_id: int
) -> dict[int, int]:
    """Return the sessions that machines of another person had first, and when."""
    first: dict[int, tuple[int, bool]] = {}
    for some, marks in divide(sessions):
        rows = database.execute(
            f"select session_id, first_at, {flag('person_id = mine.person')} from machine_session"
            " join machine on machine.id = machine_session.machine_id cross join"
            " (select person_id as person from machine where id = ?) as mine"
            f" where session_id in ({marks})",
            [machine_id, *some],
        )
        for session_id, *found in rows.fetchall():
            first[session_id] = min(first.get(session_id, tuple(found)), tuple(found))
    return {session_id: at for session_id, (at, is_own) in first.items() if not is_own}


def find_foreign(database: Connection, sessions: Iterable[int], person_id: int) -> set[int]:
    """Return those of these sessions that belong to another person, or to the server itself.

    One that is not derived yet belongs to the machine that pushed its first part; without any, to
    the one whose sub-agents name it.
    """
    found: set[int] = set()
    for some, marks in divide(sessions):
        rows = database.execute(
            f"""
                select named.id from (
                    select id from session where id in ({marks})
                    union select session_id from tape_part where session_id in ({marks})
                ) as named
                left join session on session.id = named.id
                left join machine on machine.id = coalesce(session.machine_id, {SENDER}, {FIRST})
                where {differs("person_id", "?")}
            """,
            [*some, *some, person_id],
        )
        found |= {one for (one,) in rows}
    return found


def write_told(database: Connection, rows: Sequence[ToldOutcomeRow]) -> None:
    """Write what a machine reported of sessions; they must be judged again."""
    replaces = replacing(ToldOutcomeRow, "session_id", "machine_id")
    insert(database, "told_outcome", rows, on_conflict=replaces)


def settle(database: Connection, touched: Iterable[int]) -> None:
    """Give these sessions to their machines, and count the words of one copy only.

    Runs and uses of skills that other people sent for them before are no longer theirs.
    """
    write_touched(database, touched)
    database.execute(OWN)
    for statement in TAKE_BACK:
        database.execute(statement)
    database.execute(DROP_COPIES)


def apply_told(database: Connection, touched: Iterable[int]) -> None:
    """Write the outcomes that machines reported of these sessions."""
    write_touched(database, touched)
    database.execute(APPLY, {"evidence": EVIDENCE})
