"""Copilot CLI: `session-state/<id>/events.jsonl`, one event a line.

`session.usage_record` has the tokens of one model call: `inputTokens` includes what was cached,
`outputTokens` the reasoning, and `cost` counts premium requests, not dollars. A sub-agent's events
are in its parent's file, with its `agentId`. A fork repeats its parent's usage records, which name
the session that made the call. A shell command that fails is a success with an exit code.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from relight.chat.usage import FoundUsage
from relight.model import (
    Cost,
    Ending,
    Session,
    SkillEntry,
    SkillWay,
    ToolCall,
    Total,
    Turn,
    Usage,
)
from relight.sources.copilot.lines import (
    AbortData,
    Accounting,
    AnswerData,
    BeginData,
    CallUsage,
    CompactionData,
    ErrorData,
    EventLine,
    FinishedCall,
    ModelData,
    Place,
    PromptData,
    ShutdownData,
    SkillData,
    StartedCall,
    UsageData,
    decode_event,
)
from relight.sources.events import (
    Attributed,
    Compacted,
    Event,
    Measured,
    Returned,
    Said,
    as_copied,
    failed_turn,
)
from relight.sources.reading import ReaderState, StatefulReader, first_line
from relight.sources.sessions import make_called, see
from relight.times import read_time

FILE = "events.jsonl"
# the origins of a prompt that a person typed; others are skills, agents and instructions
TYPED = (None, "", "user", "cli")
SKILL_WAYS: dict[str | None, SkillWay] = {"user-invoked": "slash", "agent-invoked": "tool"}
CALLS_REMEMBERED = 16


class CopilotState(ReaderState):
    """The facts that later events depend on."""

    # what is older, a fork copied
    born_at: int | None = None
    model: str | None = None
    # False until a usage record was read: older versions write none
    has_records: bool = False
    # the turns of the last model calls, by session and the provider's id of the call
    turns: dict[str, str] = msgspec.field(default_factory=dict)
    # calls of an answer whose usage comes after it
    asked: dict[str, list[ToolCall]] = msgspec.field(default_factory=dict)
    started: dict[str, int] = msgspec.field(default_factory=dict)


class CopilotReader(StatefulReader[CopilotState]):
    """Reads the events of one session and its sub-agents."""

    state_type = CopilotState

    @classmethod
    def begin(cls, session: str) -> Self:
        reader = super().begin(session)
        reader.state.session = session.partition("/")[0]
        return reader

    def save(self) -> bytes:
        state = self.state
        state.turns = dict(list(state.turns.items())[-CALLS_REMEMBERED:])
        state.asked = dict(list(state.asked.items())[-CALLS_REMEMBERED:])
        return super().save()

    def read_line(self, data: bytes) -> Iterator[Event]:
        line, found = decode_event(data)
        if found is None:
            return
        if self.state.session is None:
            self.owner = self.state.session = self._find_own(found)
        yield from self._read_data(found, line, read_time(line.timestamp))

    def _find_own(self, first: Struct) -> str:
        """The file's session; its folder is named after it, should the first event be damaged."""
        named = first.sessionId if isinstance(first, BeginData) else None
        path = Path(self.origin.path)
        if not named and path.name == FILE:
            named = path.parent.name
        if not named:
            raise ValueError("the session has no id")
        return named

    def _read_data(self, data: Struct, line: EventLine, at: int | None) -> Iterator[Event]:
        match data:
            case UsageData():
                yield from self._read_usage(data.usage, line, at)
            case AnswerData():
                yield from self._read_answer(data, line, at)
            case StartedCall():
                if at is not None:
                    self.state.started[self._name_call(line, data.toolCallId)] = at
            case FinishedCall():
                yield from self._read_result(data, line, at)
            case PromptData():
                yield from self._read_prompt(data, line, at)
            case BeginData() if data.sessionId in (None, self.state.session):
                yield self._read_begin(data, at)
            case Place():
                yield Session(key=self.state.session or "", branch=data.branch or None, ended_at=at)
            case ModelData():
                if not line.agentId:
                    self.state.model = data.newModel or self.state.model
            case ErrorData():
                yield from self._read_error(data, line, at)
            case AbortData():
                yield self._see(line, at, "interrupted")
            case SkillData():
                session, way = self._find_session(line), SKILL_WAYS.get(data.trigger, "auto")
                key = f"{session}:{data.name}:{at}"
                yield SkillEntry(key=key, session=session, name=data.name, entry=way, at=at)
            case CompactionData() if data.success:
                yield Compacted(self._find_session(line), at, data.summaryContent)
            case ShutdownData():
                yield from self._read_shutdown(data, at)

    def _find_session(self, line: EventLine) -> str:
        own = self.state.session or ""
        return f"{own}/{line.agentId}" if line.agentId else own

    def _name_call(self, line: EventLine, call_id: str) -> str:
        return f"{self._find_session(line)}:{call_id}"

    def _see(
        self,
        line: EventLine,
        at: int | None,
        ending: Ending | None = None,
        *,
        title: str | None = None,
        answer: str | None = None,
    ) -> Session:
        state = self.state
        shown = Session(
            key=self._find_session(line),
            parent=state.session if line.agentId else None,
            parent_kind="subagent" if line.agentId else None,
            title=title,
            model=None if line.agentId else state.model,
            answer=answer,
        )
        born_at = None if line.agentId else state.born_at
        return see(shown, at, ending, born_at=born_at)

    def _read_begin(self, data: BeginData, at: int | None) -> Session:
        self.state.model = data.selectedModel or self.state.model
        self.state.born_at = at if self.state.born_at is None else self.state.born_at
        place = data.context or Place()
        parent = data.detachedFromSpawningParentSessionId
        return Session(
            key=self.state.session or "",
            parent=parent,
            parent_kind="subagent" if parent else None,
            project=place.cwd,
            branch=place.branch or None,
            model=self.state.model,
            version=data.copilotVersion,
            started_at=at,
            ended_at=at,
        )

    def _read_prompt(self, data: PromptData, line: EventLine, at: int | None) -> Iterator[Event]:
        is_typed = data.source in TYPED and not data.isAutopilotContinuation
        # what a parent asks of its sub-agent is the sub-agent's title
        title = first_line(data.content) if is_typed or line.agentId else None
        seen = self._see(line, at, "prompt", title=title)
        yield seen if is_typed else msgspec.structs.replace(seen, prompted_at=None)
        yield Said(self._find_session(line), "user", data.content, at=at, is_typed=is_typed)

    def _read_usage(self, used: CallUsage, line: EventLine, at: int | None) -> Iterator[Event]:
        own = self.state.session or ""
        made = used.accounting or Accounting()
        maker = made.sourceSessionId or own
        self.state.has_records = True
        # providers of local models number their responses from 1 again and again
        key = f"{maker}:{made.sequence}:{made.usageId or used.apiCallId or line.id}"
        session = self._find_session(line)
        if line.agentId:
            yield Session(key=session, parent=own, parent_kind="subagent", model=used.model)
        elif maker != own:
            forked_at = self.state.born_at if at is None else max(at + 1, self.state.born_at or 0)
            yield as_copied(Session(key=own, parent=maker), forked_at)
        usage = used.read()
        provider = used.modelProvider
        yield Turn(
            key=key,
            session=session,
            at=at,
            model=used.model,
            provider=None if provider == "other" else provider,
            usage=usage,
            usage_status=FoundUsage(usage).status,
            # a plan of Copilot pays, unless the key is the user's own
            cost=Cost(None, "included", "source") if used.isByok is False else None,
            duration_ms=_round(used.duration),
            first_token_ms=_round(used.timeToFirstTokenMs),
        )
        name = f"{session}:{used.apiCallId}"
        self.state.turns.pop(name, None)  # the newest are remembered
        self.state.turns[name] = key
        if asked := self.state.asked.pop(name, None):
            yield Attributed(asked, key)

    def _read_answer(self, data: AnswerData, line: EventLine, at: int | None) -> Iterator[Event]:
        session = self._find_session(line)
        name = f"{session}:{data.apiCallId}"
        turn = self.state.turns.get(name)
        answer = turn or data.messageId or line.id
        asked = data.toolRequests or []
        ending: Ending = "call" if asked else "answer" if (data.content or "").strip() else "empty"
        yield self._see(line, at, ending, answer=data.content)
        yield Said(session, "assistant", data.content, answer, at=at)
        if turn is None and not self.state.has_records:
            turn = answer
            yield Turn(
                key=turn,
                session=session,
                at=at,
                model=data.model or self.state.model,
                usage=Usage(output=data.outputTokens),
                usage_status="partial",
            )
        calls = []
        for one in asked:
            given = msgspec.json.encode(one.arguments).decode() if one.arguments else None
            call = make_called(session, answer, one.toolCallId, one.name, given, at=at, turn=turn)
            calls.append(call.call)
            yield call
        if calls and turn is None:
            self.state.asked[name] = calls

    def _read_result(self, data: FinishedCall, line: EventLine, at: int | None) -> Iterator[Event]:
        session = self._find_session(line)
        name = self._name_call(line, data.toolCallId)
        began_at = self.state.started.pop(name, None)
        spent = at - began_at if at is not None and began_at is not None else None
        ran = data.shellExecution
        shown = data.result.content if data.result else None
        text = shown if isinstance(shown, str) else None
        if text is None and data.error:
            text = data.error.message
        is_error = None if data.success is None else not data.success
        yield self._see(line, at, "result")
        yield Measured(
            session, name, ran.exitCode if ran else None, spent if (spent or 0) >= 0 else None
        )
        yield Returned(session, name, at, text, is_error, id=data.toolCallId)

    def _read_error(self, data: ErrorData, line: EventLine, at: int | None) -> Iterator[Event]:
        text = data.message or data.errorMessage or "API error"
        session = self._find_session(line)
        yield self._see(line, at, "api_error")
        model = data.model or self.state.model
        # the failed call and the error that it ends the session with are within a second
        key = f"{session}!{(at or 0) // 1000}"
        yield failed_turn(key, session, text, at=at, status=data.statusCode, model=model)

    def _read_shutdown(self, data: ShutdownData, at: int | None) -> Iterator[Event]:
        """A control total: with the calls that no record has, as in older versions."""
        session = self.state.session or ""
        for model, sums in (data.accountingSnapshot or data).modelMetrics.items():
            yield Total(
                key=f"{session}:{model}",
                session=session,
                model=model,
                at=at,
                with_children=True,
                usage=sums.usage.read(),
            )


def _round(milliseconds: float | None) -> int | None:
    return None if milliseconds is None or milliseconds < 0 else round(milliseconds)
