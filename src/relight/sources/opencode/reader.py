"""OpenCode's database, `opencode.db`, and that of Kilo, a fork of it, `kilo.db`.

A message is written before it is complete, and its parts change until then. `input` excludes what
was cached, and `output` the reasoning. A `step-finish` part has the tokens and the dollars of one
model call; a message's own cost may also hold those of its sub-agents. A shell command that fails
is `completed` with `metadata.exit`, and so is a call of a tool that does not exist, `invalid`. A
fork copies messages with new ids and their times.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

from relight.chat.usage import FoundUsage, counted_usage
from relight.model import (
    Count,
    Ending,
    Mark,
    Moment,
    Origin,
    Piece,
    Session,
    SkillEntry,
    ToolCall,
    Turn,
    Usage,
)
from relight.prices import charged_cost
from relight.sources.events import (
    Attributed,
    Called,
    Compacted,
    Event,
    Measured,
    Returned,
    Said,
    failed_turn,
)
from relight.sources.opencode.database import fetch_sessions, find_databases
from relight.sources.reading import BAD_LINE, ReaderState, StatefulReader, first_line, write_value
from relight.sources.sessions import see

ABORTED = "MessageAbortedError"
# a call of a tool that does not exist
INVALID = "invalid"
# the states of a call that has a result
ENDED = ("completed", "error")


class CacheTokens(Struct):
    read: Count | None = None
    write: Count | None = None


class Tokens(Struct):
    input: Count | None = None
    output: Count | None = None
    reasoning: Count | None = None
    cache: CacheTokens = field(default_factory=CacheTokens)

    def read(self) -> Usage:
        reasoning = self.reasoning or 0
        return counted_usage(
            Usage(
                input=self.input,
                cache_read=self.cache.read or 0,
                cache_write=self.cache.write or 0,
                output=None if self.output is None else self.output + reasoning,
                reasoning=self.reasoning,
            )
        )


class Times(Struct):
    created: Moment | None = None
    completed: Moment | None = None
    start: Moment | None = None
    end: Moment | None = None


class ErrorFields(Struct):
    message: str | None = None
    statusCode: int | None = None


class MessageError(Struct):
    name: str = ""
    data: ErrorFields = field(default_factory=ErrorFields)


class MessageData(Struct):
    role: str = ""
    time: Times = field(default_factory=Times)
    modelID: str | None = None
    providerID: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    error: MessageError | None = None
    # of a user's message it is an object, of an answer True if that is a compaction's summary
    summary: Any = None


class CallState(Struct):
    status: str = ""
    input: Any = None
    output: str | None = None
    error: str | None = None
    metadata: dict[str, Any] | None = None
    time: Times = field(default_factory=Times)


class PartData(Struct):
    type: str = ""
    text: str | None = None
    synthetic: bool = False
    ignored: bool = False
    tool: str | None = None
    callID: str | None = None
    state: CallState | None = None
    tokens: Tokens | None = None
    cost: float | None = None


class Part(Struct):
    id: str
    data: PartData


class OpenCodeMessage(Struct, tag_field="table", tag="message"):
    id: str
    session_id: str
    time_created: Moment
    # True if nothing of it will change
    is_done: bool
    data: MessageData
    parts: list[Part] = []


class OpenCodeSession(Struct, tag_field="table", tag="session"):
    id: str
    parent_id: str | None = None
    directory: str | None = None
    version: str | None = None
    time_created: Moment | None = None


decode_line = msgspec.json.Decoder(OpenCodeSession | OpenCodeMessage).decode


class DatabaseState(ReaderState):
    """A session's row, and the parts of incomplete messages that were read."""

    session: str | None = msgspec.field(default=None, name="owner")
    row: OpenCodeSession | None = msgspec.field(default=None, name="session")
    seen: list[str] = msgspec.field(default_factory=list)


