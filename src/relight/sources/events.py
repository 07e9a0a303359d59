"""The events of a session, as readers yield them, and the chat messages built from them.

A reader yields nouns of `relight.model` (sessions, turns, totals, skills, jobs, …) and the events
below. `reading.Collector` turns them into index rows, `MessageWriter` into chat messages. Several
records of one session or turn are merged.

The texts that can be searched are quoted each time that they stand in the records, whatever the
stretch that is read: so the same texts are found however a file was cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.chat.blocks import strip_block
from relight.model import (
    Cost,
    Job,
    Latency,
    LimitReport,
    Passage,
    Run,
    Session,
    SkillEntry,
    Timing,
    ToolCall,
    Total,
    Turn,
    Usage,
)

# of a result, which may be a whole file, only the beginning can be searched
RESULT_CHARACTERS = 500


class Said(Struct, frozen=True):
    """Words of a person or a model.

    `answer` names the response that the words are part of, which is its turn's key where that is
    known; without it they belong to the response before them. `is_new` is False if the message
    they are part of has been counted, `is_typed` if the agent itself wrote in a person's place.
    """

    session: str
    role: Literal["user", "assistant"]
    text: str | None = None
    answer: str | None = None
    is_new: bool = True
    at: int | None = None
    is_typed: bool = True


class Compacted(Struct, frozen=True):
    """The agent replaced the conversation so far by a summary.

    If the summary was also `Said` in a person's place, this comes right after it.
    """

    session: str
    at: int | None = None
    text: str | None = None


class Called(Struct, frozen=True):
    """A tool call; its result comes later, unless it is finished.

    `id` is the model's own name for the call, if that is not the key; a call whose `id` is empty
    is left out of messages.
    """

    call: ToolCall
    id: str | None = None
    answer: str | None = None


class Returned(Struct, frozen=True):
    """The result of a call; `name` is the call's `name`, else its key, `id` as in `Called`.

    A result without a name is counted as a message and belongs to no call.
    """

    session: str
    name: str | None = None
    at: int | None = None
    text: str | None = None
    is_error: bool | None = None
    exit_code: int | None = None
    timed_out: bool | None = None
    id: str | None = None


class Measured(Struct, frozen=True):
    """The exit code and duration of a call, known before its result."""

    session: str
    name: str
    exit_code: int | None = None
    duration_ms: int | None = None


class Attributed(Struct, frozen=True):
    """The turn that made these calls, for agents that record it after them.

    The calls are as they were asked for: their results may be in an earlier stretch of the file.
    """

    calls: list[ToolCall]
    turn: str


class Reported(Struct, frozen=True):
    """A model call that telemetry reports of a session whose agent writes its own records.

    The call's record gets the figures that it lacks; a call without a record becomes a turn.
    """

    turn: Turn


Noun = Session | Turn | ToolCall | Total | SkillEntry | Job | Run | Latency | Timing | LimitReport
Event = Said | Compacted | Called | Returned | Measured | Attributed | Reported | Noun


class Transcript(Struct, frozen=True):
    """The messages of a session, and facts about its calls that their texts do not hold."""

    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]] = []


class MessageWriter:
    """Builds the messages of one session in order; the calls of one response share a message."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.messages: list[dict[str, Any]] = []
        self.facts: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        # the ids of calls, by the names that their results have, and how often each was used
        self._ids: dict[str, str] = {}
        self._uses: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """Add what an event of this session says; other sessions and nouns change nothing."""
        match event:
            case Said(session=self.session, text=str() as text) if text:
                self._say(event, text)
            case Called(call=call) if call.session == self.session and event.id != "":
                arguments = "{}" if call.arguments is None else call.arguments
                function = {"name": call.tool, "arguments": arguments}
                asked = {"id": self._make_id(event), "type": "function", "function": function}
                self._find_answer(event.answer).setdefault("tool_calls", []).append(asked)
            case Returned(session=self.session, name=str() as name):
                key = self._ids.get(name) or _name(event.id, name)
                content = event.text or ""
                self.messages.append({"role": "tool", "tool_call_id": key, "content": content})
                self._know(key, "is_error", event.is_error)
            case Measured(session=self.session, name=name):
                self._know(self._ids.get(name, name), "exit_code", event.exit_code)

    def finish(self) -> Transcript:
        return Transcript(self.messages, list(self.facts.values()))

    def _make_id(self, called: Called) -> str:
        """The call's id; one that an earlier call has too is numbered, as APIs want it."""
        call = called.call
        own = _name(called.id, call.key)
        uses = self._uses[own] = self._uses.get(own, 0) + 1
        found = self._ids[call.name or call.key] = own if uses == 1 else f"{own}_{uses}"
        return found

    def _say(self, said: Said, text: str) -> None:
        if said.role == "user":
            self.messages.append({"role": "user", "content": strip_block(text)})
            return
        message = self._find_answer(said.answer)
        message["content"] = f"{message['content']}\n{text}" if message["content"] else text

    def _know(self, key: str, fact: str, value: object) -> None:
        if value is not None:
            self.facts.setdefault(key, {"call_id": key})[fact] = value

    def _find_answer(self, name: str | None) -> dict[str, Any]:
        """The message of a response: by its name, else the last message if a model wrote it."""
        if name is not None and name in self._answers:
            return self._answers[name]
        last = self.messages[-1] if self.messages else None
        if name is None and last is not None and last["role"] == "assistant":
            return last
        message: dict[str, Any] = {"role": "assistant", "content": None}
        self.messages.append(message)
        if name is not None:
            self._answers[name] = message
        return message


