"""Chat files: one session a line, as OpenAI chat messages.

A line is a list of messages, or an object with `messages` and, optionally, `id`, `model`,
`provider`, `started_at`, `project`, `usage`, `calls` and `outcome`. A session without an id is
named by its content, so reading it twice adds nothing. `exported` reads the lines that
`relight export` wrote.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.blocks import find_injected, skip_injected, strip_block
from relight.chat.messages import decode_mended
from relight.chat.usage import FoundUsage, read_usage
from relight.model import (
    Ending,
    Mark,
    Origin,
    OutcomeName,
    Piece,
    Session,
    Turn,
)
from relight.sources.events import Event, Returned, Said, Transcript
from relight.sources.exported import decode_exported, read_exported
from relight.sources.files import BOM, read_pieces
from relight.sources.reading import (
    BAD_LINE,
    INTERRUPTED,
    Reader,
    content_text,
    first_line,
    last_words,
)
from relight.sources.sessions import make_called
from relight.times import read_time

NAME = "chat"
OUTCOMES: dict[str | bool, OutcomeName] = {
    True: "success",
    False: "failure",
    "success": "success",
    "failure": "failure",
    "unknown": "unknown",
}


class CallFunction(Struct):
    name: str = ""
    arguments: Any = None


class ChatCall(Struct):
    id: str = ""
    function: CallFunction = msgspec.field(default_factory=CallFunction)


class ChatMessage(Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    timestamp: Any = None


class CallFacts(Struct):
    """Facts about a call that its text does not hold."""

    call_id: str
    exit_code: int | None = None
    timed_out: bool | None = None
    is_error: bool | None = None


class ChatSession(Struct):
    messages: list[ChatMessage]
    id: str | int | None = None
    model: str | None = None
    provider: str | None = None
    started_at: Any = None
    project: str | None = None
    usage: dict[str, Any] | None = None
    calls: list[CallFacts] | None = None
    outcome: Any = None
    # set in the lines of `relight export`, whose sessions are named by `session_id`
    relight_export: int | None = None
    session_id: str | None = None


_decode = msgspec.json.Decoder(list[ChatMessage] | ChatSession).decode


def decode_session(line: bytes) -> ChatSession:
    decoded = decode_mended(_decode, line.removeprefix(BOM))
    return decoded if isinstance(decoded, ChatSession) else ChatSession(messages=decoded)


class ChatReader(Reader):
    """Reads the session that each line holds."""

    has_fetch = True

    @staticmethod
    def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        """Each new line as a piece, since each is a session with its own tape.

        The mark moves on behind the last of them: lines that were recorded before a crash are
        recorded again, which changes nothing.
        """
        for piece in read_pieces(origin, marks.get(""), source=NAME):
            start = piece.before.offset
            # the file's time dates sessions that have no time
            seen = msgspec.structs.replace(piece.before, modified_ns=piece.after.modified_ns)
            for line in piece.raw.split(b"\n"):
                if line.strip():
                    yield Piece(source=NAME, raw=line, before=piece.before, after=seen, start=start)
                start += len(line) + 1
            # behind the lines, or it would clear what was noted of the first one
            yield msgspec.structs.replace(piece, raw=b"", start=piece.after.offset)

    @classmethod
    def read_messages(cls, lines: Iterable[bytes], session: str) -> Transcript:
        """The messages as the session's line has them, with all fields."""
        found = Transcript([])
        for data in lines:
            try:
                if find_chat_key(decode_session(data)) != session:
                    continue
                line = decode_mended(msgspec.json.decode, data.removeprefix(BOM))
            except BAD_LINE:
                continue  # counted when it was recorded
            listed = line["messages"] if isinstance(line, dict) else line
            facts = line.get("calls") if isinstance(line, dict) else None
            messages = [one for one in listed if isinstance(one, dict)]
            found = Transcript(list(skip_injected(messages)), facts or [])
        return found

    def save(self) -> bytes:
        return b""  # each line stands for itself

    def read_line(self, line: bytes) -> Iterator[Event]:
        session = decode_session(line)
        key = find_chat_key(session)
        if session.relight_export is not None:
            # whole or not at all: a session without its turns would seem to cost nothing
            events = [*read_exported(decode_mended(decode_exported, line.removeprefix(BOM)))]
            self.owner = self.owner or key
            yield from events
            return
        # a session without a time is dated by its file; a tape alone does not know when that was
        started_at = read_time(session.started_at) or self.origin.modified_ns // 1_000_000 or None
        at = started_at
        answers = 0
        known = {call.call_id: call for call in session.calls or ()}
        title = answer = ending = before = prompted_at = None
        for message in _own_messages(session):
            if (now := _ending(message)) is not None:
                before, ending = (ending if now == "prompt" else before), now
            # what follows a person's words is later than they are, though no clock says so
            is_again = message.role == "user" and prompted_at is not None
            at = read_time(message.timestamp) or (None if at is None else at + is_again)
            text = content_text(message.content)
            match message.role:
                case "user":
                    yield Said(key, "user", text, at=at)
                    prompted_at = at if ending == "prompt" else prompted_at
                    title = title or first_line(strip_block(text or ""))
                case "assistant":
                    answers += 1
                    answer = text or answer
                    turn = f"{key}#{answers}"
                    yield Said(key, "assistant", strip_block(text or ""), turn, at=at)
                    yield from _read_answer(turn, key, session, message, at)
                case "tool":
                    yield _read_result(key, message, known, at)
        if session.usage is not None:
            total = read_usage(session.usage)
            yield Turn(
                key=f"{key}#total",
                session=key,
                at=started_at,
                model=session.model,
                provider=session.provider,
                calls=max(answers, 1),
                usage=total.usage,
                usage_status="reconciled" if total.status == "final" else "partial",
            )
        # A file ends where its writer cut it. A last word without an answer, such as thanks, says
        # nothing of how the work ended.
        if ending == "prompt" and before == "answer":
            ending = before
        outcome = session.outcome
        self.owner = self.owner or key
        yield Session(
            key=key,
            project=session.project,
            title=title,
            model=session.model,
            started_at=started_at,
            ended_at=at,
            ending=ending,
            prompted_at=prompted_at,
            answer=last_words(answer),
            told_outcome=OUTCOMES.get(outcome) if isinstance(outcome, bool | str) else None,
        )


