"""Relight's own records: a program's events, one a line.

Each line can be read alone, and so can any stretch of lines. `session` opens a
session, `message` is from a person or a system, `turn` is a model call with its message, `call` a
tool call with its result, `end` the end of the session. Token buckets are disjoint.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from relight.chat.blocks import OPENING, find_injected, skip_injected, strip_block
from relight.model import Ending, Moment, Origin, OutcomeName, Session, ToolCall, Turn
from relight.sources.events import Called, Event, Returned, Said, Transcript
from relight.sources.reading import BAD_LINE, Reader, content_text, first_line, last_words

NAME = "relight"

T = TypeVar("T", Turn, ToolCall)


class RecorderEvent(Struct, omit_defaults=True, kw_only=True, tag_field="type"):
    """The session and the time of an event."""

    session: str
    at: Moment


class OpenedEvent(RecorderEvent, tag="session"):
    model: str | None = None
    parent: str | None = None
    project: str | None = None
    title: str | None = None
    version: str | None = None


class MessageEvent(RecorderEvent, tag="message"):
    """A message of the conversation that no model wrote."""

    message: dict[str, Any]


class TurnEvent(Turn, frozen=True, omit_defaults=True, tag_field="type", tag="turn"):
    """A model call; `message` is as the model wrote it, its calls are numbered `<turn>:<place>`."""

    key: str = field(name="id")
    at: Moment = field()
    message: dict[str, Any] | None = None


class CallEvent(ToolCall, frozen=True, omit_defaults=True, tag_field="type", tag="call"):
    """A tool call with its result, recorded when it has ended."""

    key: str = field(name="id")
    at: Moment = field()
    # the model's own id, which joins the call and its result in the messages
    call_id: str | None = None


class EndEvent(RecorderEvent, tag="end"):
    how: Literal["told", "left", "interrupted"] = "left"
    outcome: OutcomeName | None = None
    why: str | None = None


AnyEvent = OpenedEvent | MessageEvent | TurnEvent | CallEvent | EndEvent
decode_event = msgspec.json.Decoder(AnyEvent).decode


class RecorderReader(Reader):
    """Reads recorder events, which need no state between them."""

    @staticmethod
    def find(folder: Path) -> Iterator[Origin]:
        """Nothing: a program's records come through the recorder, not from files."""
        yield from ()

    @classmethod
    def read_messages(cls, lines: Iterable[bytes], session: str) -> Transcript:
        """The messages as the program gave them, with all fields."""
        messages: list[dict[str, Any]] = []
        facts: list[dict[str, Any]] = []
        for line in lines:
            try:
                event = decode_event(line)
            except BAD_LINE:
                continue  # counted when it was recorded
            if event.session != session:
                continue
            match event:
                case MessageEvent(message=message):
                    messages.append(message)
                case TurnEvent(message=dict() as message, role=role) if role != "reference":
                    messages.append(message)
                case CallEvent(call_id=str() as call_id):
                    content = event.result or ""
                    messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
                    known = {"exit_code": event.exit_code, "timed_out": event.timed_out}
                    facts.append({"call_id": call_id, "is_error": event.is_error, **known})
                case _:
                    pass
        return Transcript(list(skip_injected(messages)), facts)

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterable[bytes]:
        """The records without an example that Relight put before the conversation."""
        listed = list(lines)
        if not any(OPENING.encode() in line for line in listed):
            return listed
        said: list[dict[str, Any]] = []
        for line in listed:
            try:
                said.append(getattr(decode_event(line), "message", None) or {})
            except BAD_LINE:
                said.append({})
        injected = find_injected((one.get("role"), one.get("content")) for one in said)
        return [line for line, is_example in zip(listed, injected, strict=True) if not is_example]

    def save(self) -> bytes:
        return b""  # each line stands for itself

    def read_line(self, line: bytes) -> Iterator[Event]:
        event = decode_event(line)
        session = event.session
        seen = Session(key=session, started_at=event.at, ended_at=event.at)
        match event:
            case OpenedEvent():
                seen = msgspec.structs.replace(
                    seen,
                    parent=event.parent,
                    parent_kind="subagent" if event.parent else None,
                    project=event.project,
                    title=event.title,
                    model=event.model,
                    version=event.version,
                )
            case MessageEvent(message=message):
                if message.get("role") == "user":
                    text = strip_block(content_text(message.get("content")) or "")
                    yield Said(session, "user", text, at=event.at)
                    seen = msgspec.structs.replace(
                        seen, title=first_line(text), ending="prompt", prompted_at=event.at
                    )
            case TurnEvent():
                yield _take(Turn, event)
                answer = content_text((event.message or {}).get("content"))
                if event.role != "reference":
                    if event.message is not None:
                        yield Said(session, "assistant", answer, event.key, at=event.at)
                    seen = msgspec.structs.replace(
                        seen, ending=_ending(event, answer), answer=last_words(answer)
                    )
                yield from _read_calls(event)
            case CallEvent():
                yield msgspec.structs.replace(_take(ToolCall, event), finished_at=event.at)
                yield Returned(session)
                seen = msgspec.structs.replace(seen, ending="result")
            case EndEvent():
                ending: Ending | None = "interrupted" if event.how == "interrupted" else None
                seen = msgspec.structs.replace(seen, ending=ending, told_outcome=event.outcome)
        self.owner = self.owner or session
        yield seen


def _ending(event: TurnEvent, answer: str | None) -> Ending | None:
    if event.failure == "interrupted":
        return "interrupted"
    if event.failure is not None:
        return "api_error"
    if event.message is None:
        return None
    if event.message.get("tool_calls"):
        return "call"
    return "answer" if (answer or "").strip() else "empty"


def _read_calls(event: TurnEvent) -> Iterator[Event]:
    if event.failure is not None or event.role == "reference":
        return  # no one runs the calls of a failed turn or an adviser
    for place, call in read_asked(event.message):
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        asked = ToolCall(
            key=f"{event.key}:{place}",
            session=event.session,
            turn=event.key,
            tool=str(function.get("name") or ""),
            at=event.at,
            arguments=arguments if isinstance(arguments, str) else None,
        )
        yield Called(asked, str(call.get("id") or ""), event.key)


def _take(kind: type[T], event: Struct) -> T:
    """The noun that an event holds, without the fields that are only on tape."""
    return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})


def read_asked(message: Mapping[str, Any] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The calls that a message asks for, each with its place in the list."""
    calls = (message or {}).get("tool_calls")
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            yield place, call
