"""Facts about uses of skills, given through the API, apart from the uses they become."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.judging.shares import Entered, Use
from relight.model import WHOLE_TOKENS
from relight.store.sql import Connection

# the columns that a fact may give; what it leaves out is null
FACTS = (
    "job_id",
    "skill_version",
    "invoked_at",
    "completed_at",
    "model",
    "provider",
    "duration_seconds",
    *WHOLE_TOKENS,
    "cost_nanos",
    "cost_status",
    "cost_source",
    "success",
    "end_reason",
    "quality_score",
    "share",
)
READ = f"select id, session_id, skill_name, entry, {', '.join(FACTS)} from skill_told"
# the facts of a session with its sub-agents, whose uses are the whole session's
OF_TREE = "session_id in (select source || ':' || key from session where root_id = ?)"
OF_USE = "session_id = ? and skill_name = ? and coalesce(entry, '') = ?"
# facts given under a session's bare key, before the session was read
UNJOINED = """
    select skill_told.id, session.source || ':' || session.key
    from session join skill_told on skill_told.session_id = session.key
    where session.id in (select id from touched) order by skill_told.id
"""
# of two uses that get the same name, the one with the bare key stays
REMOVE_NAMED = """
    delete from skill_invocations where session_id = :name and exists (
        select 1 from skill_invocations as bare where bare.session_id = :bare
            and bare.skill_name = skill_invocations.skill_name
            and coalesce(bare.entry, '') = coalesce(skill_invocations.entry, ''))
"""

Values = dict[str, Any]


class SkillFact(Struct, frozen=True, kw_only=True):
    """The facts about one use, by column; `values` has only those that were given."""

    id: int = 0
    session_id: str
    skill_name: str
    entry: str | None
    values: Values


def combine(older: Mapping[str, Any], newer: Mapping[str, Any]) -> Values:
    """Return both as one: newer values win, and what they leave out stays.

    A known cost given later replaces an unknown one, and the other way round.

    >>> combine({"cost_status": "unknown"}, {"cost_nanos": 5})
    {'cost_nanos': 5}
    """
    found = {**older, **newer}
    if newer.get("cost_status") == "unknown":
        found.pop("cost_nanos", None)
    elif "cost_nanos" in newer and found.get("cost_status") == "unknown":
        del found["cost_status"]
    return found


def write_fact(database: Connection, fact: SkillFact) -> SkillFact:
    """Write a fact, combined with what is known of the same use; return the result."""
    known = _find(database, fact)
    return _write(database, fact, combine(known.values if known else {}, fact.values))


def read_of_session(database: Connection, name: str) -> list[SkillFact]:
    """Return the facts about one session, recorded or not."""
    return _read(database, "session_id = ?", (name,))


def read_of_tree(database: Connection, root_id: int) -> list[SkillFact]:
    """Return the facts about a recorded session and its sub-agents."""
    return _read(database, OF_TREE, (root_id,))


def join_named_sessions(database: Connection) -> None:
    """Give the facts about sessions in `touched`, recorded under bare keys, their full names."""
    for fact_id, name in database.execute(UNJOINED).fetchall():
        (fact,) = _read(database, "id = ?", (fact_id,))
        database.execute("delete from skill_told where id = ?", (fact_id,))
        names = {"name": name, "bare": fact.session_id}
        database.execute(REMOVE_NAMED, names)
        database.execute(
            "update skill_invocations set session_id = :name where session_id = :bare", names
        )
        named = replace(fact, session_id=name)
        known = _find(database, named)
        both = sorted([one for one in (named, known) if one], key=lambda one: one.id)
        _write(database, both[-1], combine(both[0].values, both[-1].values))


def remove_facts(database: Connection, session_id: int) -> None:
    """Delete the facts about a recorded session."""
    database.execute(
        "delete from skill_told where session_id ="
        " (select source || ':' || key from session where id = ?)",
        (session_id,),
    )


def find_use(fact: SkillFact, seen: Collection[Use]) -> Use:
    """Return the use of a fact: without an entry, the only recorded entry if there is one."""
    entries = [entry for name, entry in seen if name == fact.skill_name]
    is_met = fact.entry is None and len(entries) == 1
    return fact.skill_name, entries[0] if is_met else fact.entry


def place_facts(given: Sequence[SkillFact], seen: Collection[Use]) -> dict[Use, Values]:
    """Return the facts by use; those that name their entry win over those that do not."""
    placed: dict[Use, Values] = {}
    for one in sorted(given, key=lambda one: one.entry is not None):
        use = find_use(one, seen)
        placed[use] = combine(placed.get(use, {}), one.values)
    return placed


def list_unseen(
    database: Connection,
    root_id: int,
    given: Sequence[SkillFact],
    seen: Collection[Use],
) -> list[Entered]:
    """Return the entries that only facts name: those skills share the cost too."""
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
        for one in given
        if find_use(one, seen) not in seen
    ]


def _find(database: Connection, fact: SkillFact) -> SkillFact | None:
    """Return what is known of the use that this fact is about."""
    found = _read(database, OF_USE, (fact.session_id, fact.skill_name, fact.entry or ""))
    return found[0] if found else None


def _write(database: Connection, fact: SkillFact, values: Values) -> SkillFact:
    """Write a fact in place of the one about the same use; ids are in the order of arrival."""
    known = (fact.session_id, fact.skill_name, fact.entry or "")
    database.execute(f"delete from skill_told where {OF_USE}", known)
    fields = dict.fromkeys(FACTS) | values | asdict(fact)
    del fields["values"]
    if not fact.id:
        del fields["id"]
    marks = ", ".join(f":{name}" for name in fields)
    row = database.execute(
        f"insert into skill_told ({', '.join(fields)}) values ({marks}) returning id", fields
    ).fetchone()
    return replace(fact, id=row[0], values=values)


def _read(database: Connection, test: str, values: tuple[Any, ...]) -> list[SkillFact]:
    return [
        SkillFact(
            id=fact_id,
            session_id=session_id,
            skill_name=skill_name,
            entry=entry,
            values={n: v for n, v in zip(FACTS, facts, strict=True) if v is not None},
        )
        for fact_id, session_id, skill_name, entry, *facts in database.execute(
            f"{READ} where {test} order by id", values
        )
    ]
