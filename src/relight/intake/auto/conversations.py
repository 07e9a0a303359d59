"""Find the session that a request continues: it begins with an earlier request and its answer.

Programs send a conversation again with every call. Texts are compared without white space, and
calls by their ids, since SDKs and programs write the same answer in several ways. System prompts
are not compared: many contain the time.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Self, TypeAlias

from msgspec import Struct

from relight.chat.requests import WireFormat, WireItem, WirePart, WireRequest, read_parts
from relight.chat.responses import WireAnswer

# how many ends of conversations are remembered
MOST_HEADS = 10_000
# the kind of a part, and what is compared of it
Print: TypeAlias = tuple[str, str | int]


class Trail(Struct, frozen=True):
    """A conversation up to some item, as a number; the pieces of one answer are joined."""

    state: int = 0
    texts: tuple[str, ...] = ()
    has_answer: bool = False
    # the number of the conversation before the last item, if an answer ended there
    end: int | None = None

    def close(self) -> int:
        """Return the number of all that was added so far."""
        return hash((self.state, "".join(self.texts))) if self.texts else self.state

    def follow(self, prints: Iterable[Print]) -> Self:
        """Return the trail after an item with these compared parts."""
        state, texts, has_answer, end = self.state, self.texts, self.has_answer, None
        for kind, value in prints:
            if kind == "text":
                texts, has_answer = (*texts, str(value)), True
                continue
            closed = type(self)(state, texts).close()
            if kind != "call" and has_answer:
                end = closed
            state, texts, has_answer = hash((closed, kind, value)), (), kind == "call"
        return type(self)(state, texts, has_answer, end)


class Continuation(Struct, frozen=True):
    """The session that a request continues, if any, and the parts that are new in it."""

    session: str | None
    new: list[WirePart]
    # the conversation up to this request
    trail: Trail


class Conversations:
    """The ends of the conversations so far, and the sessions they belong to."""

    def __init__(self) -> None:
        self._heads: dict[object, str] = {}

    def find(self, request: WireRequest, *, named: str | None = None) -> Continuation:
        """Return what a request continues; `named` is its session, if the program names it."""
        read = _note_trails(request)
        trail = request.last.note if request.last else Trail()
        session, new = self._choose(request, trail, named)
        parts = [read.get(item.end) or request.read_item(item) for item in new]
        return Continuation(named or session, [one for some in parts for one in some], trail)

    def _choose(
        self, request: WireRequest, trail: Trail, named: str | None
    ) -> tuple[str | None, list[WireItem]]:
        """The session that goes on, and the items that are new in it."""
        if (failed := self._heads.pop(("failed", named, trail.close()), None)) is not None:
            return failed, []
        asked: list[WireItem] | None = None
        items: list[WireItem] = []
        for item in _list_backwards(request.last):
            items.append(item)
            if (end := item.note.end) is None:
                continue
            if (found := self._heads.get((named, end))) is not None:
                return found, items[::-1]
            asked = asked or items[::-1]
        for followed in request.follows:
            if (found := self._heads.get((named, followed))) is not None:
                return found, items[::-1]
        # what stands before the last answer was not asked by this program, or is an example
        return None, asked or items[::-1]

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
        parts = [part for item in answer.items for part in read_parts(request.format, item)]
        trail = continuation.trail.follow(_list_prints(request.format, parts))
        self._note((named, trail.close()), session)
        for known in (answer.id, *request.follows) if request.format == "responses" else ():
            self._note((named, known), session)

    def note_failure(
        self, session: str, continuation: Continuation, *, named: str | None = None
    ) -> None:
        """Remember a request without an answer: a retry sends the same."""
        self._note(("failed", named, continuation.trail.close()), session)

    def _note(self, head: object, session: str) -> None:
        self._heads.pop(head, None)
        self._heads[head] = session
        if len(self._heads) > MOST_HEADS:
            del self._heads[next(iter(self._heads))]


def _list_backwards(item: WireItem | None) -> Iterator[WireItem]:
    while item is not None:
        yield item
        item = item.previous


def _note_trails(request: WireRequest) -> dict[int, list[WirePart]]:
    """Note the trail at each item that has none; return the parts of these, by their ends."""
    new = list(takewhile(lambda item: item.note is None, _list_backwards(request.last)))
    before = new[-1].previous if new else None
    trail = before.note if before else Trail()
    read = {}
    for item in reversed(new):
        read[item.end] = request.read_item(item)
        trail = item.note = trail.follow(_list_prints(request.format, read[item.end]))
    return read


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