def _name(own: str | None, key: str) -> str:
    return key if own is None else own


def failed_turn(
    key: str,
    session: str,
    text: str,
    *,
    at: int | None,
    status: int | None = None,
    model: str | None = None,
    provider: str | None = None,
    duration_ms: int | None = None,
    request: str | None = None,
) -> Turn:
    """A model call that failed, with the tokens that such a failure costs."""
    from relight.judging.failures import classify_error

    failure = classify_error(text, status=status)
    return Turn(
        key=key,
        session=session,
        at=at,
        model=model,
        provider=provider,
        calls=0,
        usage=failure.usage,
        usage_status="final" if failure.is_refusal else "partial",
        failure=failure.kind,
        failure_text=text[:500],
        duration_ms=duration_ms,
        request=request,
    )


def as_copied(session: Session, forked_at: int | None) -> Session:
    """A fork as a copied record shows it: without its own time and end."""
    return replace(
        session,
        parent_kind="fork",
        forked_at=forked_at,
        started_at=None,
        ended_at=None,
        ending=None,
        prompted_at=None,
        answer=None,
    )


# of the facts about a session, those that the first record decides, the last one, and all of them
_FIRST = ("parent", "parent_kind", "project", "title", "told_outcome", "script_error")
_LAST = ("branch", "model", "version", "ending", "answer")
_LATEST = ("forked_at", "ended_at", "prompted_at")


def merge_sessions(found: Sequence[Session]) -> Session:
    """Return a session from all that was found about it: first facts stay, times widen.

    All at once: nearly each record has something about its session.
    """
    if len(found) == 1:
        return found[0]
    backwards = found[::-1]
    facts: dict[str, Any] = {name: _find_fact(found, name) for name in _FIRST}
    facts |= {name: _find_fact(backwards, name) for name in _LAST}
    facts |= {name: max(_list_times(found, name), default=None) for name in _LATEST}
    return replace(
        found[0], **facts, started_at=min(_list_times(found, "started_at"), default=None)
    )


def _find_fact(found: Sequence[Session], name: str) -> Any:
    return next(filter(None, map(attrgetter(name), found)), None)


def _list_times(found: Sequence[Session], name: str) -> list[int]:
    return [at for at in map(attrgetter(name), found) if at is not None]


def merge_turns(known: Turn, more: Turn) -> Turn:
    """Return a turn from two records of it: the fullest usage and the earliest time hold."""
    if known.at is not None and more == replace(known, at=more.at, request=more.request):
        return known if more.at is None or more.at >= known.at else replace(known, at=more.at)
    fuller = more if _has_more(more.usage, known.usage) else known
    clearer = more if len(more.failure_text or "") > len(known.failure_text or "") else known
    is_final = "final" in (known.usage_status, more.usage_status)
    return replace(
        known,
        at=earliest(known.at, more.at),
        usage=fuller.usage,
        cost=_merge_costs(fuller.cost, *(one.cost for one in (known, more))),
        usage_status="final" if is_final else known.usage_status,
        model=known.model or more.model,
        provider=known.provider or more.provider,
        duration_ms=latest(known.duration_ms, more.duration_ms),
        first_token_ms=earliest(known.first_token_ms, more.first_token_ms),
        failure=clearer.failure,
        failure_text=clearer.failure_text,
    )


def _has_more(usage: Usage, known: Usage) -> bool:
    """True if a usage has more output, or as much and more of its buckets."""
    more, less = usage.output or 0, known.output or 0
    return more > less or (more == less and _counts(usage) > _counts(known))


def _counts(usage: Usage) -> int:
    return sum(getattr(usage, name) is not None for name in usage.__struct_fields__)


def _merge_costs(cost: Cost | None, *recorded: Cost | None) -> Cost | None:
    """The cost, included in a plan if one of the records says so."""
    if not any(one is not None and one.status == "included" for one in recorded):
        return cost
    nanos, source = (cost.nanos, cost.source) if cost else (None, "source")
    return Cost(nanos, "included", source)


def earliest(a: int | None, b: int | None) -> int | None:
    return min(a, b) if a is not None and b is not None else (b if a is None else a)


def latest(a: int | None, b: int | None) -> int | None:
    return max(a, b) if a is not None and b is not None else (b if a is None else a)


def quote_call(call: ToolCall) -> Iterator[Passage]:
    """Yield a call's arguments, and its result if they were recorded together."""
    yield Passage(call.session, "call", call.arguments or "", call.tool)
    if call.result:
        yield Passage(call.session, "result", call.result[:RESULT_CHARACTERS], call.tool)


def quote_result(result: Returned, asked: Mapping[str, ToolCall]) -> Iterator[Passage]:
    """Yield the beginning of a result, with the tool if its call is among those asked for."""
    if result.name is not None and result.text:
        call = asked.get(result.name)
        text = result.text[:RESULT_CHARACTERS]
        yield Passage(result.session, "result", text, call.tool if call else None)
