"""Seeds: the most instructive part of a session, as messages a new session can begin with.

A seed is valid under the rules of OpenAI and Anthropic by construction, alone and wrapped: it is
made of whole units, begins with the user's task, and has a second user message only after one of
the assistant's. It has no system prompt. The lines that mark it as an example are not part of it:
`injection.py` adds them, so that a seed can be stored and rendered in any form. Its tokens are
counted in the style in which it is sent.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.chat.messages import Entry, list_own, read_entries
from relight.chat.shorten import shorten_text
from relight.chat.tokens import estimate_messages, estimate_tokens
from relight.errors import RelightError, check_choice, check_count
from relight.text import strip_hidden
from relight.warm.units import (
    CallUnit,
    Message,
    make_ids_unique,
    read_units,
    render_text,
    show_unit,
)

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
# of 2,000 tokens together less than 10,000
CHARACTERS_PER_TOKEN = 4.75

Count = Callable[[Sequence[Message]], int]


def count_text(seed: Sequence[Message]) -> int:
    """Return the estimated tokens of a seed as text, with the end of its last line."""
    return estimate_tokens(f"{render_text(seed)}\n") if seed else 0


def measure_text(seed: Sequence[Message]) -> int:
    """Return the tokens that a seed takes of its budget as text; long words take more.

    Agents cut off what a hook adds beyond 10,000 characters, so a token is given a length.
    """
    characters = len(render_text(seed)) + 1
    return max(count_text(seed), ceil(characters / CHARACTERS_PER_TOKEN))


# what is sent, and the measure of its tokens
STYLES: dict[str, Count] = {"text": measure_text, "messages": estimate_messages}


class _Limits(Struct, frozen=True, kw_only=True):
    """The limits of a seed: its messages, its tokens in a style, and its calls if there is one."""

    messages: int
    tokens: int
    calls: int | None
    count: Count

    def allow(self, seed: Sequence[Message]) -> bool:
        return len(seed) <= self.messages and self.count(seed) <= self.tokens


class _Piece(Struct, frozen=True):
    """Messages that are taken together or not at all, and their token cost."""

    at: int
    messages: tuple[Message, ...]
    cost: int
    unit: CallUnit | None = None

    @property
    def calls(self) -> int:
        return len(self.unit.entry.calls) if self.unit else 0


class _Choice:
    """The pieces taken so far, and the remaining budget."""

    def __init__(self, opening: _Piece, limits: _Limits) -> None:
        self.opening, self.limits = opening, limits
        self.pieces: dict[int, _Piece] = {}
        self.room, self.tokens = limits.messages - 1, limits.tokens - opening.cost
        self.calls = limits.calls

    def take(self, *pieces: _Piece) -> bool:
        """Take these pieces if all of them fit; they replace those at the same place."""
        olds = [self.pieces[one.at] for one in pieces if one.at in self.pieces]
        tokens = sum(one.cost for one in pieces) - sum(one.cost for one in olds)
        room = sum(len(one.messages) for one in pieces) - sum(len(one.messages) for one in olds)
        calls = sum(one.calls for one in pieces) - sum(one.calls for one in olds)
        if tokens > self.tokens or room > self.room:
            return False
        if self.calls is not None:
            if calls > self.calls:
                return False
            self.calls -= calls
        self.tokens -= tokens
        self.room -= room
        self.pieces |= {one.at: one for one in pieces}
        return True

    def show(self, unit: CallUnit, length: int) -> _Piece:
        """Return a unit as a piece, with results and text of one of the lengths."""
        result_limit, text_limit = _LENGTHS[length]
        messages = show_unit(unit, result_limit=result_limit, text_limit=text_limit)
        return _Piece(unit.at, messages, self.limits.count(messages), unit)

    def finish(self) -> list[Message]:
        """Return the messages in order, with new call ids; empty if nothing was taken.

        The tokens of the whole may exceed the sum of its pieces: then the last piece taken is
        dropped.
        """
        while self.pieces:
            pieces = [self.opening, *(self.pieces[at] for at in sorted(self.pieces))]
            seed = make_ids_unique(message for piece in pieces for message in piece.messages)
            if self.limits.allow(seed):
                return seed
            self.pieces.popitem()
        return []


def extract_seed(
    messages: Iterable[object],
    *,
    max_messages: int = 30,
    max_tokens: int = 2000,
    max_calls: int | None = None,
    calls: Iterable[Mapping[str, Any]] | None = None,
    style: str = "messages",
) -> list[Message]:
    """Return the most instructive part of a session within a budget, as OpenAI chat messages.

    The seed takes, in this order: the task; successful actions, each as different as possible
    from those taken, and a failure only with its correction; other messages; longer results. It
    has the order of the session. The same messages always give the same seed.

    `style` is how it will be sent, and so how its tokens are counted: "text" needs fewer than
    "messages". `max_calls` limits the calls, which are the examples in it.
    """
    if max_messages < 0 or max_tokens < 0:
        raise RelightError("max_messages and max_tokens must be 0 or more")
    if max_calls is not None:
        check_count("max_calls", max_calls)
    count = STYLES[check_choice("style", style, tuple(STYLES))]
    own = read_entries(list_own(messages))
    entries = [replace(one, text=strip_hidden(one.text)) for one in own]
    asked = (at for at, one in enumerate(entries) if one.role == "user" and one.text.strip())
    task_at = next(asked, -1)
    task = entries[task_at].text if task_at >= 0 else _NO_TASK
    opening = _speak(count, -1, ("user", task, min(_TASK_CHARACTERS, max_tokens)))
    limits = _Limits(messages=max_messages, tokens=max_tokens, calls=max_calls, count=count)
    choice = _Choice(opening, limits)
    exchanges = list(_read_exchanges(entries, task_at, count=count))
    requests = _find_requests(entries, exchanges)
    _choose_units(choice, read_units(entries, facts=calls), requests)
    if choice.pieces:  # a request without any of its actions teaches nothing
        exchanges = [one for one in exchanges if requests.get(one.at) is not one]
    _choose_words(choice, exchanges)
    _choose_ending(choice, entries, requests)
    for length in range(1, len(_LENGTHS)):
        for piece in list(choice.pieces.values()):
            if piece.unit:
                choice.take(choice.show(piece.unit, length))
    return choice.finish()


def _read_exchanges(entries: Sequence[Entry], task_at: int, *, count: Count) -> Iterator[_Piece]:
    """Yield the user messages after the task, each with the assistant message before it.

    The place of such an exchange is that of the assistant message.
    """
    for at, (before, entry) in enumerate(pairwise(entries)):
        if _is_spoken(before) and entry.role == "user" and entry.text.strip() and at + 1 != task_at:
            report = ("assistant", before.text, _REPORTED_CHARACTERS)
            yield _speak(count, at, report, ("user", entry.text, _SPOKEN_CHARACTERS))


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
    pieces = {at: choice.show(unit, 0) for at, unit in units.items()}

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
    share = choice.limits.tokens * _WORDS_PERCENT // 100 if choice.pieces else choice.limits.tokens
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
            said = ("assistant", entries[at].text, _SPOKEN_CHARACTERS)
            choice.take(_speak(choice.limits.count, at, said))
            break


def _is_spoken(entry: Entry) -> bool:
    """True for an assistant message with text and without calls."""
    return entry.role == "assistant" and not entry.calls and bool(entry.text.strip())


def _speak(count: Count, at: int, *said: tuple[str, str, int]) -> _Piece:
    messages = tuple(
        {"role": role, "content": shorten_text(text.strip(), limit)} for role, text, limit in said
    )
    return _Piece(at, messages, count(messages))
