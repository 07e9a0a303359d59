"""Relight's own records: what a program told the recorder, one event a line.

Each line stands for itself, so that any stretch of them can be read alone. `session` opens,
`message` is what a person or a system said, `turn` a model call with the message it gave, `call`
a tool call with its result, `end` how it ended. Tokens are in disjoint buckets as everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from relight.chat.injected import strip_block
from relight.model import Ending, Moment, Origin, OutcomeName, Parsed, Session, ToolCall, Turn
from relight.sources.reading import Reading, content_text, first_line, last_words

NAME = "relight"

T = TypeVar("T", Turn, ToolCall)


class Event(Struct, omit_defaults=True, kw_only=True, tag_field="type"):
    """What all events say: whose they are, and when."""

    session: str
    at: Moment


class Opened(Event, tag="session"):
    model: str | None = None
    parent: str | None = None
    project: str | None = None
    title: str | None = None
    version: str | None = None


class Said(Event, tag="message"):
    """A message of the conversation that no model wrote."""

    message: dict[str, Any]


class Answered(Turn, frozen=True, omit_defaults=True, tag_field="type", tag="turn"):
    """A model call; `message` is as the model wrote it, its calls are numbered `<turn>:<place>`."""

    key: str = field(name="id")
    at: Moment = field()
    message: dict[str, Any] | None = None


class Called(ToolCall, frozen=True, omit_defaults=True, tag_field="type", tag="call"):
    """A tool call with its result, told when it had ended."""

    key: str = field(name="id")
    at: Moment = field()
    # the id that the model gave it, by which the conversation joins the two
    call_id: str | None = None


class Ended(Event, tag="end"):
    how: Literal["told", "left", "interrupted"] = "left"
    outcome: OutcomeName | None = None
    why: str | None = None


AnyEvent = Opened | Said | Answered | Called | Ended
decode_event = msgspec.json.Decoder(AnyEvent).decode


def find(environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
    """Nothing: a program's own records come through the recorder, not from files."""
    yield from ()


def folders(environment: Mapping[str, str]) -> list[Path]:
    return []


def read(lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
    """What these events say; there is nothing to remember between them."""
    reading = Reading()
    reading.read_lines(lines, lambda line: _read_event(reading, decode_event(line)))
    return reading.finish(next(iter(reading.sessions), None), b"")


def _read_event(reading: Reading, event: AnyEvent) -> None:
    seen = Session(key=event.session, started_at=event.at, ended_at=event.at)
    match event:
        case Opened():
            seen = msgspec.structs.replace(
                seen,
                parent=event.parent,
                parent_kind="subagent" if event.parent else None,
                project=event.project,
                title=event.title,
                model=event.model,
                version=event.version,
            )
        case Said(message=message):
            if message.get("role") == "user":
                text = strip_block(content_text(message.get("content")) or "")
                reading.hear(event.session, "user", text)
                seen = msgspec.structs.replace(
                    seen, title=first_line(text), ending="prompt", prompted_at=event.at
                )
        case Answered():
            _read_turn(reading, event)
            answer = content_text((event.message or {}).get("content"))
            is_adviser = event.role == "reference"
            if event.message is not None and not is_adviser:
                reading.hear(event.session, "assistant", answer)
            seen = msgspec.structs.replace(
                seen,
                ending=None if is_adviser else _ending(event, answer),
                answer=None if is_adviser else last_words(answer),
            )
        case Called():
            _read_call(reading, event)
            reading.hear(event.session, "tool")
            seen = msgspec.structs.replace(seen, ending="result")
        case Ended():
            ending: Ending | None = "interrupted" if event.how == "interrupted" else None
            seen = msgspec.structs.replace(seen, ending=ending, told_outcome=event.outcome)
    reading.see_session(seen)


def _ending(event: Answered, answer: str | None) -> Ending | None:
    if event.failure == "interrupted":
        return "interrupted"
    if event.failure is not None:
        return "api_error"
    if event.message is None:
        return None
    if event.message.get("tool_calls"):
        return "call"
    return "answer" if (answer or "").strip() else "empty"


def _read_turn(reading: Reading, event: Answered) -> None:
    reading.see_turn(_take(Turn, event))
    if event.failure is not None or event.role == "reference":
        return  # what was asked for there was never done
    for place, call in read_asked(event.message):
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        reading.open_call(
            ToolCall(
                key=f"{event.key}:{place}",
                session=event.session,
                turn=event.key,
                tool=str(function.get("name") or ""),
                at=event.at,
                arguments=arguments if isinstance(arguments, str) else None,
            )
        )


def _read_call(reading: Reading, event: Called) -> None:
    asked = reading.calls.get(event.key)
    call = _take(ToolCall, event)
    at = asked.at if asked else event.at
    reading.calls[event.key] = msgspec.structs.replace(call, at=at, finished_at=event.at)


def _take(kind: type[T], event: Struct) -> T:
    """What an event tells, without what is only the tape's."""
    return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})


def read_asked(message: Mapping[str, Any] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The calls that a message asks for, each with its place; what is no call has a place too."""
    calls = (message or {}).get("tool_calls")
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            yield place, call
