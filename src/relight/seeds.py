"""Seeds: the most instructive part of a session, as messages a new session can begin with.

A seed is valid under the rules of OpenAI and Anthropic by construction, alone and wrapped: it is
made of whole units only (a message with all its calls and all their results), begins with the
user's task, and the user speaks again only after the assistant has. It holds no system prompt.
"""

import heapq
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.commands import split_stages
from relight.conversations import Call, Entry, read_arguments, read_entries, read_text
from relight.errors import RelightError
from relight.excerpts import shorten_arguments, shorten_text
from relight.meanings import understand_call
from relight.measures import judge_calls
from relight.tokens import estimate_messages

Message = dict[str, Any]

_TASK_CHARACTERS = 600
_SPOKEN_CHARACTERS = 300
_ARGUMENT_CHARACTERS = 1200
# Characters of a result and of the words before a call: first for all, then longer as room allows.
_LENGTHS = ((240, 80), (480, 160), (960, 240), (2000, 400), (4000, 800))
_LESSONS = 3
_NO_TASK = "(The task was not recorded.)"
_NO_OUTPUT = "(no output)"
_FAILED = "[This call failed; the next one is how it was put right.]\n"
# What an action is worth by its meaning: those that change something are what a task is about.
_WORTH = {"write": 3.0, "update": 3.0, "comm": 3.0, "vcs": 2.0, "ops": 2.0, "run": 2.0, "plan": 0.2}
_TOOL_WORTH, _VERB_WORTH, _PATH_WORTH, _LESSON_WORTH = 1.0, 0.7, 0.3, 1.0
_PATH = re.compile(r"[\w@~.-]*/[\w@./-]+|\b[\w-]+\.[A-Za-z]{1,5}\b")


class _Unit(Struct, frozen=True):
    """One message of the assistant with all its calls, and what it would teach.

    `features` are what it shows, with their worth; `actions` are its calls, told apart by tool
    and arguments. `cure` is the place of the unit that puts its failures right.
    """

    at: int
    entry: Entry
    failures: tuple[bool, ...]
    features: tuple[tuple[str, float], ...]
    actions: frozenset[str]
    cure: int | None = None


class _Piece(Struct, frozen=True):
    """Messages that are taken together or not at all, and their tokens."""

    at: int
    messages: tuple[Message, ...]
    cost: int
    unit: _Unit | None = None


class _Choice:
    """The pieces taken so far, and what is left of the budget."""

    def __init__(self, opening: _Piece, max_messages: int, max_tokens: int) -> None:
        self.opening = opening
        self.pieces: dict[int, _Piece] = {}
        self.max_messages, self.max_tokens = max_messages, max_tokens
        self.room, self.tokens = max_messages - 1, max_tokens - opening.cost

    def take(self, *pieces: _Piece) -> bool:
        """Take these pieces, in place of those at the same place, if all of them fit."""
        olds = [self.pieces[one.at] for one in pieces if one.at in self.pieces]
        tokens = sum(one.cost for one in pieces) - sum(one.cost for one in olds)
        room = sum(len(one.messages) for one in pieces) - sum(len(one.messages) for one in olds)
        if tokens > self.tokens or room > self.room:
            return False
        self.tokens -= tokens
        self.room -= room
        self.pieces |= {one.at: one for one in pieces}
        return True

    def finish(self) -> list[Message]:
        """The messages, in order, with ids of their own; none if there is nothing to teach.

        Tokens of the whole may differ a little from the sum of its pieces: the last piece taken
        is the first to go.
        """
        while self.pieces:
            pieces = [self.opening, *(self.pieces[at] for at in sorted(self.pieces))]
            seed = name_calls([message for piece in pieces for message in piece.messages])
            if len(seed) <= self.max_messages and estimate_messages(seed) <= self.max_tokens:
                return seed
            self.pieces.popitem()
        return []


def extract_seed(
    messages: Sequence[object],
    *,
    max_messages: int = 30,
    max_tokens: int = 2000,
    calls: Iterable[Mapping[str, Any]] | None = None,
) -> list[Message]:
    """The part of a session that teaches most within a budget, as new OpenAI chat messages.

    Taken are, in this order: the task; actions that worked, each as different as can be from
    those taken, and a failure only with what put it right; what else was said; then more of the
    results. They stand in the order of the source. The same messages always give the same seed.
    """
    if max_messages < 0 or max_tokens < 0:
        raise RelightError("max_messages and max_tokens must be 0 or more")
    entries = read_entries(messages)
    task = next((one.text for one in entries if one.role == "user" and one.text.strip()), _NO_TASK)
    opening = _speak(-1, [("user", task)], limit=min(_TASK_CHARACTERS, max_tokens))
    choice = _Choice(opening, max_messages, max_tokens)
    _choose_units(choice, _read_units(entries, calls))
    _choose_words(choice, entries)
    for length in range(1, len(_LENGTHS)):
        for piece in list(choice.pieces.values()):
            if piece.unit:
                choice.take(_show(piece.unit, length))
    return choice.finish()


def _read_units(
    entries: Sequence[Entry], facts: Iterable[Mapping[str, Any]] | None
) -> dict[int, _Unit]:
    """The units of a session that are whole, by their place; failed ones if they were cured."""
    made = [call for entry in entries for call in entry.calls]
    verdicts = iter(judge_calls(made, facts=facts))
    units: list[_Unit] = []
    for at, entry in enumerate(entries):
        failures = tuple(next(verdicts).label == "error" for _ in entry.calls)
        if failures and all(call.has_result for call in entry.calls):
            features, actions = _read_features(entry.calls)
            units.append(_Unit(at, entry, failures, features, actions))
    kept: dict[int, _Unit] = {}
    for unit, after in zip_longest(units, units[1:]):
        if not any(unit.failures):
            kept[unit.at] = unit
        elif after and not any(after.failures) and _cures(after, unit):
            kept[unit.at] = replace(unit, cure=after.at)
    return kept


