"""Chat files: one session a line, as OpenAI chat messages.

A line is a list of messages, or an object with `messages` and, optionally, `id`, `model`,
`provider`, `started_at`, `project`, `usage`, `calls` and `outcome`. `prompt_tokens` includes what
was cached. A session without an id is named by its content, so reading it twice adds nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.injections import find_injected, strip_block
from relight.model import (
    Ending,
    Mark,
    Origin,
    OutcomeName,
    Parsed,
    Piece,
    Session,
    ToolCall,
    Turn,
    Usage,
)
from relight.sources.files import BOM, find_files, read_piece
from relight.sources.reading import (
    BAD_LINE,
    Count,
    Reading,
    decode_mended,
    exclusive_usage,
    first_line,
    last_words,
)
from relight.times import read_time

NAME = "chat"


class _PromptDetails(Struct):
    cached_tokens: Count | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: Count | None = None


class _Usage(Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Function(Struct):
    name: str = ""
    arguments: Any = None


class _Call(Struct):
    id: str = ""
    function: _Function = msgspec.field(default_factory=_Function)


class _Message(Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    timestamp: Any = None


class _Known(Struct):
    """What is known of a call beside its text."""

    call_id: str
    exit_code: int | None = None
    timed_out: bool | None = None
    is_error: bool | None = None


class _Session(Struct):
    messages: list[_Message]
    id: str | int | None = None
    model: str | None = None
    provider: str | None = None
    started_at: Any = None
    project: str | None = None
    usage: _Usage | None = None
    calls: list[_Known] | None = None
    outcome: Any = None


_decode = msgspec.json.Decoder(list[_Message] | _Session).decode


def find(environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
    """The file given, or the `.jsonl` files below the folder given: there is no usual place."""
    if folder:
        yield from find_files(folder)


def folders(environment: Mapping[str, str]) -> list[Path]:
    return []


def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """Each new line as a piece of its own, since each is a session with its own tape.

    The mark moves on behind the last of them: lines that were recorded before a crash are
    recorded again, which changes nothing.
    """
    mark, more = marks.get(""), True
    while more:
        piece, more = read_piece(NAME, origin, mark)
        start = piece.before.offset
        # the file's time dates sessions that have none of their own
        seen = msgspec.structs.replace(piece.before, modified_ns=piece.after.modified_ns)
        for line in piece.raw.split(b"\n"):
            if line.strip():
                yield Piece(source=NAME, raw=line, before=piece.before, after=seen, start=start)
            start += len(line) + 1
        yield msgspec.structs.replace(piece, raw=b"")
        mark = piece.after


def read(lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
    """The session that each line holds."""
    reading = Reading()
    owner = None
    for number, line in enumerate(lines):
        if not line or line.isspace():
            continue
        try:
            decoded = decode_mended(_decode, line.removeprefix(BOM))
        except BAD_LINE as error:
            reading.bad_lines[number] = str(error) or type(error).__name__
            continue
        session = decoded if isinstance(decoded, _Session) else _Session(messages=decoded)
        key = name_session(session)
        owner = owner or key
        _read_session(reading, key, session, origin)
    return reading.finish(owner, b"")


def name_line(line: bytes) -> str:
    """The key of the session that a line holds: its id, else a name made of its content."""
    decoded = _decode(line)
    session = decoded if isinstance(decoded, _Session) else _Session(messages=decoded)
    return name_session(session)


def name_session(session: _Session) -> str:
    return str(session.id) if session.id is not None else _content_name(session)


def _content_name(session: _Session) -> str:
    return blake2b(msgspec.json.encode(session.messages), digest_size=8).hexdigest()


def _read_session(reading: Reading, key: str, session: _Session, origin: Origin) -> None:
    # without a time of its own a session is dated by its file: the best witness there is
    started_at = read_time(session.started_at) or origin.modified_ns // 1_000_000
    at = started_at
    answers = 0
    known = {call.call_id: call for call in session.calls or ()}
    title = answer = ending = prompted_at = None
    for message in _own_messages(session):
        ending = _ending(message) or ending
        if message.role in ("user", "assistant", "tool"):
            text = None if message.role == "tool" else content_text(message.content)
            reading.hear(key, message.role, strip_block(text or ""))  # type: ignore[arg-type]
        at = read_time(message.timestamp) or at
        if message.role == "assistant":
            answers += 1
            answer = content_text(message.content) or answer
            _read_answer(reading, f"{key}#{answers}", key, session, message, at)
        elif message.role == "tool" and message.tool_call_id:
            facts = known.get(message.tool_call_id)
            reading.close_call(
                f"{key}:{message.tool_call_id}",
                finished_at=at,
                result=content_text(message.content),
                is_error=facts.is_error if facts else None,
                exit_code=facts.exit_code if facts else None,
                timed_out=facts.timed_out if facts else None,
            )
        elif message.role == "user":
            prompted_at = at
            title = title or first_line(strip_block(content_text(message.content) or ""))
    if session.usage is not None:
        reading.see_turn(
            Turn(
                key=f"{key}#total",
                session=key,
                at=started_at,
                model=session.model,
                provider=session.provider,
                calls=max(answers, 1),
                usage=_read_usage(session.usage),
                usage_status="reconciled",
            )
        )
    reading.see_session(
        Session(
            key=key,
            project=session.project,
            title=title,
            model=session.model,
            started_at=started_at,
            ended_at=at,
            ending=ending,
            prompted_at=prompted_at,
            answer=last_words(answer),
            told_outcome=_told_outcome(session.outcome),
        )
    )


def _own_messages(session: _Session) -> list[_Message]:
    """The messages without an example that Relight put before them: it is no work of theirs."""
    injected = find_injected((one.role, one.content) for one in session.messages)
    return [one for one, is_not in zip(session.messages, injected, strict=True) if not is_not]


def _ending(message: _Message) -> Ending | None:
    match message.role:
        case "assistant":
            if message.tool_calls:
                return "call"
            return "answer" if (content_text(message.content) or "").strip() else "empty"
        case "tool":
            return "result"
        case "user":
            return "prompt"
    return None


def _told_outcome(outcome: Any) -> OutcomeName | None:
    """What the program says came of it: a word, or true and false."""
    told: dict[Any, OutcomeName] = {True: "success", False: "failure"}
    told |= {"success": "success", "failure": "failure", "unknown": "unknown"}
    return told.get(outcome) if isinstance(outcome, bool | str) else None


def _read_answer(
    reading: Reading, turn: str, key: str, session: _Session, message: _Message, at: int | None
) -> None:
    if session.usage is None:
        reading.see_turn(
            Turn(
                key=turn,
                session=key,
                at=at,
                model=message.model or session.model,
                provider=session.provider,
                usage=_read_usage(message.usage) if message.usage else Usage(),
                usage_status="final" if message.usage else "partial",
            )
        )
    for call in message.tool_calls or ():
        arguments = call.function.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        reading.open_call(
            ToolCall(
                # programs number the calls of each answer anew: call_0, call_1 …
                key=f"{turn}:{call.id}",
                name=f"{key}:{call.id}",
                session=key,
                turn=turn if session.usage is None else f"{key}#total",
                tool=call.function.name,
                at=at,
                arguments=arguments,
            )
        )


def _read_usage(usage: _Usage) -> Usage:
    prompt = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    output = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    details = usage.completion_tokens_details
    return exclusive_usage(
        prompt, cached, output, reasoning=details.reasoning_tokens if details else None
    )


def content_text(content: Any) -> str | None:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    return content if isinstance(content, str) else None
