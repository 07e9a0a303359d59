"""`skill_invocations`: the uses of skills in sessions, from the records and the facts over them.

Written again whenever either changes, so that it is the same whichever came first.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from relight.judging.shares import Entered, Use
from relight.model import AMOUNTS, TOKENS, TokenColumns, Usage
from relight.store.derive.rollup import days_of
from relight.store.derive.skills import facts
from relight.store.derive.skills.charges import (
    OWN,
    Bill,
    ChargedTurn,
    RecordedEntry,
    Span,
    list_uses,
    read_bills,
    read_skill_entries,
)
from relight.store.derive.skills.facts import (
    SkillFact,
    Values,
    find_use,
    list_unseen,
    place_facts,
)
from relight.store.sql import Connection, insert, insert_into, read, take_new, write_touched
from relight.store.write.sealed import name_tokens

# the cost of a use if it is wholly known: a part of a cost belongs into no mean
KNOWN_NANOS = "case when cost_status <> 'partial' then cost_nanos end"
# failed calls cost nothing, if their model has a price at all
FREE = f"select 1 from turn where {OWN} and calls = 0 and cost_nanos = 0 limit 1"
# the outcome of a run of Relight holds for its last session, unless a person labelled that
SESSION = """
    select session.source, session.key, session.started_at, session.ended_at, session.model,
        session.machine_id,
        case when own.id is null then session.outcome else own.outcome end as outcome,
        case when own.id is null then session.outcome_evidence else own.outcome_evidence end
            as outcome_evidence,
        session.score, job.full_name as job, job.provider
    from session
    left join run_attempt on run_attempt.session_id = session.id
    left join run on run.session_id = session.id or run.id = run_attempt.run_id
    left join job on job.id = run.job_id
    left join run as own on own.id = run.id and own.session_id = session.id
        and own.source = 'relight'
        and not exists (select 1 from label where label.session_id = session.id)
    where session.id = ?
    order by run.started_at desc nulls last limit 1
"""
USED = """
    select distinct root_id from session where root_id in
        (select root_id from session where id in (select id from touched))
    and (exists (select 1 from skill_entry where session_id = session.id)
        or exists (select 1 from skill_told where session_id = source || ':' || key))
"""
# a use recorded without its entry, which is known now: the same use under the same id
SET_ENTRY = """
    update skill_invocations set entry = :entry
    where session_id = :session and skill_name = :skill and entry is null and not exists (
        select 1 from skill_invocations as other where other.session_id = :session
            and other.skill_name = :skill and coalesce(other.entry, '') = coalesce(:entry, ''))
"""
SUCCESS = {"success": 1, "failure": 0}
UNSURE = ("partial", "unknown")
CHARGED = (*AMOUNTS, "duration_seconds")


class UsedSession(Struct, frozen=True):
    """A session with skills, its run and its job."""

    source: str
    key: str
    started_at: int | None
    ended_at: int | None
    model: str | None
    machine_id: int | None
    outcome: str | None
    outcome_evidence: str | None
    score: float | None
    job: str | None
    provider: str | None

    @property
    def name(self) -> str:
        return f"{self.source}:{self.key}"


class InvocationRow(TokenColumns, frozen=True):
    """A row of `skill_invocations`; a use without records stands for at least one turn."""

    skill_name: str
    entry: str | None = None
    session_id: str | None = None
    root_id: int | None = None
    machine_id: int | None = None
    job_id: str | None = None
    skill_version: str | None = None
    invoked_at: int | None = None
    completed_at: int | None = None
    day: str = "unknown"
    model: str | None = None
    provider: str | None = None
    duration_seconds: float | None = None
    cost_nanos: int | None = None
    cost_status: str = "unknown"
    cost_source: str | None = None
    success: int | None = None
    end_reason: str | None = None
    quality_score: float | None = None
    share: float = 1.0
    is_told: int = 0
    turns: int = 1
    partial_turns: int = 0
    unpriced_turns: int = 1
    included_nanos: int = 0
    tool_calls: int = 0
    tool_failures: int = 0


class ChargeRow(TokenColumns, frozen=True):
    """A row of `skill_charge`."""

    id: int
    root_id: int
    turns: int
    partial_turns: int
    unpriced_turns: int
    cost_nanos: int | None
    included_nanos: int
    tool_calls: int
    tool_failures: int
    duration_seconds: float | None


MERGE = f"""
    on conflict (session_id, skill_name, coalesce(entry, '')) do update set
        {take_new(InvocationRow.__struct_fields__)}
    returning id
