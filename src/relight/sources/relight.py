"""Relight's own records: what a program told the recorder, one event a line.

Each line stands for itself, so that any stretch of them can be read alone. `session` opens,
`message` is what a person or a system said, `turn` a model call with the message it gave, `call`
a tool call with its result, `end` how it ended. Tokens are in disjoint buckets as everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from relight.injections import strip_block
from relight.model import Cost, Ending, Origin, OutcomeName, Parsed, Session, ToolCall, Turn, Usage
from relight.sources.reading import Reading, first_line, last_words

NAME = "relight"


class Event(Struct, omit_defaults=True, kw_only=True, tag_field="type"):
    """What all events say: whose they are, and when."""

    session: str
    at: int


class Opened(Event, tag="session"):
    model: str | None = None
    parent: str | None = None
    project: str | None = None
    title: str | None = None
    version: str | None = None


class Said(Event, tag="message"):
    """A message of the conversation that no model wrote."""

    message: dict[str, Any]


class Answered(Event, tag="turn"):
    id: str
    model: str | None = None
    provider: str | None = None
    role: str | None = None
    calls: int = 1
    usage: Usage = Usage()
    is_partial: bool = False
    cost: Cost | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None
    failure: str | None = None
    failure_text: str | None = None
    # as the model wrote it; its tool calls are numbered `<turn>:<place>`
    message: dict[str, Any] | None = None


class Called(Event, tag="call"):
    id: str
    tool: str
    turn: str | None = None
    # the id that the model gave it, by which the conversation joins the two
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    is_error: bool | None = None
    exit_code: int | None = None
    timed_out: bool | None = None
    duration_ms: int | None = None


class Ended(Event, tag="end"):
    how: Literal["told", "left", "interrupted"] = "left"
    outcome: OutcomeName | None = None
    why: str | None = None


AnyEvent = Opened | Said | Answered | Called | Ended
_decode = msgspec.json.Decoder(AnyEvent).decode


def find(environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
    """Nothing: a program's own records come through the recorder, not from files."""
    yield from ()


def folders(environment: Mapping[str, str]) -> list[Path]:
    return []


def read(lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
    """What these events say; there is nothing to remember between them."""
    reading = Reading()
    owner = None
    for number, line in enumerate(lines):
        if not line or line.isspace():
            continue
        try:
            event = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reading.bad_lines[number] = str(error)
            continue
        owner = owner or event.session
        _read_event(reading, event)
    return reading.finish(owner, b"")


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
            is_person = message.get("role") == "user"
            text = strip_block(text_of(message.get("content")) or "")
            title = first_line(text) if is_person else None
            if is_person:
                reading.hear(event.session, "user", text)
            seen = msgspec.structs.replace(
                seen, title=title, ending="prompt" if is_person else None
            )
        case Answered():
            _read_turn(reading, event)
            answer = text_of((event.message or {}).get("content"))
            is_adviser = event.role == "reference"
            if event.message is not None and not is_adviser:
                reading.hear(event.session, "assistant", answer)
            seen = msgspec.structs.replace(
                seen,
                ending=None if is_adviser else _ending(event),
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


def _ending(event: Answered) -> Ending | None:
    if event.failure == "interrupted":
        return "interrupted"
    if event.failure is not None:
        return "api_error"
    if event.message is None:
        return None
    return "call" if event.message.get("tool_calls") else "answer"


def _read_turn(reading: Reading, event: Answered) -> None:
    reading.see_turn(
        Turn(
            key=event.id,
            session=event.session,
            at=event.at,
            model=event.model,
            provider=event.provider,
            role=event.role,
            calls=event.calls,
            usage=event.usage,
            usage_status="partial" if event.is_partial else "final",
            cost=event.cost,
            duration_ms=event.duration_ms,
            first_token_ms=event.first_token_ms,
            failure=event.failure,
            failure_text=event.failure_text,
        )
    )
    if event.failure is not None or event.role == "reference":
        return  # what was asked for there was never done
    for place, call in enumerate((event.message or {}).get("tool_calls") or ()):
        function = call.get("function") or {}
        arguments = function.get("arguments")
        reading.open_call(
            ToolCall(
                key=f"{event.id}:{place}",
                session=event.session,
                turn=event.id,
                tool=str(function.get("name") or ""),
                at=event.at,
                arguments=arguments if isinstance(arguments, str) else None,
            )
        )


def _read_call(reading: Reading, event: Called) -> None:
    asked = reading.calls.get(event.id)
    reading.calls[event.id] = ToolCall(
        key=event.id,
        session=event.session,
        turn=event.turn,
        tool=event.tool,
        at=asked.at if asked else event.at,
        finished_at=event.at,
        arguments=event.arguments,
        result=event.result,
        is_error=event.is_error,
        exit_code=event.exit_code,
        timed_out=event.timed_out,
        duration_ms=event.duration_ms,
    )


def text_of(content: object) -> str | None:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    return content if isinstance(content, str) else None
