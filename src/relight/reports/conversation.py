"""The conversation of a session in its order: texts, calls with results, compactions, model calls.

Row ids are hashes of the agent's own ids, so each event of the tape finds its rows in the index
without a search. Numbers of steps come from this order, which only grows at its end.
"""

from collections.abc import Container, Sequence
from typing import Literal

from msgspec import Struct

from relight.chat.blocks import split_injected
from relight.model import ToolCall, Turn, hash_names, row_id
from relight.sources.events import (
    Attributed,
    Called,
    Compacted,
    Event,
    Measured,
    Returned,
    Said,
)
from relight.store.queries.steps import TraceCall, TraceTurn

StepKind = Literal["prompt", "answer", "call", "compaction", "pause"]
SPOKEN = (None, "aggregator")


class Item(Struct, eq=False):
    """One thing that happened. `turn` and `call` are row ids; `is_slot`: only a model call."""

    kind: StepKind
    at: int | None = None
    text: str | None = None
    injected: str | None = None
    answer: str | None = None
    turn: int | None = None
    call: int | None = None
    tool: str | None = None
    arguments: str | None = None
    result: str | None = None
    ended_at: int | None = None
    is_slot: bool = False
    # what the record itself says of a call's result
    is_error: bool | None = None
    exit_code: int | None = None
    timed_out: bool | None = None


class Conversation:
    """Collects the events of one session as items in order."""

    def __init__(
        self, source: str, session: str, turns: Container[int], *, ending: str = ""
    ) -> None:
        self.source, self.session = source, session
        # what ids end in here, and not in the records
        self._ending = ending
        self._known = turns
        self.items: list[Item] = []
        self.calls: dict[int, Item] = {}
        # the first item of each turn
        self.owners: dict[int, Item] = {}
        self._sums: set[int] = set()
        self._waiting: list[Item] = []
        self._open: dict[str, Item] = {}
        self._early: dict[str, Returned] = {}
        self._seen: set[tuple[str, int | None, int]] = set()
        # the model call that wrote the summary of the next compaction
        self._summary: int | None = None

    def take(self, event: Event) -> None:
        """Add an event; those of other sessions, and facts without a place, change nothing."""
        match event:
            case Said():
                self._take_said(event)
            case Called() if event.call.session == self.session:
                self._take_call(event.call, event.answer)
            case ToolCall() if event.session == self.session:
                self._take_call(event, None)
                self._close(event.name or event.key, _as_result(event))
            case Measured() if item := self._open.get(event.name):
                item.exit_code = event.exit_code
            case Returned() if event.session == self.session and event.name is not None:
                self._close(event.name, event)
            case Turn():
                self._take_turn(event)
            case Attributed():
                self._take_attributed(event)
            case Compacted():
                self._take_compaction(event)

    def _take_attributed(self, event: Attributed) -> None:
        turn = self._find_turn(event.turn)
        for call in event.calls:
            item = self.calls.get(hash_names("call", self.source, call.key + self._ending))
            if item is not None and turn is not None:
                self._own(item, turn)

    def _take_said(self, said: Said) -> None:
        text = said.text
        if said.session != self.session or not text or not text.strip():
            return
        # a file that was rewritten is on the tape twice
        mark = (said.role, said.at, hash(text))
        if said.at is not None and mark in self._seen:
            return
        self._seen.add(mark)
        if said.role == "user":
            typed, injected = split_injected(text) if said.is_typed else ("", text)
            item = Item("prompt", said.at, typed or None, injected or None)
            self.items.append(item)
            return
        turn = self._find_turn(said.answer)
        last = self.items[-1] if self.items else None
        if last is not None and last.is_slot and last.turn == turn and turn is not None:
            last.text, last.is_slot = text, False
            return
        item = Item("answer", said.at, text, answer=said.answer)
        self.items.append(item)
        if turn is not None:
            self._own(item, turn)
        elif said.answer is None:
            self._waiting.append(item)

    def _find_turn(self, key: str | None) -> int | None:
        """The row of a turn; None if the index has none, as for agents that record only sums."""
        found = None if key is None else row_id("turn", self.source, key + self._ending)
        return found if found in self._known else None

    def _take_call(self, call: ToolCall, answer: str | None) -> None:
        found = hash_names("call", self.source, call.key + self._ending)
        if found in self.calls:
            return
        name = call.name or call.key
        item = Item("call", call.at, call=found, tool=call.tool, arguments=call.arguments)
        item.answer = answer
        turn = self._find_turn(call.turn)
        last = self.items[-1] if self.items else None
        if last is not None and last.is_slot and last.turn == turn and turn not in self._sums:
            self.items.pop()  # the call stands for its model call
            self.owners.pop(turn or 0, None)
        self.items.append(item)
        self.calls[found] = item
        self._open[name] = item
        if early := self._early.pop(name, None):
            self._close(name, early)
        if turn is not None:
            self._own(item, turn)
        elif call.turn is None:
            self._waiting.append(item)

    def _close(self, name: str, result: Returned) -> None:
        if item := self._open.pop(name, None):
            item.result = result.text or ""
            item.is_error, item.timed_out = result.is_error, result.timed_out
            item.exit_code = item.exit_code if result.exit_code is None else result.exit_code
        else:
            self._early[name] = result

    def _own(self, item: Item, turn: int) -> None:
        item.turn = turn
        if item in self._waiting:
            self._waiting.remove(item)
        self.owners.setdefault(turn, item)

    def _take_turn(self, turn: Turn) -> None:
        """Place a model call: at its first words or call, else by itself.

        A sum of many calls, an adviser's and a failed one are never those of words nearby.
        """
        if turn.session != self.session:
            return
        found = row_id("turn", self.source, turn.key + self._ending)
        if turn.role == "compaction":  # the summary that comes next stands for it
            self._summary = found
            return
        is_sum = turn.calls > 1 or turn.usage_status == "reconciled"
        is_single = turn.calls == 1 and not is_sum and turn.role in SPOKEN
        if is_sum:
            self._sums.add(found)
            self.owners.pop(found, None)
        elif found in self.owners:
            return
        elif is_single and self._waiting:
            for item in list(self._waiting):
                self._own(item, found)
            return
        slot = Item("answer", turn.at, turn=found, is_slot=True)
        self.items.append(slot)
        self.owners[found] = slot

    def _take_compaction(self, event: Compacted) -> None:
        if event.session != self.session:
            return
        last = self.items[-1] if self.items else None
        if last is not None and last.kind == "prompt" and last.injected == event.text:
            last.kind, last.text, last.injected = "compaction", event.text, None
            return
        mark = ("compaction", event.at, hash(event.text))
        if mark not in self._seen:
            self._seen.add(mark)
            item = Item("compaction", event.at, event.text)
            self.items.append(item)
            if self._summary is not None:
                self._own(item, self._summary)
        self._summary = None