"""
ReadDay = Callable[[int | None], str | None]


def refresh(database: Connection, touched: Iterable[int]) -> None:
    """Write the uses of these sessions; costs next to nothing where no skill was ever seen."""
    has_any = database.execute(
        "select 1 from skill_entry union all select 1 from skill_invocations limit 1"
    ).fetchone()
    if not has_any:
        return
    write_touched(database, touched)
    facts.join_named_sessions(database)
    used = {root_id for (root_id,) in database.execute(USED)}
    # a session that lost its skills to a fork, or became a sub-agent, has no uses any more
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


def record_use(database: Connection, fact: SkillFact, root_id: int | None, *, begun_at: int) -> int:
    """Write the use that this fact is about, in a recorded session or not; return its id."""
    seen: Collection[Use] = ()
    if root_id is None:
        _write_unrecorded(database, fact.session_id, begun_at=begun_at)
    else:
        _write_recorded(database, root_id)
        seen = list_uses(read_skill_entries(database, root_id))
    skill, entry = find_use(fact, seen)
    (found,) = database.execute(
        "select id from skill_invocations where skill_name = ? and coalesce(entry, '') = ?"
        " and session_id = coalesce((select source || ':' || key from session where id = ?), ?)",
        (skill, entry or "", root_id, fact.session_id),
    ).fetchone()
    return int(found)


def record_alone(
    database: Connection, skill: str, entry: str | None, given: Values, *, begun_at: int
) -> int:
    """Write a use outside of any session; return its id."""
    row = _blank(skill, entry, invoked_at=begun_at)
    return _write_row(database, _lay_over(row, given, days_of(database)))


def detach(database: Connection, session_id: int) -> None:
    """Reduce the uses of a session whose records go to the facts and the time."""
    name, started_at = database.execute(
        "select source || ':' || key, started_at from session where id = ?", (session_id,)
    ).fetchone()
    database.execute("delete from skill_charge where root_id = ?", (session_id,))
    _write_unrecorded(database, name, begun_at=started_at)


def _blank(skill: str, entry: str | None, **changes: Any) -> InvocationRow:
    return InvocationRow(**name_tokens(Usage()), skill_name=skill, entry=entry, **changes)


def _write_recorded(database: Connection, root_id: int) -> None:
    given = facts.read_of_tree(database, root_id)
    entries = read_skill_entries(database, root_id)
    seen = list_uses(entries)
    unseen = list_unseen(database, root_id, given, seen) if given else []
    (session,) = read(database, UsedSession, SESSION, (root_id,))
    derived = _derive_uses(database, root_id, session, entries, unseen)
    database.execute("delete from skill_charge where root_id = ?", (root_id,))
    _write(database, session.name, derived, place_facts(given, seen))


def _write_unrecorded(database: Connection, name: str, *, begun_at: int | None) -> None:
    """Write the facts about a session; a use without a given time keeps the one it has."""
    placed = place_facts(facts.read_of_session(database, name), ())
    rows = database.execute(
        "select skill_name, entry, invoked_at from skill_invocations"
        " where session_id = ? and invoked_at is not null",
        (name,),
    )
    times = {(skill, entry): at for skill, entry, at in rows}
    blanks = [_blank(*use, session_id=name, invoked_at=times.get(use, begun_at)) for use in placed]
    _write(database, name, blanks, placed)


def _write(
    database: Connection,
    name: str,
    rows: Sequence[InvocationRow],
    placed: Mapping[Use, Values],
) -> None:
    """Make these rows all the uses of a session."""
    wanted = {(row.skill_name, row.entry): row for row in rows}
    for skill, entry in placed:
        if (skill, None) not in wanted:
            values = {"entry": entry, "session": name, "skill": skill}
            database.execute(SET_ENTRY, values)
    read_day = days_of(database)
    for use, row in wanted.items():
        shown = _shorten_model(database, _lay_over(row, placed.get(use), read_day))
        use_id = _write_row(database, shown)
        charged = {name: getattr(row, name) for name in CHARGED}
        is_changed = any(getattr(shown, name) != value for name, value in charged.items())
        if row.root_id is not None and is_changed:
            charge = ChargeRow(id=use_id, root_id=row.root_id, **charged)
            insert(database, "skill_charge", [charge])
    found = database.execute(
        "select id, skill_name, entry from skill_invocations where session_id = ?", (name,)
    ).fetchall()
    database.executemany(
        "delete from skill_invocations where id = ?",
        [(one,) for one, skill, entry in found if (skill, entry) not in wanted],
    )


def _write_row(database: Connection, row: InvocationRow) -> int:
    statement = insert_into("skill_invocations", InvocationRow, MERGE)
    return int(database.execute(statement, astuple(row)).fetchone()[0])


def _lay_over(row: InvocationRow, given: Values | None, read_day: ReadDay) -> InvocationRow:
    """Return a use; recorded facts about it override derived values."""
    known = given or {}
    changes: Values = {**known, "is_told": int(given is not None)}
    invoked_at = known.get("invoked_at", row.invoked_at)
    begun = known.get("invoked_at") if row.root_id is None else invoked_at
    ended = known.get("completed_at")
    if begun is not None and ended is not None and "duration_seconds" not in known:
        changes["duration_seconds"] = (ended - begun) / 1000 if ended >= begun else None
    # a given cost replaces everything that is derived about the cost
    if "cost_nanos" in known:
        changes = {"cost_status": "reported", "cost_source": None, "unpriced_turns": 0} | changes
    elif known.get("cost_status") == "unknown":
        changes = {"cost_nanos": None, "cost_source": None, "unpriced_turns": row.turns} | changes
    if "cost_nanos" in known or "cost_status" in known:
        nanos = changes.get("cost_nanos", row.cost_nanos)
        changes["included_nanos"] = (nanos or 0) if changes["cost_status"] == "included" else 0
    if "success" in known and known["success"] != row.success:
        changes["end_reason"] = known.get("end_reason")
    return replace(row, **changes, day=read_day(invoked_at) or "unknown")


def _derive_uses(
    database: Connection,
    root_id: int,
    session: UsedSession,
    entries: Sequence[RecordedEntry],
    given: Sequence[Entered],
) -> list[InvocationRow]:
    """Return the uses of one session with its sub-agents, by recorded and given entries."""
    reasons = msgspec.json.decode(session.outcome_evidence or "[]")
    span = Span(session.started_at, session.ended_at)
    bills = read_bills(database, root_id, entries, given, span)
    costs = [_describe_cost(database, root_id, bill) for bill in bills]
    total = sum(bill.amounts["cost_nanos"] or 0 for bill in bills)
    # parts of a cost that is not wholly known say nothing about the session: its calls do
    by_cost = total > 0 and not any(status in UNSURE for status, _ in costs)
    rows = []
    for bill, (status, cost_source) in zip(bills, costs, strict=True):
        charge = bill.charge
        # tokens can be unknown; a call that was not made is known
        amounts: dict[str, Any] = {
            name: value if name in TOKENS else value or 0 for name, value in bill.amounts.items()
        }
        share = amounts["cost_nanos"] / total if by_cost else float(charge.weight)
        if status == "unknown":
            amounts["cost_nanos"] = None
        used_model, used_provider = _find_model(bill.turns, root_id) or (
            session.model,
            session.provider,
        )
        seconds = None if charge.milliseconds is None else charge.milliseconds / 1000
        row = InvocationRow(
            **amounts,
            skill_name=charge.name,
            entry=charge.entry,
            session_id=session.name,
            root_id=root_id,
            machine_id=session.machine_id,
            job_id=session.job or _scheduled_by(session.source, session.key),
            skill_version=charge.version,
            invoked_at=charge.invoked_at,
            completed_at=charge.completed_at,
            model=used_model,
            provider=used_provider,
            duration_seconds=seconds,
            cost_status=status,
            cost_source=cost_source,
            success=SUCCESS.get(session.outcome or ""),
            end_reason=reasons[0] if reasons else None,
            quality_score=session.score,
            share=share,
        )
        rows.append(row)
    return rows


def _shorten_model(database: Connection, row: InvocationRow) -> InvocationRow:
    """Return the use with the model's short name, which comparisons group by."""
    statement = "select name from model_alias where model = ?"
    found = database.execute(statement, (row.model,)).fetchone()
    return replace(row, model=found[0]) if found else row


