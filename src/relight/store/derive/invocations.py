"""`skill_invocations`: what sessions' records give of each use, under what was told of it.

Written anew whenever either changes, so that it is the same whichever came first.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from relight.judging.shares import Entered, Use
from relight.store.derive import told as facts
from relight.store.derive.charges import list_uses, read_entries
from relight.store.derive.rollup import AMOUNTS
from relight.store.derive.told import FACTS, Told, Values, combine
from relight.store.derive.uses import Row, derive_uses
from relight.times import day_reader

# what a use cost, where it is wholly known: a part of it belongs into no mean
KNOWN_NANOS = "case when cost_status <> 'partial' then cost_nanos end"
EXTRA = tuple(name for name in AMOUNTS if name not in FACTS)
COLUMNS = ("session_id", "root_id", "skill_name", "entry", "day", *FACTS, *EXTRA)
# one told use stands for at least one turn
BLANK: Row = {
    **dict.fromkeys(COLUMNS),
    "cost_status": "unknown",
    "share": 1.0,
    "turns": 1,
    "partial_turns": 0,
    "unpriced_turns": 1,
    "included_nanos": 0,
    "tool_calls": 0,
    "tool_failures": 0,
}
WRITE = f"""
    insert into skill_invocations ({", ".join(COLUMNS)}, is_told)
    values ({", ".join(f":{name}" for name in COLUMNS)}, :is_told)
    on conflict (session_id, skill_name, coalesce(entry, '')) do update set
        {", ".join(f"{name} = excluded.{name}" for name in (*COLUMNS, "is_told"))}
"""
OF_USE = "session_id = :session_id and skill_name = :skill_name and coalesce(entry, '') = :way"
CHARGED = (*AMOUNTS, "duration_seconds")
WRITE_CHARGE = f"""
    insert into skill_charge (id, root_id, {", ".join(CHARGED)})
    select id, root_id, {", ".join(f":{name}" for name in CHARGED)}
    from skill_invocations where {OF_USE}
"""
ReadDay = Callable[[int | None], str | None]

USED = """
    select distinct root_id from session where root_id in
        (select root_id from session where id in (select id from touched))
    and (exists (select 1 from skill_entry where session_id = session.id)
        or exists (select 1 from skill_told where session_id = source || ':' || key))
"""


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> None:
    """Charge the skills of these sessions anew; where no skill was ever seen it costs nothing."""
    has_any = database.execute(
        "select 1 from skill_entry union all select 1 from skill_invocations limit 1"
    ).fetchone()
    if not has_any:
        return
    database.execute("create temp table if not exists touched (id integer primary key)")
    database.execute("delete from touched")
    database.executemany("insert or ignore into touched values (?)", [(one,) for one in touched])
    facts.join(database)
    used = {root_id for (root_id,) in database.execute(USED)}
    # one that lost its skills to a fork, or is a sub-agent's now, has no use of its own any more
    names = database.execute(
        "select id, source || ':' || key from session where id in (select id from touched)"
    ).fetchall()
    unused = [(found, name) for found, name in names if found not in used]
    database.executemany(
        "delete from skill_charge where root_id = ?", [(found,) for found, _ in unused]
    )
    database.executemany(
        "delete from skill_invocations where session_id = ?", [(name,) for _, name in unused]
    )
    for root_id in used:
        _write_recorded(database, root_id)


def record(database: sqlite3.Connection, told: Told, root_id: int | None, *, begun_at: int) -> int:
    """Write the use that this fact tells of, in a recorded session or another; gives its id."""
    seen: Collection[Use] = ()
    if root_id is None:
        _write_unrecorded(database, told.session_id, begun_at=begun_at)
    else:
        _write_recorded(database, root_id)
        seen = list_uses(read_entries(database, root_id))
    skill, entry = _find_use(told, seen)
    (found,) = database.execute(
        "select id from skill_invocations where skill_name = ? and coalesce(entry, '') = ?"
        " and session_id = coalesce((select source || ':' || key from session where id = ?), ?)",
        (skill, entry or "", root_id, told.session_id),
    ).fetchone()
    return int(found)


def record_alone(
    database: sqlite3.Connection, skill: str, entry: str | None, told: Values, *, begun_at: int
) -> int:
    """Write a use outside of any session, and give its id."""
    row = BLANK | {"skill_name": skill, "entry": entry, "invoked_at": begun_at}
    (found,) = database.execute(f"{WRITE} returning id", _lay_over(row, told, _days(database)))
    return int(found[0])


def detach(database: sqlite3.Connection, session_id: int) -> None:
    """Leave of a session's uses, whose records go, only what was told, and when it was."""
    name, started_at = database.execute(
        "select source || ':' || key, started_at from session where id = ?", (session_id,)
    ).fetchone()
    database.execute("delete from skill_charge where root_id = ?", (session_id,))
    _write_unrecorded(database, name, begun_at=started_at)


