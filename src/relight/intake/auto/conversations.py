"""Find the session that a request continues: it begins with an earlier request and its answer.

Programs send a conversation again with every call. Texts are compared without white space, and
calls by their ids, since SDKs and programs write the same answer in several ways. System prompts
are not compared: many contain the time.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from relight.chat.requests import WireFormat, WirePart, WireRequest, read_parts
from relight.chat.responses import WireAnswer

# how many ends of conversations, and how many items of them, are remembered
MOST_HEADS = 10_000
MOST_ITEMS = 50_000
# the kind of a part, and what is compared of it
Print: TypeAlias = tuple[str, str | int]


class Continuation(Struct, frozen=True):
    """The session that a request continues, if any, and the parts that are new in it."""

    session: str | None
    new: list[WirePart]
    # identifies the conversation up to this request
    state: int


class Conversations:
    """The ends of the conversations so far, and the sessions they belong to."""

    def __init__(self) -> None:
        self._heads: dict[object, str] = {}
        self._prints: dict[tuple[str, int], list[Print]] = {}
        # the last request: the next one mostly begins with the same items
        self._last: tuple[WireFormat, list[Raw], list[list[Print]]] = ("chat", [], [])

    def find(self, request: WireRequest, *, named: str | None = None) -> Continuation:
        """Return what a request continues; `named` is its session, if the program names it."""
        chain = _Chain(hash(named))
        read: dict[int, list[WirePart]] = {}
        ends: list[tuple[int, int]] = []
        answered = 0
        looked = self._repeat(request)
        for number, item in enumerate(request.items):
            if number == len(looked):
                prints, parts = self._look(request.format, item)
                looked.append(prints)
                if parts is not None:
                    read[number] = parts
            for kind, value in looked[number]:
                if kind not in ("text", "call") and chain.has_answer:
                    ends.append((chain.close(), number))
                    answered = number
                chain.add(kind, value)
        self._last = (request.format, request.items, looked)
        state = chain.close()
        session, first = self._choose(request, state, ends, named)
        if first is None:
            # what stands before the last answer was not asked by this program, or is an example
            first = answered
        items = [*enumerate(request.items)][first:]
        new = [read.get(number) or _read(request.format, item) for number, item in items]
        return Continuation(named or session, [part for parts in new for part in parts], state)

    def _repeat(self, request: WireRequest) -> list[list[Print]]:
        """Return the compared parts of the items that the last request begins with too.

        To compare bytes takes a tenth of the time that it takes to hash them.
        """
        name, items, prints = self._last
        if name != request.format:
            return []
        pairs = enumerate(zip(items, request.items, strict=False))
        same = next((number for number, (old, new) in pairs if old != new), None)
        return prints[: min(len(items), len(request.items)) if same is None else same]

    def _choose(
        self, request: WireRequest, state: int, ends: list[tuple[int, int]], named: str | None
    ) -> tuple[str | None, int | None]:
        """The session that goes on, and the first item that is new; None if all may be."""
        if (failed := self._heads.pop(("failed", state), None)) is not None:
            return failed, len(request.items)
        for end, number in reversed(ends):
            if (found := self._heads.get(end)) is not None:
                return found, number
        for followed in request.follows:
            if (found := self._heads.get((named, followed))) is not None:
                return found, 0
        return None, None

    def _look(self, name: WireFormat, item: Raw) -> tuple[list[Print], list[WirePart] | None]:
        """Return the compared part of an item, and its parts if it was read for the first time."""
        key = (name, hash(bytes(item)))
        if (known := self._prints.get(key)) is not None:
            return known, None
        parts = _read(name, item)
        if len(self._prints) >= MOST_ITEMS:
            self._prints.clear()
        prints = self._prints[key] = list(_list_prints(name, parts))
        return prints, parts

    def note_answer(
        self,
        session: str,
        continuation: Continuation,
        request: WireRequest,
        answer: WireAnswer,
        *,
        named: str | None = None,
    ) -> None:
        """Remember where a conversation stands after an answer."""
        chain = _Chain(continuation.state)
        parts = [part for item in answer.items for part in read_parts(request.format, item)]
        for kind, value in _list_prints(request.format, parts):
            chain.add(kind, value)
        self._note(chain.close(), session)
        for known in (answer.id, *request.follows) if request.format == "responses" else ():
            self._note((named, known), session)

    def note_failure(self, session: str, continuation: Continuation) -> None:
        """Remember a request without an answer: a retry sends the same."""
        self._note(("failed", continuation.state), session)

    def _note(self, head: object, session: str) -> None:
        self._heads.pop(head, None)
        self._heads[head] = session
        if len(self._heads) > MOST_HEADS:
            del self._heads[next(iter(self._heads))]


class _Chain:
    """A number for a conversation up to some point; the pieces of one answer are joined."""

    def __init__(self, state: int) -> None:
        self._state = state
        self._texts: list[str] = []
        self.has_answer = False

    def add(self, kind: str, value: str | int) -> None:
        if kind == "text":
            self._texts.append(str(value))
            self.has_answer = True
            return
        self.close()
        self._state = hash((self._state, kind, value))
        self.has_answer = kind == "call"

    def close(self) -> int:
        """Return the number of all that was added so far."""
        if self._texts:
            self._state = hash((self._state, "".join(self._texts)))
            self._texts.clear()
        return self._state


def _read(name: WireFormat, item: Raw) -> list[WirePart]:
    try:
        return read_parts(name, msgspec.json.decode(item))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def _list_prints(name: WireFormat, parts: Iterable[WirePart]) -> Iterator[Print]:
    for part in parts:
        text = "".join(part.text.split())
        # LiteLLM repeats calls of Gemini without their ids
        call = "" if name == "gemini" else part.call
        match part.kind:
            case "text":
                yield "text", text
            case "call":
                yield "call", hash((call, part.tool))
            case "user" | "result":
                yield part.kind, hash((call, text))
