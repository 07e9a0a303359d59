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

from relight.chat.injected import find_injected, strip_block
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
from relight.sources.chat.lines import ChatMessage, ChatSession, decode_session, read_usage
from relight.sources.files import find_files, read_piece
from relight.sources.reading import (
    INTERRUPTED,
    Reading,
    content_text,
    first_line,
    last_words,
    write_value,
)
from relight.times import read_time

NAME = "chat"


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
    reading.read_lines(lines, lambda line: _read_session(reading, decode_session(line), origin))
    return reading.finish(next(iter(reading.sessions), None), b"")


def name_session(session: ChatSession) -> str:
    """A session's key: its id, else a name made of its content."""
    return str(session.id) if session.id is not None else _content_name(session)


def _content_name(session: ChatSession) -> str:
    return blake2b(msgspec.json.encode(session.messages), digest_size=8).hexdigest()


def _read_session(reading: Reading, session: ChatSession, origin: Origin) -> None:
    key = name_session(session)
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
        # what follows a person's word is later than what went before, though no clock tells it
        is_again = message.role == "user" and prompted_at is not None
        at = read_time(message.timestamp) or at + is_again
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
            prompted_at = at if ending == "prompt" else prompted_at
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
                usage=read_usage(session.usage),
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


def _own_messages(session: ChatSession) -> list[ChatMessage]:
    """The messages without an example that Relight put before them: it is no work of theirs."""
    injected = find_injected((one.role, one.content) for one in session.messages)
    return [one for one, is_not in zip(session.messages, injected, strict=True) if not is_not]


def _ending(message: ChatMessage) -> Ending | None:
    match message.role:
        case "assistant":
            if message.tool_calls:
                return "call"
            return "answer" if (content_text(message.content) or "").strip() else "empty"
        case "tool":
            return "result"
        case "user":
            is_stopped = (content_text(message.content) or "").startswith(INTERRUPTED)
            return "interrupted" if is_stopped else "prompt"
    return None


def _told_outcome(outcome: Any) -> OutcomeName | None:
    """What the program says came of it: a word, or true and false."""
    told: dict[Any, OutcomeName] = {True: "success", False: "failure"}
    told |= {"success": "success", "failure": "failure", "unknown": "unknown"}
    return told.get(outcome) if isinstance(outcome, bool | str) else None


def _read_answer(
    reading: Reading,
    turn: str,
    key: str,
    session: ChatSession,
    message: ChatMessage,
    at: int | None,
) -> None:
    if session.usage is None:
        reading.see_turn(
            Turn(
                key=turn,
                session=key,
                at=at,
                model=message.model or session.model,
                provider=session.provider,
                usage=read_usage(message.usage) if message.usage else Usage(),
                usage_status="final" if message.usage else "partial",
            )
        )
    for call in message.tool_calls or ():
        reading.open_call(
            ToolCall(
                # programs number the calls of each answer anew: call_0, call_1 …
                key=f"{turn}:{call.id}",
                name=f"{key}:{call.id}",
                session=key,
                turn=turn if session.usage is None else f"{key}#total",
                tool=call.function.name,
                at=at,
                arguments=write_value(call.function.arguments),
            )
        )