class OpenCodeReader(StatefulReader[DatabaseState]):
    """Reads the rows of one session, a message with its parts as one line."""

    has_fetch = True
    state_type = DatabaseState
    # the source, after which its databases are named
    source: ClassVar[str] = "opencode"

    @classmethod
    def find(cls, folder: Path) -> Iterator[Origin]:
        return find_databases(folder, cls.source)

    @classmethod
    def fetch(cls, origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        return fetch_sessions(cls.source, origin, marks)

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterator[bytes]:
        """The messages in the order of their times; the last line of each holds."""
        rows: dict[str, OpenCodeSession | OpenCodeMessage] = {}
        for line in lines:
            with suppress(*BAD_LINE):
                row = decode_line(line)
                if isinstance(row, OpenCodeMessage):
                    row.is_done = True
                rows[row.id] = row
        for row in sorted(rows.values(), key=_place):
            yield msgspec.json.encode(row)

    def read_line(self, line: bytes) -> Iterator[Event]:
        row = decode_line(line)
        if isinstance(row, OpenCodeSession):
            self.owner, self.state.row = row.id, row
            yield Session(
                key=row.id,
                parent=row.parent_id,
                parent_kind="subagent" if row.parent_id else None,
                project=row.directory,
                version=row.version,
                started_at=row.time_created,
                ended_at=row.time_created,
            )
        elif row.data.role == "user":
            yield from self._read_prompt(row)
        elif row.data.role == "assistant":
            yield from self._read_answer(row)

    def _see(
        self, row: OpenCodeMessage, ending: Ending | None, at: int, answer: str = ""
    ) -> Session:
        """The session of a message; one that a fork copied says only that it was copied."""
        own = self.state.row
        shown = Session(key=row.session_id, model=row.data.modelID, answer=answer)
        born_at = own.time_created if own else None
        made_at = row.time_created
        return see(shown, made_at, ending, ended_at=at, born_at=born_at)

    def _is_new(self, row: OpenCodeMessage, what: str) -> bool:
        """True if this was not read before; an incomplete message comes again and again."""
        is_new = what not in self.state.seen
        if is_new and not row.is_done:
            self.state.seen.append(what)
        return is_new

    def _take_texts(self, row: OpenCodeMessage) -> list[Part]:
        """The texts of a message that were not read before and do not change any more."""
        texts = [one for one in row.parts if one.data.type == "text" and not one.data.ignored]
        is_whole = row.is_done or row.data.role == "user"
        return [one for one in texts if is_whole and self._is_new(row, f"said {one.id}")]

    def _leave(self, row: OpenCodeMessage) -> None:
        """Forget what was read of a message that is complete now."""
        if row.is_done and self.state.seen:
            parts = {one.id for one in row.parts}
            self.state.seen = [one for one in self.state.seen if one.split()[1] not in parts]

    def _read_prompt(self, row: OpenCodeMessage) -> Iterator[Event]:
        at = row.time_created
        yield self._see(row, "prompt", at)
        for part in self._take_texts(row):
            text, is_typed = part.data.text or "", not part.data.synthetic
            if is_typed:
                yield Session(key=row.session_id, title=first_line(text))
            yield Said(row.session_id, "user", text, at=at, is_typed=is_typed)
        self._leave(row)

    def _read_answer(self, row: OpenCodeMessage) -> Iterator[Event]:
        data, session = row.data, row.session_id
        name = self._name_message(row)
        texts = self._take_texts(row)
        text = "\n".join(one.data.text or "" for one in texts).strip()
        tools = [one for one in row.parts if one.data.type == "tool" and one.data.callID]
        steps = [one.data for one in row.parts if one.data.type == "step-finish"]
        is_last = row.is_done and data.error is None
        ending: Ending = "call" if tools or not is_last else "answer" if text else "empty"
        if tools and all(one.data.state and one.data.state.status in ENDED for one in tools):
            ending = "result"
        if data.error is not None:
            ending = "interrupted" if data.error.name == ABORTED else "api_error"
        yield self._see(row, ending, data.time.completed or row.time_created, text)
        turn = None
        if row.is_done:
            turn = f"{name}:{data.time.completed or row.id}:{data.modelID}"
            yield from self._read_turns(row, turn, steps)
        if data.summary is True:
            yield Compacted(session, row.time_created, text)
        elif row.is_done:
            words = [one.data.text for one in texts] or [None]
            for number, one in enumerate(words):
                yield Said(session, "assistant", one, turn, number == 0, row.time_created)
        for tool in tools:
            yield from self._read_call(tool, row, name, turn)
        self._leave(row)

    def _name_message(self, row: OpenCodeMessage) -> str:
        """A name that a fork's copy has too; sub-agents, which work side by side, have no forks."""
        own = self.state.row
        made = row.data.time.created or row.time_created
        return f"{row.session_id}:{made}" if own is None or own.parent_id else str(made)

    def _read_turns(
        self, row: OpenCodeMessage, turn: str, steps: list[PartData]
    ) -> Iterator[Event]:
        data = row.data
        found = [(one.tokens, one.cost) for one in steps if one.tokens is not None]
        if not found and data.tokens is not None and (data.tokens.output or data.tokens.input):
            found = [(data.tokens, data.cost)]
        for number, (tokens, cost) in enumerate(found):
            usage = tokens.read()
            yield Turn(
                # early versions made several calls in one message: the last has its name
                key=turn if number == len(found) - 1 else f"{turn}#{number}",
                session=row.session_id,
                at=row.time_created,
                model=data.modelID,
                provider=data.providerID,
                usage=usage,
                usage_status=FoundUsage(usage).status,
                cost=charged_cost(cost),
            )
        if data.error is not None and data.error.name != ABORTED:
            yield failed_turn(
                f"{turn}!",
                row.session_id,
                data.error.data.message or data.error.name,
                at=data.time.completed or row.time_created,
                status=data.error.data.statusCode,
                model=data.modelID,
                provider=data.providerID,
            )

    def _read_call(
        self, part: Part, row: OpenCodeMessage, message: str, turn: str | None
    ) -> Iterator[Event]:
        tool, session = part.data.tool or "", row.session_id
        state = part.data.state or CallState()
        # servers number the calls of each answer from 0
        key, call_id = f"{message}:{part.data.callID}", part.data.callID
        name = f"{session}:{key}"
        call = ToolCall(
            key=key,
            name=name,
            session=session,
            turn=turn,
            tool=tool,
            at=state.time.start or row.time_created,
            arguments=write_value(state.input),
        )
        if state.status != "pending" and self._is_new(row, f"called {part.id}"):
            yield Called(call, call_id, turn)
        elif turn is not None:
            yield Attributed([call], turn)
        if state.status not in ENDED or not self._is_new(row, f"returned {part.id}"):
            return
        exit_code = (state.metadata or {}).get("exit")
        is_error = state.status == "error" or tool == INVALID
        began_at, at = state.time.start, state.time.end or row.time_created
        spent = None if began_at is None else max(at - began_at, 0)
        yield Measured(session, name, exit_code if isinstance(exit_code, int) else None, spent)
        text = state.error if state.status == "error" else state.output
        yield Returned(session, name, at, text, is_error, id=call_id)
        if tool == "skill" and not is_error and isinstance(state.input, dict):
            skill = str(state.input.get("name") or "")
            yield SkillEntry(key=key, session=session, name=skill, entry="tool", at=at, turn=turn)


class KiloReader(OpenCodeReader):
    """Reads Kilo's database, which has the same tables."""

    source = "kilo"


def _place(row: OpenCodeSession | OpenCodeMessage) -> tuple[bool, int, str]:
    return isinstance(row, OpenCodeMessage), row.time_created or 0, row.id
