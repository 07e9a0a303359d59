"""Gemini CLI: `tmp/<project>/chats/session-<time>-<id>.jsonl`, sub-agents in `chats/<session>/`.

A line is the session's head, a message, or a change (`$set`, `$rewindTo`). A message is written
again with the same id when its calls have results. `input` includes what was cached, `output`
excludes the thoughts. A shell command that fails is a success with `Exit Code: 3` in its text.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.messages import decode_mended
from relight.chat.usage import FoundUsage, counted_usage, exclusive_usage
from relight.model import Count, Ending, Session, Turn
from relight.sources.events import Event, Measured, Returned, Said, failed_turn
from relight.sources.gemini_parts import (
    MessagePart,
    PartResponse,
    find_responses,
    is_context,
    join_texts,
)
from relight.sources.reading import BAD_LINE, first_line
from relight.sources.sessions import SessionReader, SessionState, make_called
from relight.times import read_time

FOLDER = "chats"
WORKSPACE = re.compile(r"Workspace Directories:\*\*\n\s*- ([^\n]+)")
# the states of a call that has a result
ENDED = ("success", "error", "cancelled")
REMEMBERED = 256


class MessageTokens(Struct):
    input: Count | None = None
    output: Count | None = None
    cached: Count | None = None
    thoughts: Count | None = None
    tool: Count | None = None


class CallRecord(Struct):
    id: str = ""
    name: str = ""
    args: Any = None
    result: str | list[MessagePart | str] | None = None
    status: str = ""
    timestamp: str | None = None


class ContextMessage(Struct):
    content: str | list[MessagePart | str] | None = None


class ChatChange(Struct):
    """The fields of `$set` that are read: the client's own context, which has the folder."""

    messages: list[ContextMessage] | None = None


class ChatLine(Struct, rename={"change": "$set", "rewind_to": "$rewindTo"}):
    """The head of a file, a message, or a change."""

    sessionId: str | None = None
    startTime: str | None = None
    kind: str | None = None
    directories: list[str] | None = None
    change: ChatChange | None = None
    rewind_to: str | None = None
    id: str | None = None
    timestamp: str | None = None
    type: str | None = None
    content: str | list[MessagePart | str] | None = None
    model: str | None = None
    tokens: MessageTokens | None = None
    toolCalls: list[CallRecord] | None = None


class ChatState(SessionState):
    """The session, and what was read of the last messages: they are written several times."""

    seen: list[str] = msgspec.field(default_factory=list)


_decode = msgspec.json.Decoder(ChatLine).decode


class GeminiReader(SessionReader[ChatState]):
    """Reads the lines of one session."""

    state_type = ChatState

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterator[bytes]:
        """The last record of each message, without what was rewound."""
        messages: dict[str, bytes] = {}
        for number, data in enumerate(lines):
            try:
                line = decode_mended(_decode, data)
            except BAD_LINE:
                continue
            if line.rewind_to is not None:
                names = list(messages)
                gone = names.index(line.rewind_to) if line.rewind_to in names else len(names)
                messages = {name: messages[name] for name in names[:gone]}
            else:
                messages[line.id or f"#{number}"] = data
        yield from messages.values()

    def save(self) -> bytes:
        self.state.seen = self.state.seen[-REMEMBERED:]
        return super().save()

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = decode_mended(_decode, data)
        if line.sessionId and self.state.session is None:
            yield self._read_head(line)
        if self.state.session is None:
            raise ValueError("the session has no id")
        if line.change is not None:
            yield from self._read_change(line.change)
        if line.id is None:
            return
        at = read_time(line.timestamp)
        match line.type:
            case "user":
                yield from self._read_prompt(line, at)
            case "gemini":
                yield from self._read_answer(line, line.id, at)
            case "error":
                text = join_texts(line.content)
                yield self.see(at, "api_error")
                key = f"{self.state.session}:{line.id}"
                model = self.state.model
                yield failed_turn(key, self.state.session, text, at=at, model=model)

    def _read_head(self, line: ChatLine) -> Session:
        own, folder = line.sessionId or "", Path(self.origin.path).parent.name
        state = self.state
        if line.kind == "subagent" and folder and folder != FOLDER:
            state.parent = folder
            # a sub-agent may be named like its parent
            own = f"{own}/{Path(self.origin.path).stem}" if own == folder else own
        self.owner = state.session = own
        at = read_time(line.startTime)
        project = line.directories[0] if line.directories else None
        return self.see(at, project=project)

    def _read_change(self, change: ChatChange) -> Iterator[Event]:
        """The folder, from the context at the start; other messages have separate lines."""
        first = change.messages[0] if change.messages else ContextMessage()
        if found := WORKSPACE.search(join_texts(first.content)):
            yield Session(key=self.state.session or "", project=found[1].strip())

    def _is_new(self, name: str) -> bool:
        is_new = name not in self.state.seen
        if is_new:
            self.state.seen.append(name)
        return is_new

    def _read_prompt(self, line: ChatLine, at: int | None) -> Iterator[Event]:
        for response in find_responses(line.content):
            # written beside the call as well, unless the client was stopped between the two
            if response.id and f"{self.state.session}:{response.id}" in self.open_calls:
                yield from self._read_result(response, response.id, at, status="")
        text = join_texts(line.content)
        if not text.strip() or is_context(text) or not self._is_new(f"said {line.id}"):
            return
        yield self.see(at, "prompt", title=first_line(text))
        yield Said(self.state.session or "", "user", text, at=at)

    def _read_answer(self, line: ChatLine, name: str, at: int | None) -> Iterator[Event]:
        session, key = self.state.session or "", f"{self.state.session}:{name}"
        self.state.model = line.model or self.state.model
        text, calls = join_texts(line.content), line.toolCalls or []
        ending: Ending = "result" if calls else "answer" if text.strip() else "empty"
        if any(one.status not in ENDED for one in calls):
            ending = "call"
        yield self.see(at, ending, answer=text)
        used = line.tokens or MessageTokens()
        prompt = None if used.input is None else used.input + (used.tool or 0)
        output = None if used.output is None else used.output + (used.thoughts or 0)
        figures = exclusive_usage(prompt, used.cached, output, reasoning=used.thoughts)
        usage = counted_usage(figures)
        yield Turn(
            key=key,
            session=session,
            at=at,
            model=line.model,
            provider="google",
            usage=usage,
            usage_status=FoundUsage(usage).status,
        )
        if self._is_new(f"said {name}"):
            yield Said(session, "assistant", text, key, at=at)
        for call in calls:
            yield from self._read_call(call, key, at)

    def _read_call(self, call: CallRecord, turn: str, at: int | None) -> Iterator[Event]:
        session = self.state.session or ""
        key = f"{turn}:{call.id}"
        if self._is_new(f"called {key}"):
            yield make_called(session, turn, call.id, call.name, call.args, at=at, turn=turn)
        if call.status in ENDED and self._is_new(f"returned {key}"):
            found = next(find_responses(call.result), None)
            shown = found or PartResponse(name=call.name, response=join_texts(call.result))
            ended_at = read_time(call.timestamp) or at
            yield self.see(ended_at, "result")
            yield from self._read_result(shown, call.id, ended_at, status=call.status)

    def _read_result(
        self, response: PartResponse, call_id: str, at: int | None, *, status: str
    ) -> Iterator[Event]:
        session = self.state.session or ""
        name = f"{session}:{call_id}"
        if (code := response.exit_code) is not None:
            yield Measured(session, name, code)
        failed = isinstance(response.response, dict) and "error" in response.response
        is_error = failed if not status else status != "success"
        yield Returned(session, name, at, response.text, is_error, id=call_id)
