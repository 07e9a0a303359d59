"""Sums of the sessions that one piece has from beginning to end, which workers make.

The rows are those that `rollup.refresh` would write, without what stands in the session's own row.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from relight.model import Session
from relight.names import find_model_name
from relight.store.derive.additions import (
    NOTHING,
    Counts,
    Sums,
    add_amount,
    add_turn,
    find_position,
    is_counted,
    make_hour,
    make_position,
)
from relight.store.derive.rollup import CallDayRow
from relight.store.derive.session_sums import HourRow, PositionRow, SessionDayRow, WholeSums

if TYPE_CHECKING:
    from relight.store.write.sealed import CallRow, Sealed, TurnRow

# the adviser of a mixture, which calls no tools
ADVISER = "reference"
# the day, model, provider and branch of a row of `session_day`
Group = tuple[str, str | None, str | None, str | None]


def sum_piece(piece: "Sealed", aliases: Mapping[str, str]) -> dict[int, WholeSums]:
    """Return the sums of the sessions of a piece that has priced rows, by its records alone.

    What running totals, reports and logs change is left to the writing process.
    """
    if piece.totals or piece.reports or piece.latencies or piece.timings:
        return {}
    turns: dict[int, list[TurnRow]] = {found: [] for found, _ in piece.sessions}
    calls: dict[int, list[CallRow]] = {found: [] for found, _ in piece.sessions}
    for turn in piece.turn_rows:
        turns.setdefault(turn.session_id, []).append(turn)
    for call in piece.calls:
        calls.setdefault(call.session_id, []).append(call)
    ids = [turn.id for turn in piece.turn_rows] + [call.id for call in piece.calls]
    if len(set(ids)) < len(ids):
        return {}
    adders = (
        Adder(piece.source, found, session, turns[found], calls[found], aliases)
        for found, session in piece.sessions
        if session.started_at is not None
    )
    return {one.session_id: one.sum_up() for one in adders if one.can_sum}


class Adder:
    """Adds up one session."""

    def __init__(
        self,
        source: str,
        session_id: int,
        session: Session,
        turns: Sequence["TurnRow"],
        calls: Sequence["CallRow"],
        aliases: Mapping[str, str],
    ) -> None:
        self.session_id, self.session, self.turns, self.calls = session_id, session, turns, calls
        self.source = source
        self.by_id: dict[int | None, TurnRow] = {turn.id: turn for turn in turns}
        models = {turn.model for turn in turns} | {session.model}
        self.names = {one: one and find_model_name(one, aliases) for one in models}
        # the writing process knows the rest of it
        self.owner: dict[str, Any] = {
            "session_id": session_id,
            "root_id": session_id,
            "source": source,
            "project": None,
            "machine_id": None,
        }

    @property
    def can_sum(self) -> bool:
        """True if there is something to sum, and all that it depends on is known."""
        is_known = all(one.turn_id is None or one.turn_id in self.by_id for one in self.calls)
        is_recorded = all(one.usage_status != "reconciled" for one in self.turns)
        has_any = bool(self.calls) or any(map(is_counted, self.turns))
        return is_known and is_recorded and has_any

    def sum_up(self) -> WholeSums:
        return WholeSums(
            session=self.session,
            turns=len(self.turns),
            calls=len(self.calls),
            has_rebuilds=has_rebuilds(self.turns),
            days=self._sum_days(),
            hours=self._sum_hours(),
            calls_by_day=self._sum_calls(),
            positions=self._sum_positions(),
        )

    def _sum_days(self) -> list[SessionDayRow]:
        """Return what `rollup.REFRESH` writes."""
        sums: dict[Group, Sums] = {}
        counted = [turn for turn in self.turns if is_counted(turn)]
        first = acting = min(counted, key=_order_first, default=None)
        if first is not None and first.role is not None:
            others = (one for one in self.turns if one.calls > 0 and one.role != ADVISER)
            acting = min(others, key=_order_acting, default=None)
        for turn in counted:
            add_turn(sums, self._name_group(turn, turn.day, turn.model), turn)
        for call in self.calls:
            own = self.by_id.get(call.turn_id)
            model = _choose(_name_model(own), _name_model(acting), self.session.model)
            if own is not None:
                group = self._name_group(own, _choose(own.day, call.day), model)
            else:
                provider = None if acting is None else acting.provider
                day = call.day or "unknown"
                group = (day, self.names[model], provider, self.session.branch)
            found = sums.setdefault(group, {**NOTHING})
            add_amount(found, "tool_calls", 1)
            add_amount(found, "tool_failures", int(call.label == "error"))
        with_first = first and self._name_group(first, first.day, first.model)
        begun, ended = self.session.started_at, self.session.ended_at
        wall_ms = 0 if begun is None or ended is None else ended - begun
        return [
            SessionDayRow(
                **self.owner,
                **cast(dict[str, Any], amounts),
                day=group[0],
                model=group[1],
                provider=group[2],
                branch=group[3],
                outcome=None,
                wall_ms=wall_ms if group == with_first else 0,
            )
            for group, amounts in sums.items()
        ]

    def _name_group(self, turn: "TurnRow", day: str | None, model: str | None) -> Group:
        branch = _choose(turn.branch, self.session.branch)
        return day or "unknown", self.names[model], turn.provider, branch

    def _sum_hours(self) -> list[HourRow]:
        """Return what `rollup.ADD_HOURS` writes."""
        found: dict[int, HourRow] = {}
        for turn in self.turns:
            if (new := make_hour(turn, self.source)) is not None:
                known = found.get(new.hour)
                found[new.hour] = new if known is None else _merge_hours(known, new)
        return list(found.values())

    def _sum_calls(self) -> list[CallDayRow]:
        """Return what `rollup.CALL_SUMS` selects."""
        found: dict[tuple[str, str | None, str | None, str | None, str | None], Counts] = {}
        for call in self.calls:
            turn = self.by_id.get(call.turn_id)
            model = self.names[_choose(_name_model(turn), self.session.model)]
            provider = None if turn is None else turn.provider
            key = (call.day or "unknown", model, provider, call.tool, call.kind)
            failures = int(call.label == "error")
            found.setdefault(key, Counts()).add(call.at, calls=1, failures=failures)
        for turn in self.turns:
            if turn.failure is not None:
                model = self.names[turn.model]
                failed = (turn.day or "unknown", model, turn.provider, None, turn.failure)
                found.setdefault(failed, Counts()).add(turn.at, turns=1)
        return [
            CallDayRow(
                **self.owner,
                day=day,
                model=model,
                provider=provider,
                tool=tool,
                kind=kind,
                outcome=None,
                tool_calls=counts.tool_calls,
                tool_failures=counts.tool_failures,
                failed_turns=counts.failed_turns,
                last_at=counts.at,
            )
            for (day, model, provider, tool, kind), counts in found.items()
        ]

    def _sum_positions(self) -> list[PositionRow]:
        """Return what `rollup.ADD_POSITIONS` writes; a failed turn follows calls of its moment."""
        found: dict[tuple[str, int], Counts] = {}
        made = [(_order_by_time(one), one.day, one.at, one.label) for one in self.calls]
        failed = [(_order_by_time(one), one.day, one.at, None) for one in self.turns if one.failure]
        before = 0
        for _, day, at, label in sorted([*made, *failed], key=itemgetter(0)):
            is_call = label is not None
            place = (day or "unknown", find_position(before + 1))
            before += is_call
            is_failed = label in (None, "error")
            counts = found.setdefault(place, Counts())
            counts.add(
                at if is_failed else None,
                calls=int(is_call),
                failures=int(is_call and is_failed),
                turns=int(not is_call),
            )
        return [make_position(self.owner, place, counts) for place, counts in found.items()]


def has_rebuilds(turns: Iterable["TurnRow"]) -> bool:
    """True if `cache_rebuilds` would find a turn that rebuilt the cache among these."""
    chains: dict[tuple[str | None, str | None], list[TurnRow]] = {}
    for turn in turns:
        is_known = None not in (turn.at, turn.cache_read_tokens, turn.cache_write_tokens)
        if turn.calls == 1 and is_known:
            chains.setdefault((turn.role, turn.role and turn.model), []).append(turn)
    for chain in chains.values():
        chain.sort(key=_order)
        for before, turn in pairwise(chain):
            held = (before.cache_read_tokens or 0) + (before.cache_write_tokens or 0)
            if turn.cache_write_tokens and (turn.cache_read_tokens or 0) < held:
                return True
    return False


def _choose(*texts: str | None) -> str | None:
    """The first text that is known, as `coalesce` in SQL."""
    return next((one for one in texts if one is not None), None)


def _name_model(turn: "TurnRow | None") -> str | None:
    return None if turn is None else turn.model


def _order_first(turn: "TurnRow") -> tuple[object, ...]:
    """The order of `first_turn` in `rollup.REFRESH`."""
    role = (turn.role is not None, turn.role or "")
    return turn.calls <= 0, *_order_by_time(turn), *role, *_order_by_names(turn)


def _order_acting(turn: "TurnRow") -> tuple[object, ...]:
    """The order of `first_acting` in `rollup.REFRESH`."""
    return turn.role is not None, *_order_by_time(turn), *_order_by_names(turn)


def _order_by_names(turn: "TurnRow") -> tuple[object, ...]:
    model, provider = turn.model, turn.provider
    return model is None, model or "", provider is None, provider or "", turn.id


def _order(turn: "TurnRow") -> tuple[bool, int, int]:
    return turn.at is None, turn.at or 0, turn.id


def _order_by_time(row: "TurnRow | CallRow") -> tuple[bool, int]:
    return row.at is None, row.at or 0


def _merge_hours(known: HourRow, new: HourRow) -> HourRow:
    nanos = [one for one in (known.nanos, new.nanos) if one is not None]
    return replace(
        known,
        first_at=min(known.first_at, new.first_at),
        turns=known.turns + new.turns,
        unpriced_turns=known.unpriced_turns + new.unpriced_turns,
        tokens=known.tokens + new.tokens,
        nanos=sum(nanos) if nanos else None,
    )
