"""Deletion of old tapes, of old sessions, or of one session for good."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from relight.errors import RelightError
from relight.store import Store, search_index
from relight.store.derive.rollup import drop_stale_sums
from relight.store.derive.skills import facts, uses
from relight.store.keep.derived import DERIVED
from relight.store.months import drop_empty_months
from relight.store.search_index import DeriveTexts
from relight.store.sql import META, Connection, find_among, find_first, list_values, set_meta
from relight.store.team import note_forgotten, read_waiting
from relight.store.write.record import Recorder

DAY_MS = 86_400_000
# the key in `meta` of the time of the last daily pruning
PRUNED = "pruned_at"
# runs, each with the file of its answer below the home folder
Answers: TypeAlias = list[tuple[int, str]]
# the tables with a session's rows that are not derived, or not by a rebuild
OTHERS = ("run_attempt", "call_latency", "score_due", "candidate_due", "label", "limit_report")


class Pruned(Struct, frozen=True):
    """The records that a pruning deleted, or would delete."""

    tapes: int
    tape_bytes: int
    sessions: int
    answers: int
    # sessions that stay: the server that this machine has joined does not have all of them yet
    waiting: int = 0


def prune(
    store: Store,
    derive: DeriveTexts,
    *,
    now: int,
    tape_days: int | None,
    index_days: int | None,
    answer_days: int | None = None,
    dry_run: bool,
) -> Pruned:
    """Delete tapes of sessions older than one limit, and whole sessions older than another.

    The third limit is for the files of jobs' answers. A session without its tape is frozen: its
    figures stay, and no rebuild touches them. `derive` is as in `forget`. Nothing of what was
    deleted is left in the file. What is not pushed yet stays until it is.
    """
    if not dry_run:
        store.keep_up("overwrite")
    gone = _find_old(store, now, index_days)
    old_tapes = _find_old(store, now, tape_days) | gone
    waiting = old_tapes & read_waiting(store)
    old_tapes, gone = old_tapes - waiting, gone - waiting
    with store.transaction() as database:
        count, size = _count_tapes(database, old_tapes)
        answers = _find_answers(database, now, answer_days)
        pruned = Pruned(count, size, len(gone), len(answers), len(waiting))
        if not dry_run:
            _delete_answers(store.config.home, database, answers)
            search_index.remove_sessions(database, old_tapes, derive)
            for session_id in old_tapes:
                database.execute("delete from tape_part where session_id = ?", (session_id,))
            statement = "update session set is_frozen = 1 where id = ?"
            database.executemany(statement, [(found,) for found in old_tapes])
            delete_index(store, database, gone)
            search_index.merge(database)
            drop_empty_months(database)
    if not dry_run and (count or gone):
        store.keep_up("shrink")
        store.keep_up("shorten_log")
    return pruned


def begin_pruning(store: Store, *, now: int) -> bool:
    """Note that the daily pruning begins; False if the last one began less than a day ago."""
    with store.transaction() as database:
        last_at = find_first(database, META, (PRUNED,))
        if last_at is not None and int(last_at) > now - DAY_MS:
            return False
        set_meta(database, PRUNED, str(now))
    return True


def forget(store: Store, session_id: int, derive: DeriveTexts, *, there: Sequence[int] = ()) -> int:
    """Delete one session with its sub-agents: tape, index and facts; return the number deleted.

    `derive` gives the texts of its tape again, by which they are deleted from the search index.
    Forks own what they copied from it. It is not read again, even if its file grows. Deleted rows
    are overwritten, so that nothing of them is left in the database file. `there` are the ids of
    the same sessions on the server that this machine has joined: they are forgotten there too.
    """
    store.keep_up("overwrite")
    with store.transaction() as database:
        _refuse_part(database, session_id)
        tree = "select id from session where root_id = :id or id = :id"
        sessions = list_values(database, tree, {"id": session_id})
        search_index.remove_sessions(database, sessions, derive)
        _forget_paths(database, sessions)
        for found in sessions:
            # the reader's state has calls that wait for their results
            database.execute(
                "update file_mark set state = ? where (origin_id, part) in"
                " (select origin_id, part from tape_part where session_id = ?)",
                (b"", found),
            )
            database.execute("delete from tape_part where session_id = ?", (found,))
            statement = "insert into forgotten (session_id) values (?) on conflict do nothing"
            database.execute(statement, (found,))
            facts.remove_facts(database, found)
            _forget_run(store.config.home, database, found)
            _delete_templates(database, found)
        delete_index(store, database, set(sessions))
        note_forgotten(database, there)
        search_index.merge(database)
    store.keep_up("shorten_log")
    return len(sessions)


def clean_file(store: Store) -> None:
    """Leave nothing of deleted rows in the search indexes and in the log."""
    with store.transaction() as database:
        search_index.merge(database)
    store.keep_up("shorten_log")


def _forget_paths(database: Connection, sessions: Sequence[int]) -> None:
    """Replace the paths of files that hold nothing but these sessions by the files' ids.

    A file's id is a hash of its path, so its read mark still finds it and it is not read again.
    """
    marks = ", ".join("?" * len(sessions))
    places = "select origin_id from {table} where session_id {which} in ({marks})"
    own, shared = (
        " union ".join(
            places.format(table=table, which=which, marks=marks)
            for table in ("tape_part", "session_words")
        )
        for which in ("", "not")
    )
    for statement, column in (
        ("delete from unreadable", "origin_id"),
        ("delete from set_aside", "origin_id"),
        ("update origin set path = cast(id as text)", "id"),
    ):
        database.execute(
            f"{statement} where {column} in ({own}) and {column} not in ({shared})",
            [*sessions] * 4,
        )


def _refuse_part(database: Connection, session_id: int) -> None:
    """Raise if a sub-agent is on its session's tape, which cannot forget it alone."""
    row = database.execute(
        "select session.source || ':' || session.key, root.source || ':' || root.key"
        " from session join session as root on root.id = session.root_id"
        " where session.id = ? and exists (select 1 from tape_part where session_id = root.id)"
        " and not exists (select 1 from tape_part where session_id = session.id)",
        (session_id,),
    ).fetchone()
    if row:
        part, whole = row
        raise RelightError(
            f"the records of {part} are on the tape of {whole}",
            f"forget that one: relight forget {whole}",
        )


