"""The share of a session's rows that each of its skills is charged with."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from relight.judging.shares import Charge, Entered, SpentItem, Use, charge_skills
from relight.model import AMOUNTS, TOKENS
from relight.store.derive.pricing import NAMED
from relight.store.derive.rollup import INCLUDED_NANOS, IS_COUNTED, PARTIAL_TURNS, UNPRICED_TURNS
from relight.store.sql import Connection, count_if, flag, read

IS_ERROR = "label = 'error'"
OWN = "session_id in (select id from session where root_id = ?)"
# a column of the turn stands for itself
OF_TURN = {name: name for name in AMOUNTS} | {
    "turns": "calls",
    "partial_turns": PARTIAL_TURNS,
    "unpriced_turns": UNPRICED_TURNS,
    "included_nanos": INCLUDED_NANOS,
    "tool_calls": "0",
    "tool_failures": "0",
}
OF_CALL = dict.fromkeys(AMOUNTS, "0") | {
    **dict.fromkeys((*TOKENS, "cost_nanos"), "null"),
    "tool_calls": "1",
    "tool_failures": flag(IS_ERROR),
}
MODEL = NAMED.format("turn.model")
TURNS = f"""
    select id, session_id, at, total_id is not null, {MODEL}, provider, role, cost_status,
        cost_source, calls, {UNPRICED_TURNS}, {", ".join(OF_TURN.values())}
    from turn where {OWN} and {IS_COUNTED} order by at nulls first, id
"""
CALLS = f"""
    select turn_id, session_id, at, {", ".join(OF_CALL.values())}
    from tool_call where {OWN} order by at nulls first, id
"""
# turns that are alike, added up: enough if one skill is charged with everything
ALL_TURNS = f"""
    select 0, session_id, null, 1, {MODEL}, provider, role, cost_status, cost_source, sum(calls),
        sum({UNPRICED_TURNS}), {", ".join(f"sum({one})" for one in OF_TURN.values())}
    from turn where {OWN} and {IS_COUNTED}
    group by session_id, {MODEL}, provider, role, cost_status, cost_source
"""
ALL_CALLS = f"select count(*), {count_if(IS_ERROR)} from tool_call where {OWN}"
ENTRIES = f"""
    select skill_entry.session_id, skill_name, entry, coalesce(turn.at, skill_entry.at) as at,
        skill_version, turn_id
    from skill_entry left join turn on turn.id = skill_entry.turn_id
    where skill_entry.{OWN} order by 4 nulls first, skill_entry.id
"""


class RecordedEntry(Struct, frozen=True):
    """A skill entering a session, or without `entry` a turn that the log attributes to it."""

    session_id: int
    skill_name: str
    entry: str | None
    at: int | None
    skill_version: str | None
    turn_id: int | None


class ChargedTurn(Struct, frozen=True, kw_only=True):
    """A turn, or the sum of some that are alike, as far as a charge needs it."""

    id: int
    session: int
    at: int | None
    is_lump: bool
    model: str | None
    provider: str | None
    role: str | None
    cost_status: str
    cost_source: str | None
    calls: int
    is_unpriced: bool
    amounts: tuple[int | None, ...]


class Span(Struct, frozen=True):
    """The start and end of a session."""

    started_at: int | None
    ended_at: int | None

    @property
    def milliseconds(self) -> int | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return max(self.ended_at - self.started_at, 0)


class Bill(Struct, frozen=True):
    """A skill's charge, its own turns, and those that it shares with others besides."""

    charge: Charge
    amounts: dict[str, int | None]
    turns: list[ChargedTurn]
    charged: list[ChargedTurn]


def read_skill_entries(database: Connection, root_id: int) -> list[RecordedEntry]:
    """Return the recorded entries of skills into a session and its sub-agents."""
    return read(database, RecordedEntry, ENTRIES, (root_id,))


def list_uses(entries: Sequence[RecordedEntry], given: Sequence[Entered] = ()) -> set[Use]:
    """Return every skill with each of its entries; None for a skill that only the log names."""
    uses: set[Use] = {(one.skill_name, one.entry) for one in entries if one.entry is not None}
    uses |= {(one.name, one.entry) for one in given}
    names = {name for name, _ in uses}
    return uses | {(one.skill_name, None) for one in entries if one.skill_name not in names}