def find_chat_key(session: ChatSession) -> str:
    """A session's key: its id, else a hash of its content."""
    if session.relight_export is not None and session.session_id:
        return session.session_id
    if session.id is not None:
        return str(session.id)
    return blake2b(msgspec.json.encode(session.messages), digest_size=8).hexdigest()


def _own_messages(session: ChatSession) -> list[ChatMessage]:
    """The messages without an example that Relight put before them."""
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


def _read_answer(
    turn: str, key: str, session: ChatSession, message: ChatMessage, at: int | None
) -> Iterator[Event]:
    if session.usage is None:
        found = read_usage(message.usage) if message.usage else FoundUsage()
        yield Turn(
            key=turn,
            session=key,
            at=at,
            model=message.model or session.model,
            provider=session.provider,
            usage=found.usage,
            usage_status=found.status,
        )
    payer = turn if session.usage is None else f"{key}#total"
    for call in message.tool_calls or ():
        tool, given = call.function.name, call.function.arguments
        yield make_called(key, turn, call.id, tool, given, at=at, turn=payer)


def _read_result(
    key: str, message: ChatMessage, known: Mapping[str, CallFacts], at: int | None
) -> Returned:
    called = message.tool_call_id
    if not called:
        return Returned(key)
    facts = known.get(called) or CallFacts(called)
    return Returned(
        session=key,
        name=f"{key}:{called}",
        at=at,
        text=content_text(message.content),
        is_error=facts.is_error,
        exit_code=facts.exit_code,
        timed_out=facts.timed_out,
        id=called,
    )