def _find_answers(database: Connection, now: int, days: int | None) -> Answers:
    """Return the runs that ended so long ago and have an answer, with the files."""
    if days is None:
        return []
    return database.execute(
        "select id, answer_file from run where answer_file is not null"
        " and coalesce(finished_at, started_at) < ?",
        (now - days * DAY_MS,),
    ).fetchall()


def _delete_answers(home: Path, database: Connection, answers: Answers) -> None:
    for run_id, name in answers:
        (home / name).unlink(missing_ok=True)
        database.execute("update run set answer_file = null where id = ?", (run_id,))


def _forget_run(home: Path, database: Connection, session_id: int) -> None:
    """Delete the words of a session that a Relight run has, but not the run."""
    answers = database.execute(
        "select id, answer_file from run where session_id = ? and answer_file is not null",
        (session_id,),
    ).fetchall()
    _delete_answers(home, database, answers)
    # those that wait to be sent have its words, and are made again without them
    database.execute("delete from notice where kind = 'run_failed' and body is not null")
    database.execute(
        "update run set error = null, outcome_evidence = '[\"its session was forgotten\"]'"
        " where session_id = ? and source = 'relight'",
        (session_id,),
    )


def _delete_templates(database: Connection, session_id: int) -> None:
    """Delete the templates made from a session, and the decision that it began with."""
    source, key = database.execute(
        "select source, key from session where id = ?", (session_id,)
    ).fetchone()
    statement = "delete from provision where session_key = ? and (source is null or source = ?)"
    database.execute(statement, (key, source))
    if source == "relight":
        database.execute("delete from adviser_deal where session_key = ?", (key,))
    statement = "update experiment_run set session = null, evidence = null where session = ?"
    database.execute(statement, (f"{source}:{key}",))
    statement = "delete from template_version where source_session in (?, ?)"
    made = database.execute(statement, (f"{source}:{key}", key))
    if made.rowcount:
        left = "(select template_id from template_version)"
        database.execute(f"delete from template where id not in {left}")
        # the word index has the session's words; the next reader builds it without them
        database.execute("delete from template_word")
        database.execute("delete from template_rarity")
        database.execute("delete from meta where key = 'template_catalogue'")


def _find_old(store: Store, now: int, days: int | None) -> set[int]:
    """Return the sessions that ended so long ago with all their sub-agents, and the sub-agents."""
    if days is None:
        return set()
    found = store.list_values(
        "select id from session where root_id in (select root_id from session"
        " group by root_id having max(coalesce(ended_at, started_at)) < ?)",
        (now - days * DAY_MS,),
    )
    return set(found)


def _count_tapes(database: Connection, sessions: set[int]) -> tuple[int, int]:
    count = size = 0
    for session_id in sessions:
        row: tuple[Any, ...] = database.execute(
            "select count(*), coalesce(sum(length(records)), 0) from tape_part"
            " where session_id = ?",
            (session_id,),
        ).fetchone()
        count, size = count + row[0], size + row[1]
    return count, size


def delete_index(store: Store, database: Connection, sessions: set[int]) -> None:
    """Delete these sessions' rows; derive the sessions again that they belong to or share with."""
    near = {near for found in sessions for near in _delete_session(database, found)} - sessions
    drop_stale_sums(database)
    # on a server, a root may wait to be derived again
    if known := find_among(database, "select id from session where id in ({marks})", near):
        Recorder(store).derive(database, known)


def _delete_session(database: Connection, session_id: int) -> set[int]:
    """Delete a session; return its root, its forks, and the sessions that share turns with it."""
    root_id = find_first(database, "select root_id from session where id = ?", (session_id,))
    # any of them owns the turn for now: `forks.settle` decides
    heirs = database.execute(
        "select turn_id, min(shared_turn.session_id) from shared_turn join turn"
        " on turn.id = turn_id where turn.session_id = ? group by turn_id",
        (session_id,),
    ).fetchall()
    for turn_id, heir in heirs:
        for table, column in (("turn", "id"), ("tool_call", "turn_id"), ("skill_entry", "turn_id")):
            statement = f"update {table} set session_id = ? where {column} = ?"
            database.execute(statement, (heir, turn_id))
        statement = "delete from shared_turn where turn_id = ? and session_id = ?"
        database.execute(statement, (turn_id, heir))
    sharing = list_values(
        database,
        "select distinct turn.session_id from shared_turn join turn on turn.id = turn_id"
        " where shared_turn.session_id = ?",
        (session_id,),
    )
    forks = list_values(
        database,
        "update session set parent_id = null,"
        " parent_kind = case when forked_at is null then null else parent_kind end"
        " where parent_id = ? and parent_kind = 'fork' returning id",
        (session_id,),
    )
    for table in (*DERIVED, *OTHERS):
        database.execute(f"delete from {table} where session_id = ?", (session_id,))
    # facts about its skills stay when its figures go
    uses.detach(database, session_id)
    database.execute("update run set session_id = null where session_id = ?", (session_id,))
    database.execute("delete from session where id = ?", (session_id,))
    return {root_id, *(heir for _, heir in heirs), *sharing, *forks}