def arrange(
    conversation: Conversation, turns: Sequence[TraceTurn], calls: Sequence[TraceCall]
) -> tuple[list[Item], dict[int, Item]]:
    """Return all items in order, and the item that each turn's cost stands at.

    Turns of which the tape has no words, and calls that it lacks, are placed by their times. Sums
    come last: they are known for the session, not for a moment.
    """
    owners = conversation.owners
    items = conversation.items
    for call in calls:
        item = conversation.calls.get(call.id)
        if item is not None and call.turn_id is not None and item.turn is None:
            item.turn = call.turn_id
            owners.setdefault(call.turn_id, item)
    free = [one for one in turns if one.id not in owners and not one.is_late]
    _match_by_time(items, [one for one in free if one.is_spoken], owners)
    early = [_make_slot(one) for one in free if one.id not in owners]
    early += [
        Item("call", one.at, call=one.id, turn=one.turn_id, tool=one.tool)
        for one in calls
        if one.id not in conversation.calls
    ]
    late = [
        Item("answer", one.at, turn=one.id, is_slot=True)
        for one in turns
        if one.is_late and one.id not in owners
    ]
    placed = _join_slots([*_merge(items, early), *late], {one.id for one in turns if one.is_spoken})
    kept = set(map(id, placed))
    owners = {turn: item for turn, item in owners.items() if id(item) in kept}
    # the call that a model call gave way to has its cost
    for item in placed:
        if item.turn is not None:
            owners.setdefault(item.turn, item)
    return placed, owners


def _as_result(call: ToolCall) -> Returned:
    """The result of a call that was recorded together with it."""
    name = call.name or call.key
    return Returned(
        call.session,
        name,
        text=call.result,
        is_error=call.is_error,
        exit_code=call.exit_code,
        timed_out=call.timed_out,
    )


def _make_slot(turn: TraceTurn) -> Item:
    """A model call of which the tape has no words."""
    if turn.role == "compaction":
        return Item("compaction", turn.at, turn=turn.id)
    return Item("answer", turn.at, turn=turn.id, is_slot=True)


def _match_by_time(
    items: Sequence[Item], free: Sequence[TraceTurn], owners: dict[int, Item]
) -> None:
    """Give each answer without a turn the latest model call that began since the answer before.

    For agents that log model calls apart from the conversation.
    """
    waiting = [one for one in free if one.at is not None]
    answer, place = None, 0
    for item in items:
        if item.turn is not None or item.answer is None or item.at is None:
            continue
        if item.answer == answer:
            continue
        answer, found = item.answer, None
        while place < len(waiting) and (waiting[place].at or 0) <= item.at:
            found, place = waiting[place], place + 1
        if found is not None:
            item.turn = found.id
            owners[found.id] = item


def _merge(items: Sequence[Item], early: list[Item]) -> list[Item]:
    """Return the items with others placed among them by time; those without a time come last."""
    latest = 2**63
    order = {"answer": 0, "compaction": 0, "call": 1}
    early.sort(key=lambda one: (latest if one.at is None else one.at, order[one.kind]))
    merged: list[Item] = []
    place = 0
    for item in items:
        while place < len(early) and item.at is not None:
            at = early[place].at
            if at is None or at >= item.at:
                break
            merged.append(early[place])
            place += 1
        merged.append(item)
    return [*merged, *early[place:]]


def _join_slots(items: Sequence[Item], spoken: set[int]) -> list[Item]:
    """Leave out model calls without words whose tool call comes next: it stands for them."""
    kept: list[Item] = []
    for item in items:
        last = kept[-1] if kept else None
        if (
            last is not None
            and last.is_slot
            and item.kind == "call"
            and item.turn == last.turn
            and item.turn in spoken
        ):
            kept.pop()
        kept.append(item)
    return kept