def read_bills(
    database: Connection,
    root_id: int,
    entries: Sequence[RecordedEntry],
    given: Sequence[Entered],
    span: Span,
) -> list[Bill]:
    """Return the bills of one session with its sub-agents, for recorded and given entries."""
    uses = list_uses(entries, given)
    if len(uses) == 1:
        turns = list(_read_turns(database, ALL_TURNS, root_id))
        calls, failures = database.execute(ALL_CALLS, (root_id,)).fetchone()
        totals = {"tool_calls": calls, "tool_failures": failures}
        charges = [_charge_one(entries, turns, totals, uses.pop(), span)]
    else:
        turns = list(_read_turns(database, TURNS, root_id))
        charges = _charge_several(database, root_id, entries, given, turns, span)
    owned = {place for charge in charges for place in charge.own}
    spread = [turn for place, turn in enumerate(turns) if place not in owned]
    bills = []
    for charge in charges:
        amounts = dict(zip(AMOUNTS, charge.amounts or (0,) * len(AMOUNTS), strict=True))
        own = [turns[place] for place in charge.own if place < len(turns)]
        bills.append(Bill(charge, amounts, own or turns, [*own, *spread] or turns))
    return bills


def _read_turns(database: Connection, statement: str, root_id: int) -> Iterator[ChargedTurn]:
    for row in database.execute(statement, (root_id,)):
        turn_id, session, at, is_lump, model, provider, role, status, source, *rest = row
        calls, unpriced, *amounts = rest
        yield ChargedTurn(
            id=turn_id,
            session=session,
            at=at,
            is_lump=bool(is_lump),
            model=model,
            provider=provider,
            role=role,
            cost_status=status,
            cost_source=source,
            calls=calls or 0,
            is_unpriced=bool(unpriced),
            amounts=tuple(amounts),
        )


def _charge_one(
    entries: Sequence[RecordedEntry],
    turns: Sequence[ChargedTurn],
    totals: dict[str, int],
    use: Use,
    span: Span,
) -> Charge:
    """Charge everything to the only skill."""
    name, entry = use
    moments = [one.at for one in entries if one.entry == entry and one.at is not None]
    by_log = [one.at for one in entries if one.entry is None and one.at is not None]
    versions = [one.skill_version for one in entries if one.skill_version is not None]
    columns = zip(*(turn.amounts for turn in turns), strict=True)
    sums: list[Any] = [
        sum(known) if (known := [value for value in column if value is not None]) else None
        for column in columns
    ] or [0] * len(AMOUNTS)
    amounts = dict(zip(AMOUNTS, sums, strict=True)) | totals
    return Charge(
        name=name,
        entry=entry,
        version=versions[-1] if versions else None,
        invoked_at=min(moments, default=span.started_at),
        completed_at=max(by_log, default=span.ended_at),
        weight=Fraction(1),
        amounts=tuple(amounts.values()),
        milliseconds=span.milliseconds,
        own=list(range(len(turns))),
    )


def _charge_several(
    database: Connection,
    root_id: int,
    entries: Sequence[RecordedEntry],
    given: Sequence[Entered],
    turns: Sequence[ChargedTurn],
    span: Span,
) -> list[Charge]:
    by_log = {one.turn_id: one.skill_name for one in entries if one.entry is None}
    entered = [
        Entered(
            session=one.session_id,
            name=one.skill_name,
            entry=one.entry,
            at=one.at,
            version=one.skill_version,
        )
        for one in entries
        if one.entry is not None
    ]
    spent = [
        SpentItem(
            session=turn.session,
            at=turn.at,
            amounts=turn.amounts,
            turns=turn.calls,
            skill=by_log.get(turn.id),
            is_lump=turn.is_lump,
        )
        for turn in turns
    ]
    spent += [
        SpentItem(session=session, at=at, amounts=tuple(amounts), skill=by_log.get(turn_id))
        for turn_id, session, at, *amounts in database.execute(CALLS, (root_id,))
    ]
    parents = database.execute(
        "select id, parent_id from session where root_id = :id and id <> :id", {"id": root_id}
    ).fetchall()
    return charge_skills(
        [*entered, *given],
        spent,
        parents=dict(parents),
        root=root_id,
        started_at=span.started_at,
        ended_at=span.ended_at,
    )
