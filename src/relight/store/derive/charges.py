"""What each skill of a session is charged with, from the session's own rows."""

import sqlite3
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from relight.judging.shares import Charge, Entered, SpentItem, Use, charge_skills
from relight.store.derive.rollup import AMOUNTS

# what is shared out are AMOUNTS; the statements below select them in that order
UNPRICED = AMOUNTS.index("unpriced_turns")
OWN = "session_id in (select id from session where root_id = ?)"
COUNTED = f"{OWN} and (calls > 0 or usage_status = 'reconciled')"
TURNS = f"""
    select id, session_id, at, total_id is not null, model, provider, role, cost_status,
        cost_source, calls, iif(usage_status = 'partial', calls, 0),
        iif(cost_nanos is null, calls, 0), input_tokens, cache_read_tokens, cache_write_tokens,
        cache_write_1h_tokens, output_tokens, reasoning_tokens, cost_nanos,
        iif(cost_status = 'included', coalesce(cost_nanos, 0), 0), 0, 0
    from turn where {COUNTED} order by at, id
"""
CALLS = f"""
    select turn_id, session_id, at, 0, 0, 0, null, null, null, null, null, null, null, 0, 1,
        label = 'error'
    from tool_call where {OWN} order by at, id
"""
# the same added up: where one skill is charged with everything, SQL does it
ALL_TURNS = f"""
    select 0, session_id, null, 1, model, provider, role, cost_status, cost_source, sum(calls),
        sum(iif(usage_status = 'partial', calls, 0)), sum(iif(cost_nanos is null, calls, 0)),
        sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
        sum(cache_write_1h_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_nanos),
        sum(iif(cost_status = 'included', coalesce(cost_nanos, 0), 0)), 0, 0
    from turn where {COUNTED}
    group by session_id, model, provider, role, cost_status, cost_source
"""
ALL_CALLS = f"select count(*), coalesce(sum(label = 'error'), 0) from tool_call where {OWN}"
ENTRIES = f"""
    select skill_entry.session_id, skill_name, entry, coalesce(turn.at, skill_entry.at),
        skill_version, turn_id
    from skill_entry left join turn on turn.id = skill_entry.turn_id
    where skill_entry.{OWN} order by 4, skill_entry.id
"""


class Turn(Struct, frozen=True, kw_only=True):
    """A turn, or some alike added up, as far as a charge goes."""

    id: int
    session: int
    at: int | None
    is_lump: bool
    model: str | None
    provider: str | None
    role: str | None
    cost_status: str
    cost_source: str | None
    amounts: tuple[int | None, ...]

    @property
    def calls(self) -> int:
        return self.amounts[0] or 0

    @property
    def is_unpriced(self) -> bool:
        return bool(self.amounts[UNPRICED])


class Bill(Struct, frozen=True):
    """A skill's charge, the turns that are its own, and those it has a part of besides."""

    charge: Charge
    amounts: dict[str, int | None]
    turns: list[Turn]
    charged: list[Turn]


def read_entries(database: sqlite3.Connection, root_id: int) -> list[tuple[Any, ...]]:
    """How skills came into a session and its sub-agents, as their records tell it."""
    return database.execute(ENTRIES, (root_id,)).fetchall()


def list_uses(entries: Sequence[tuple[Any, ...]], told: Sequence[Entered] = ()) -> set[Use]:
    """Every skill with each way it came in; one that only the log names came in unseen."""
    uses = {(name, entry) for _, name, entry, *_ in entries if entry is not None}
    uses |= {(one.name, one.entry) for one in told}
    names = {name for name, _ in uses}
    return uses | {(name, None) for _, name, *_ in entries if name not in names}


def read_bills(
    database: sqlite3.Connection,
    root_id: int,
    entries: Sequence[tuple[Any, ...]],
    told: Sequence[Entered],
    started_at: int | None,
    ended_at: int | None,
) -> list[Bill]:
    """The charges of one session with its sub-agents, for skills that came in or were told of."""
    uses = list_uses(entries, told)
    if len(uses) == 1:
        turns = list(_read_turns(database, ALL_TURNS, root_id))
        calls = database.execute(ALL_CALLS, (root_id,)).fetchone()
        charges = [_charge_one(entries, turns, calls, uses.pop(), started_at, ended_at)]
    else:
        turns = list(_read_turns(database, TURNS, root_id))
        charges = _charge_several(database, root_id, entries, told, turns, started_at, ended_at)
    owned = {place for charge in charges for place in charge.own}
    spread = [turn for place, turn in enumerate(turns) if place not in owned]
    bills = []
    for charge in charges:
        amounts = dict(zip(AMOUNTS, charge.amounts or (0,) * len(AMOUNTS), strict=True))
        own = [turns[place] for place in charge.own if place < len(turns)]
        bills.append(Bill(charge, amounts, own or turns, [*own, *spread] or turns))
    return bills


def _read_turns(database: sqlite3.Connection, statement: str, root_id: int) -> Iterator[Turn]:
    for row in database.execute(statement, (root_id,)):
        turn_id, session, at, is_lump, model, provider, role, status, source, *amounts = row
        yield Turn(
            id=turn_id,
            session=session,
            at=at,
            is_lump=bool(is_lump),
            model=model,
            provider=provider,
            role=role,
            cost_status=status,
            cost_source=source,
            amounts=tuple(amounts),
        )


def _charge_one(
    rows: Sequence[tuple[Any, ...]],
    turns: Sequence[Turn],
    calls: tuple[int, int],
    use: tuple[str, str | None],
    started_at: int | None,
    ended_at: int | None,
) -> Charge:
    """Everything goes to the one skill there is."""
    moments = [at for _, _, entry, at, *_ in rows if entry == use[1] and at is not None]
    by_log = [at for _, _, entry, at, *_ in rows if entry is None and at is not None]
    versions = [version for *_, version, _ in rows if version is not None]
    columns = zip(*(turn.amounts[:-2] for turn in turns), strict=True)
    sums = [
        sum(known) if (known := [value for value in column if value is not None]) else None
        for column in columns
    ] or [0] * (len(AMOUNTS) - 2)
    has_times = started_at is not None and ended_at is not None
    return Charge(
        name=use[0],
        entry=use[1],
        version=versions[-1] if versions else None,
        invoked_at=min(moments, default=started_at),
        completed_at=max(by_log, default=ended_at),
        weight=Fraction(1),
        amounts=(*sums, *calls),
        milliseconds=max((ended_at or 0) - (started_at or 0), 0) if has_times else None,
        own=list(range(len(turns))),
    )


def _charge_several(
    database: sqlite3.Connection,
    root_id: int,
    rows: Sequence[tuple[Any, ...]],
    told: Sequence[Entered],
    turns: Sequence[Turn],
    started_at: int | None,
    ended_at: int | None,
) -> list[Charge]:
    by_log = {turn_id: name for _, name, entry, _, _, turn_id in rows if entry is None}
    entries = [
        Entered(session=session, name=name, entry=entry, at=at, version=version)
        for session, name, entry, at, version, _ in rows
        if entry is not None
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
        "select id, parent_id from session where root_id = ?1 and id <> ?1", (root_id,)
    ).fetchall()
    return charge_skills(
        [*entries, *told],
        spent,
        parents=dict(parents),
        root=root_id,
        started_at=started_at,
        ended_at=ended_at,
    )