def _cures(unit: _Unit, failed: _Unit) -> bool:
    """Whether a unit does again, in another way, what failed before."""
    tools = {call.tool for call, is_bad in zip(failed.entry.calls, failed.failures) if is_bad}
    return bool(tools & {call.tool for call in unit.entry.calls}) and unit.actions != failed.actions


def _read_features(
    calls: Sequence[Call],
) -> tuple[tuple[tuple[str, float], ...], frozenset[str]]:
    features: dict[str, float] = {}
    actions: set[str] = set()
    for call in calls:
        known = understand_call(call.tool, call.arguments)
        fields = read_arguments(call.arguments)
        text = json.dumps(fields, sort_keys=True, default=str) if fields else str(call.arguments)
        action = f"{call.tool} {text}"
        actions.add(action)
        features[f"tool {call.tool}"] = _TOOL_WORTH
        features[f"action {action}"] = _WORTH.get(known.meaning, 1.0)
        for stage in split_stages(known.command) if known.command else ():
            features[f"verb {stage.program} {stage.action if stage.program == 'git' else ''}"] = (
                _VERB_WORTH
            )
        for path in _PATH.findall(text[:_ARGUMENT_CHARACTERS]):
            features[f"path {path}"] = _PATH_WORTH
    return tuple(features.items()), frozenset(actions)


def _choose_units(choice: _Choice, units: Mapping[int, _Unit]) -> None:
    """Take units by what they add to those taken, for each token they cost.

    Showing a thing again is worth half each time, and the same action again nothing. Worth only
    falls as more is taken, so a unit that is still best after being weighed anew is the best.
    """
    shown: Counter[str] = Counter()
    pieces = {at: _show(unit, 0) for at, unit in units.items()}

    def weigh(unit: _Unit) -> float:
        bundle = [unit] if unit.cure is None else [units[unit.cure], unit]
        new = [one for one in bundle if one.at not in choice.pieces]
        cost = sum(pieces[one.at].cost for one in new)
        worth = _LESSON_WORTH * 0.5 ** shown["lesson"] if unit.cure is not None else 0.0
        for one in new:
            if one.cure is None and any(not shown[f"action {action}"] for action in one.actions):
                worth += sum(value * 0.5 ** shown[name] for name, value in one.features)
        return worth / cost if cost else 0.0

    heap = [(-weigh(unit), at) for at, unit in units.items()]
    heapq.heapify(heap)
    while heap:
        unit = units[heapq.heappop(heap)[1]]
        density = weigh(unit)
        if density <= 0:
            continue
        if heap and density < -heap[0][0]:
            heapq.heappush(heap, (-density, unit.at))
            continue
        bundle = [unit] if unit.cure is None else [units[unit.cure], unit]
        new = [one for one in bundle if one.at not in choice.pieces]
        if choice.take(*(pieces[one.at] for one in new)):
            for one in new:
                shown.update(name for name, _ in one.features)
            shown["lesson"] += unit.cure is not None


def _choose_words(choice: _Choice, entries: Sequence[Entry]) -> None:
    """Take what user and assistant said around the actions, and the assistant's last word.

    A user's message is taken with the assistant's before it, so that roles alternate; those that
    lead to an action which was taken come first, then the short ones.
    """
    exchanges: list[tuple[bool, int, _Piece]] = []
    for at, (before, entry) in enumerate(pairwise(entries)):
        is_answer = before.role == "assistant" and not before.calls and entry.role == "user"
        if is_answer and before.text.strip() and entry.text.strip():
            said = [("assistant", before.text), ("user", entry.text)]
            piece = _speak(at, said, limit=_SPOKEN_CHARACTERS)
            exchanges.append((at + 2 not in choice.pieces, piece.cost, piece))
    for _, _, piece in sorted(exchanges, key=lambda one: (*one[:2], one[2].at)):
        choice.take(piece)
    last = max((at for at, one in enumerate(entries) if one.role == "assistant"), default=0)
    ending = entries[last] if entries else None
    if ending and not ending.calls and ending.text.strip() and last not in choice.pieces:
        choice.take(_speak(last, [("assistant", ending.text)], limit=_SPOKEN_CHARACTERS))


def _speak(at: int, said: Iterable[tuple[str, str]], *, limit: int) -> _Piece:
    messages = tuple(
        {"role": role, "content": shorten_text(text.strip(), limit)} for role, text in said
    )
    return _Piece(at, messages, estimate_messages(messages))


def _show(unit: _Unit, length: int) -> _Piece:
    """A unit as messages, its results and words cut to one of `_LENGTHS`."""
    result_limit, text_limit = _LENGTHS[length]
    calls: list[Message] = []
    results: list[Message] = []
    for at, (call, is_failed) in enumerate(zip(unit.entry.calls, unit.failures, strict=True)):
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.tool)[:64] or "tool"
        function = {
            "name": name,
            "arguments": shorten_arguments(call.arguments, _ARGUMENT_CHARACTERS),
        }
        key = make_call_id(f"{unit.at} {at} {name} {function['arguments']}")
        calls.append({"id": key, "type": "function", "function": function})
        text = shorten_text(read_text(call.result), result_limit)
        text = text if text.strip() else _NO_OUTPUT
        results.append(
            {
                "role": "tool",
                "tool_call_id": key,
                "content": _FAILED + text if is_failed else text,
            }
        )
    words = shorten_text(unit.entry.text.strip(), text_limit) or None
    asked = {"role": "assistant", "content": words, "tool_calls": calls}
    messages = (asked, *results)
    return _Piece(unit.at, messages, estimate_messages(messages), unit)