def _describe_cost(database: Connection, root_id: int, bill: Bill) -> tuple[str, str | None]:
    """Return the status and source of a charge; `partial` if some of its calls have no price."""
    turns = bill.charged
    if not turns:
        is_free = database.execute(FREE, (root_id,)).fetchone() is not None
        return ("estimated" if is_free else "unknown"), None
    if any(turn.is_unpriced for turn in turns) and not bill.amounts["cost_nanos"]:
        return "unknown", None
    priced = [turn for turn in turns if not turn.is_unpriced]
    sources, statuses = ({turn.cost_source for turn in priced}, {one.cost_status for one in priced})
    source = sources.pop() if len(sources) == 1 else None
    if len(priced) < len(turns):
        return "partial", source
    return (statuses.pop() if len(statuses) == 1 else "estimated"), source


def _find_model(turns: Sequence[ChargedTurn], root_id: int) -> tuple[str | None, str | None] | None:
    """Return the model with most answers: of the conversation if it has any, else of helpers."""
    calls: dict[tuple[bool, str, str | None, str | None], int] = {}
    for turn in (one for one in turns if one.calls):
        is_main = turn.session == root_id and turn.role is None
        name = (is_main, f"{turn.model} {turn.provider}", turn.model, turn.provider)
        calls[name] = calls.get(name, 0) + turn.calls
    if not calls:
        return None
    _, _, model, provider = max(calls, key=lambda name: (name[0], calls[name], name[1]))
    return model, provider


def _scheduled_by(source: str, key: str) -> str | None:
    """Return the job of a scheduled session whose run is not in the ledger any more."""
    if source != "relight" and key.startswith("cron_"):
        return f"{source}:{key.removeprefix('cron_').rsplit('_', 2)[0]}"
    return None