def _write_recorded(database: sqlite3.Connection, root_id: int) -> None:
    told = facts.read_of_tree(database, root_id)
    entries = read_entries(database, root_id)
    seen = list_uses(entries)
    unseen = _enter_unseen(database, root_id, told, seen) if told else []
    derived = derive_uses(database, root_id, entries, unseen)
    database.execute("delete from skill_charge where root_id = ?", (root_id,))
    _write(database, derived[0]["session_id"], derived, _place(told, seen))


def _write_unrecorded(database: sqlite3.Connection, name: str, *, begun_at: int | None) -> None:
    """Write what was told of a session; a use told without its time keeps the one it has."""
    placed = _place(facts.read_of_session(database, name), ())
    rows = database.execute(
        "select skill_name, entry, invoked_at from skill_invocations"
        " where session_id = ? and invoked_at is not null",
        (name,),
    )
    times = {(skill, entry): at for skill, entry, at in rows}
    blanks = [
        BLANK
        | {"session_id": name, "skill_name": skill, "entry": entry}
        | {"invoked_at": times.get((skill, entry), begun_at)}
        for skill, entry in placed
    ]
    _write(database, name, blanks, placed)


def _find_use(told: Told, seen: Collection[Use]) -> Use:
    """The use a fact is of: without a way in, the one way that the records show, if it is one."""
    ways = [entry for name, entry in seen if name == told.skill_name]
    is_met = told.entry is None and len(ways) == 1
    return told.skill_name, ways[0] if is_met else told.entry


def _place(told: Sequence[Told], seen: Collection[Use]) -> dict[Use, Values]:
    """What was told, by the use it is of; what names its way in stands before what does not."""
    placed: dict[Use, Values] = {}
    for one in sorted(told, key=lambda one: one.entry is not None):
        use = _find_use(one, seen)
        placed[use] = combine(placed.get(use, {}), one.values)
    return placed


def _enter_unseen(
    database: sqlite3.Connection, root_id: int, told: Sequence[Told], seen: Collection[Use]
) -> list[Entered]:
    """The skills of which only what was told says that they came in: they share the cost too."""
    sessions = dict(
        database.execute(
            "select source || ':' || key, id from session where root_id = ?", (root_id,)
        ).fetchall()
    )
    return [
        Entered(
            session=sessions[one.session_id],
            name=one.skill_name,
            entry=one.entry,
            at=one.values.get("invoked_at"),
        )
        for one in told
        if _find_use(one, seen) not in seen
    ]


def _write(
    database: sqlite3.Connection, name: str, rows: Sequence[Row], placed: Mapping[Use, Values]
) -> None:
    """Make these all the uses that there are of a session."""
    wanted = {(row["skill_name"], row["entry"]): row for row in rows}
    for skill, entry in placed:
        if (skill, None) not in wanted:
            # it was told without its way in, which is now known: the same use under the same id
            database.execute(
                "update or ignore skill_invocations set entry = ?"
                " where session_id = ? and skill_name = ? and entry is null",
                (entry, name, skill),
            )
    read_day = _days(database)
    for use, row in wanted.items():
        shown = _lay_over(row, placed.get(use), read_day)
        database.execute(WRITE, shown)
        if row["root_id"] is not None and any(shown[name] != row[name] for name in CHARGED):
            database.execute(WRITE_CHARGE, {**row, "way": row["entry"] or ""})
    found = database.execute(
        "select id, skill_name, entry from skill_invocations where session_id = ?", (name,)
    ).fetchall()
    database.executemany(
        "delete from skill_invocations where id = ?",
        [(one,) for one, skill, entry in found if (skill, entry) not in wanted],
    )


def _lay_over(row: Row, given: Values | None, read_day: ReadDay) -> Row:
    """A use with what was told of it, if anything was, over what is derived."""
    told = given or {}
    found = {**row, **told, "is_told": int(given is not None)}
    begun = told.get("invoked_at") if row["root_id"] is None else found["invoked_at"]
    ended = told.get("completed_at")
    if begun is not None and ended is not None and "duration_seconds" not in told:
        found["duration_seconds"] = (ended - begun) / 1000 if ended >= begun else None
    # a cost is told with all that is said of it
    if "cost_nanos" in told:
        found |= {"cost_status": "reported", "cost_source": None, "unpriced_turns": 0} | told
    elif told.get("cost_status") == "unknown":
        found |= {"cost_nanos": None, "cost_source": None, "unpriced_turns": row["turns"]} | told
    if "cost_nanos" in told or "cost_status" in told:
        is_included = found["cost_status"] == "included"
        found["included_nanos"] = (found["cost_nanos"] or 0) if is_included else 0
    if "success" in told and told["success"] != row["success"]:
        found["end_reason"] = told.get("end_reason")
    found["day"] = read_day(found["invoked_at"]) or "unknown"
    return found


def _days(database: sqlite3.Connection) -> ReadDay:
    (timezone,) = database.execute("select value from meta where key = 'timezone'").fetchone()
    return day_reader(timezone)
