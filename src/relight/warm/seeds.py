"""Seeds: the most instructive part of a session, as messages a new session can begin with.

A seed is valid under the rules of OpenAI and Anthropic by construction, alone and wrapped: it is
made of whole units, begins with the user's task, and has a second user message only after one of
the assistant's. It has no system prompt. The lines that mark it as an example are not part of it:
`injection.py` adds them, so that a seed can be stored and rendered in any form.
"""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.chat.messages import Entry, list_own, read_entries
from relight.chat.shorten import shorten_text
from relight.chat.tokens import estimate_messages
from relight.errors import RelightError
from relight.text import strip_hidden
from relight.warm.units import CallUnit, Message, make_ids_unique, read_units, show_unit

_TASK_CHARACTERS = 600
_SPOKEN_CHARACTERS = 300
_REPORTED_CHARACTERS = 200  # of an assistant message before another user message
# Characters of a result and of the text before a call: short for all, then longer as room allows.
_LENGTHS = ((100, 60), (200, 100), (400, 150), (800, 200), (1600, 300), (4000, 600))
_LESSON_WORTH = 1.0
_WORDS_PERCENT = 30  # of the tokens, if there are actions to show
# After such an ending the next user message is an answer; otherwise it is a new request.
_QUESTION = re.compile(r"\?|\bplease\b", re.IGNORECASE)
_ENDING_CHARACTERS = 200
_NO_TASK = "(The task was not recorded.)"


class _Piece(Struct, frozen=True):
    """Messages that are taken together or not at all, and their token cost."""

    at: int
    messages: tuple[Message, ...]
    cost: int
    unit: CallUnit | None = None


class _Choice:
    """The pieces taken so far, and the remaining budget."""

    def __init__(self, opening: _Piece, max_messages: int, max_tokens: int) -> None:
        self.opening = opening
        self.pieces: dict[int, _Piece] = {}
        self.max_messages, self.max_tokens = max_messages, max_tokens
        self.room, self.tokens = max_messages - 1, max_tokens - opening.cost

    def take(self, *pieces: _Piece) -> bool:
        """Take these pieces if all of them fit; they replace those at the same place."""
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
        """Return the messages in order, with new call ids; empty if nothing was taken.

        The tokens of the whole may exceed the sum of its pieces: then the last piece taken is
        dropped.
        """
        while self.pieces:
            pieces = [self.opening, *(self.pieces[at] for at in sorted(self.pieces))]
            seed = make_ids_unique(message for piece in pieces for message in piece.messages)
            if len(seed) <= self.max_messages and estimate_messages(seed) <= self.max_tokens:
                return seed
            self.pieces.popitem()
        return []


def extract_seed(
    messages: Iterable[object],
    *,
    max_messages: int = 30,
    max_tokens: int = 2000,
    calls: Iterable[Mapping[str, Any]] | None = None,
) -> list[Message]:
    """Return the most instructive part of a session within a budget, as OpenAI chat messages.

    The seed takes, in this order: the task; successful actions, each as different as possible
    from those taken, and a failure only with its correction; other messages; longer results. It
    has the order of the session. The same messages always give the same seed.
    """
    if max_messages < 0 or max_tokens < 0:
        raise RelightError("max_messages and max_tokens must be 0 or more")
    own = read_entries(list_own(messages))
    entries = [replace(one, text=strip_hidden(one.text)) for one in own]
    asked = (at for at, one in enumerate(entries) if one.role == "user" and one.text.strip())
    task_at = next(asked, -1)
    task = entries[task_at].text if task_at >= 0 else _NO_TASK
    opening = _speak(-1, ("user", task, min(_TASK_CHARACTERS, max_tokens)))
    choice = _Choice(opening, max_messages, max_tokens)
    exchanges = list(_read_exchanges(entries, task_at))
    requests = _find_requests(entries, exchanges)
    _choose_units(choice, read_units(entries, facts=calls), requests)
    if choice.pieces:  # a request without any of its actions teaches nothing
        exchanges = [one for one in exchanges if requests.get(one.at) is not one]
    _choose_words(choice, exchanges)
    _choose_ending(choice, entries, requests)
    for length in range(1, len(_LENGTHS)):
        for piece in list(choice.pieces.values()):
            if piece.unit:
                choice.take(_show(piece.unit, length))
    return choice.finish()


def _read_exchanges(entries: Sequence[Entry], task_at: int) -> Iterator[_Piece]:
    """Yield the user messages after the task, each with the assistant message before it.

    The place of such an exchange is that of the assistant message.
    """
    for at, (before, entry) in enumerate(pairwise(entries)):
        if _is_spoken(before) and entry.role == "user" and entry.text.strip() and at + 1 != task_at:
            report = ("assistant", before.text, _REPORTED_CHARACTERS)
            yield _speak(at, report, ("user", entry.text, _SPOKEN_CHARACTERS))


