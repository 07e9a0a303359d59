"""Pi: `agent/sessions/--<folder>--/<time>_<id>.jsonl`, a tree of entries after a head.

`input` excludes what was cached, `output` includes the reasoning, `cost` is in dollars. A fork
copies entries as they are. Branches that were left stay in the file: they were paid for, and the
conversation is the path to the last entry.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import msgspec
from msgspec import Struct, field

from relight.chat.messages import decode_mended
from relight.chat.usage import FoundUsage, counted_usage
from relight.model import Count, Ending, Session, Turn, Usage
from relight.prices import charged_cost
from relight.sources.events import (
    Compacted,
    Event,
    Measured,
    Returned,
    Said,
    failed_turn,
)
from relight.sources.reading import BAD_LINE, content_text, first_line
from relight.sources.sessions import SessionReader, SessionState, make_called
from relight.times import read_time

EXIT_CODE = re.compile(r"Command exited with code (-?\d{1,9})\s*\Z")


class EntryCost(Struct):
    total: float | None = None


class EntryUsage(Struct):
    input: Count | None = None
    output: Count | None = None
    cacheRead: Count | None = None
    cacheWrite: Count | None = None
    reasoning: Count | None = None
    cost: EntryCost = field(default_factory=EntryCost)

    def read(self) -> Usage:
        return counted_usage(
            Usage(
                input=self.input,
                cache_read=self.cacheRead or 0,
                cache_write=self.cacheWrite or 0,
                output=self.output,
                reasoning=self.reasoning,
            )
        )


class EntryMessage(Struct):
    role: str = ""
    content: Any = None
    timestamp: int | None = None
    provider: str | None = None
    model: str | None = None
    usage: EntryUsage | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    toolCallId: str | None = None
    isError: bool | None = None


class EntryLine(Struct):
    """The head of a file, or an entry of the tree."""

    type: str = ""
    id: str | None = None
    parentId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    parentSession: str | None = None
    modelId: str | None = None
    summary: str | None = None
    content: Any = None
    message: EntryMessage | None = None


_decode = msgspec.json.Decoder(EntryLine).decode


class PiReader(SessionReader[SessionState]):
    """Reads the entries of one session."""

    state_type = SessionState
    parent_kind = "fork"

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterator[bytes]:
        """The path to the last entry; all entries if one of the path cannot be read."""
        found: list[tuple[bytes, EntryLine]] = []
        for data in lines:
            try:
                found.append((data, decode_mended(_decode, data)))
            except BAD_LINE:
                continue
        parents = {line.id: line.parentId for _, line in found if line.type != "session"}
        path: set[str | None] = set()
        at = next((line.id for _, line in reversed(found) if line.type != "session"), None)
        while at is not None and at in parents and at not in path:
            path.add(at)
            at = parents[at]
        is_whole = at is None
        for data, line in found:
            if line.type == "session" or line.id in path or not is_whole:
                yield data

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = decode_mended(_decode, data)
        at = read_time(line.timestamp)
        if line.type == "session" and line.id and self.state.session is None:
            yield self._read_head(line, line.id, at)
        if self.state.session is None:
            raise ValueError("the session has no id")
        message = line.message
        if line.type == "model_change":
            self.state.model = line.modelId or self.state.model
        elif line.type == "compaction":
            yield Compacted(self.state.session, at, line.summary)
        elif line.type == "custom_message":
            text = content_text(line.content)
            yield Said(self.state.session, "user", text, at=at, is_typed=False)
        elif message is None:
            return
        elif message.role == "user":
            text = content_text(message.content)
            yield self.see(at, "prompt", title=first_line(text))
            yield Said(self.state.session, "user", text, at=at)
        elif message.role == "assistant":
            yield from self._read_answer(line, message, at)
        elif message.role == "toolResult":
            yield from self._read_result(message, at)

    def _read_head(self, line: EntryLine, session: str, at: int | None) -> Session:
        state = self.state
        self.owner = state.session = session
        state.born_at = at
        state.parent = find_session_id(line.parentSession)
        return self.see(at, project=line.cwd)

    def _read_answer(
        self, line: EntryLine, message: EntryMessage, at: int | None
    ) -> Iterator[Event]:
        session = self.state.session or ""
        began_at = _milliseconds(message.timestamp) or at
        # an entry's id is unique in its file alone, and servers repeat their ids of responses
        turn = f"{message.timestamp}:{line.id}"
        self.state.model = message.model or self.state.model
        blocks = [one for one in message.content or () if isinstance(one, dict)]
        text = content_text([one for one in blocks if one.get("type") == "text"])
        calls = [one for one in blocks if one.get("type") == "toolCall"]
        ending: Ending = "call" if calls else "answer" if (text or "").strip() else "empty"
        if message.stopReason in ("error", "aborted"):
            ending = "api_error" if message.stopReason == "error" else "interrupted"
        yield self.see(at, ending, answer=text)
        usage = (message.usage or EntryUsage()).read()
        is_failed = message.stopReason == "error"
        if not is_failed or usage.input or usage.output:
            yield Turn(
                key=turn,
                session=session,
                at=began_at,
                model=message.model,
                provider=message.provider,
                usage=usage,
                usage_status=FoundUsage(usage).status,
                cost=charged_cost(message.usage.cost.total) if message.usage else None,
                duration_ms=_spent(began_at, at),
            )
        if is_failed:
            yield failed_turn(
                f"{turn}!",
                session,
                message.errorMessage or "API error",
                at=at,
                model=message.model,
                provider=message.provider,
            )
        yield Said(session, "assistant", text, turn, at=began_at)
        for one in calls:
            name, tool, given = one.get("id"), one.get("name"), one.get("arguments")
            yield make_called(session, turn, name, tool, given, at=at, turn=turn)

    def _read_result(self, message: EntryMessage, at: int | None) -> Iterator[Event]:
        session, text = self.state.session or "", content_text(message.content)
        yield self.see(at, "result")
        if not message.toolCallId:
            yield Returned(session)
            return
        name = f"{session}:{message.toolCallId}"
        if message.isError and (found := EXIT_CODE.search(text or "")):
            yield Measured(session, name, int(found[1]))
        yield Returned(session, name, at, text, message.isError, id=message.toolCallId)


def find_session_id(path: str | None) -> str | None:
    """The id in the name of a session's file, on any system.

    >>> find_session_id("/home/dev/sessions/--x--/2026-11-15T18-36-53-570Z_01a1-7bc1.jsonl")
    '01a1-7bc1'
    """
    if not path:
        return None
    kind = PureWindowsPath if "\\" in path else PurePosixPath
    return kind(path).stem.partition("_")[2] or None


def _milliseconds(value: int | None) -> int | None:
    return None if value is None else read_time(value / 1000)


def _spent(began_at: int | None, at: int | None) -> int | None:
    return at - began_at if at is not None and began_at is not None and at >= began_at else None