def _find_requests(entries: Sequence[Entry], exchanges: Iterable[_Piece]) -> dict[int, _Piece]:
    """Return the request that each place in the conversation belongs to, unless it is the task.

    Without it, the actions for a later request would look like part of the task.
    """
    requests = {
        one.at: one
        for one in exchanges
        if not _QUESTION.search(entries[one.at].text[-_ENDING_CHARACTERS:])
    }
    found: dict[int, _Piece] = {}
    latest = None
    for at in range(len(entries)):
        latest = requests.get(at, latest)
        if latest:
            found[at] = latest
    return found


def _choose_units(
    choice: _Choice, units: Mapping[int, CallUnit], requests: Mapping[int, _Piece]
) -> None:
    """Take units by the worth they add per token.

    Each repetition of a feature is worth half, and a repeated action nothing. Worth only falls as
    more is taken, so a unit that still leads when weighed again is the best. Once a request is
    shown, its other units become cheaper, and all are weighed again.
    """
    shown: Counter[str] = Counter()
    pieces = {at: _show(unit, 0) for at, unit in units.items()}

    def find_new(unit: CallUnit) -> list[_Piece]:
        bundle = [pieces[unit.at]] if unit.cure is None else [pieces[unit.cure], pieces[unit.at]]
        if unit.at in requests:
            bundle.insert(0, requests[unit.at])
        return [one for one in bundle if one.at not in choice.pieces]

    def weigh(unit: CallUnit) -> float:
        worth = 0.0 if unit.cure is None else _LESSON_WORTH * 0.5 ** shown["lesson"]
        cost = 0
        for piece in find_new(unit):
            cost += piece.cost
            if (one := piece.unit) is None:
                continue
            if all(shown[f"action {name}"] for name in one.actions):
                return 0.0
            if one.cure is None:
                worth += sum(value * 0.5 ** shown[name] for name, value in one.features)
        return worth / cost if cost else 0.0

    def weigh_all() -> list[tuple[float, int]]:
        return sorted((-weigh(unit), at) for at, unit in units.items())

    heap = weigh_all()  # a sorted list is a heap
    while heap:
        unit = units[heapq.heappop(heap)[1]]
        density = weigh(unit)
        if heap and density < -heap[0][0]:
            heapq.heappush(heap, (-density, unit.at))
            continue
        new = find_new(unit)
        if density > 0 and choice.take(*new):
            taken = [piece.unit for piece in new if piece.unit]
            shown.update(name for one in taken for name, _ in one.features)
            shown["lesson"] += unit.cure is not None
            if len(taken) < len(new):
                heap = weigh_all()


def _choose_words(choice: _Choice, exchanges: Sequence[_Piece]) -> None:
    """Take exchanges: those before a taken action first, then the shortest."""
    share = choice.max_tokens * _WORDS_PERCENT // 100 if choice.pieces else choice.max_tokens
    left = [one for one in exchanges if one.at not in choice.pieces]
    for piece in sorted(left, key=lambda one: (one.at + 2 not in choice.pieces, one.cost, one.at)):
        if piece.cost <= share and choice.take(piece):
            share -= piece.cost


def _choose_ending(
    choice: _Choice, entries: Sequence[Entry], requests: Mapping[int, _Piece]
) -> None:
    """Take the assistant's last message about what is shown."""
    for at in range(len(entries) - 1, max(choice.pieces, default=-1), -1):
        request = requests.get(at - 1)
        is_shown = request is None or request.at in choice.pieces
        if is_shown and _is_spoken(entries[at]):
            choice.take(_speak(at, ("assistant", entries[at].text, _SPOKEN_CHARACTERS)))
            break


def _is_spoken(entry: Entry) -> bool:
    """True for an assistant message with text and without calls."""
    return entry.role == "assistant" and not entry.calls and bool(entry.text.strip())


def _speak(at: int, *said: tuple[str, str, int]) -> _Piece:
    messages = tuple(
        {"role": role, "content": shorten_text(text.strip(), limit)} for role, text, limit in said
    )
    return _Piece(at, messages, estimate_messages(messages))


def _show(unit: CallUnit, length: int) -> _Piece:
    result_limit, text_limit = _LENGTHS[length]
    messages = show_unit(unit, result_limit=result_limit, text_limit=text_limit)
    return _Piece(unit.at, messages, estimate_messages(messages), unit)
