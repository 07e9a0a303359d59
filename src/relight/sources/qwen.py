"""Qwen Code: `projects/<folder>/chats/<session>.jsonl`, sub-agents in `subagents/<session>/`.

The records are named like Claude Code's and hold the shapes of Google's API. `promptTokenCount`
includes what was cached; `candidatesTokenCount` includes the thoughts, unless the total says
otherwise. Telemetry among the records repeats the tokens: only durations, API errors and the calls
of sub-agents are taken from it, which have no other record in some versions. A shell command that
fails is a success with `Exit Code: 3` in its text. A fork marks the records that it copied.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from relight.chat.messages import decode_mended
from relight.chat.usage import FoundUsage, counted_usage, exclusive_usage
from relight.model import Count, Ending, Origin, Session, Turn, Usage
from relight.sources.events import (
    Compacted,
    Event,
    Measured,
    Returned,
    Said,
    as_copied,
    failed_turn,
)
from relight.sources.files import find_files
from relight.sources.gemini_parts import MessagePart, find_responses, is_context, join_texts
from relight.sources.reading import ReaderState, StatefulReader, first_line
from relight.sources.sessions import make_called, see
from relight.times import read_time

FOLDERS = {"chats", "subagents"}
# records in a person's place that nobody typed
UNTYPED = ("notification", "cron", "agent_bootstrap", "agent_retry", "goal_runtime", "rewind")


class UsageMetadata(Struct):
    promptTokenCount: Count | None = None
    candidatesTokenCount: Count | None = None
    thoughtsTokenCount: Count | None = None
    cachedContentTokenCount: Count | None = None
    totalTokenCount: Count | None = None

    def read(self) -> Usage:
        prompt, output = self.promptTokenCount, self.candidatesTokenCount
        thoughts = self.thoughtsTokenCount or 0
        if prompt is not None and output is not None:
            # Google's own protocol has the thoughts beside the candidates
            is_beside = self.totalTokenCount == prompt + output + thoughts
            output += thoughts if is_beside else 0
        cached = self.cachedContentTokenCount
        used = exclusive_usage(prompt, cached, output, reasoning=self.thoughtsTokenCount)
        return counted_usage(used)


class RecordMessage(Struct):
    parts: list[MessagePart] = []


class CallOutcome(Struct):
    callId: str | None = None
    status: str | None = None


class CopyOrigin(Struct):
    sessionId: str | None = None


class RecordLine(Struct):
    uuid: str = ""
    sessionId: str | None = None
    timestamp: str | None = None
    type: str = ""
    subtype: str | None = None
    cwd: str | None = None
    version: str | None = None
    gitBranch: str | None = None
    model: str | None = None
    message: RecordMessage = field(default_factory=RecordMessage)
    usageMetadata: UsageMetadata | None = None
    toolCallResult: CallOutcome | None = None
    systemPayload: Any = None
    agentId: str | None = None
    forkedFrom: CopyOrigin | None = None


class RecordState(ReaderState):
    """The session, the model, and durations whose call or answer comes next."""

    model: str | None = None
    answer_ms: int | None = None
    tool: str | None = None
    tool_ms: int | None = None


_decode = msgspec.json.Decoder(RecordLine).decode


class QwenReader(StatefulReader[RecordState]):
    """Reads the records of one session or sub-agent."""

    state_type = RecordState

    @staticmethod
    def find(folder: Path) -> Iterator[Origin]:
        """The files of sessions and sub-agents; a project's folder holds others too."""
        is_named = folder.is_file()
        for one in find_files(folder):
            if is_named or one.trouble or not FOLDERS.isdisjoint(Path(one.path).parts):
                yield one

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = decode_mended(_decode, data)
        if not line.sessionId:
            raise ValueError("the session has no id")
        session = f"{line.sessionId}/{line.agentId}" if line.agentId else line.sessionId
        self.owner = self.owner or session
        at = read_time(line.timestamp)
        match line.type:
            case "user":
                yield from self._read_prompt(line, session, at)
            case "assistant":
                yield from self._read_answer(line, session, at)
            case "tool_result":
                yield self._see(line, session, at, "result")
                yield from self._read_results(line, session, at)
            case "system":
                yield from self._read_system(line, session, at)

    def _see(
        self,
        line: RecordLine,
        session: str,
        at: int | None,
        ending: Ending,
        *,
        title: str | None = None,
        answer: str | None = None,
    ) -> Session:
        """The session of a record; one that a fork copied says nothing of the fork's own time."""
        copied = line.forkedFrom
        parent = line.sessionId if line.agentId else copied.sessionId if copied else None
        shown = Session(
            key=session,
            parent=parent,
            parent_kind="subagent" if line.agentId else None,
            project=line.cwd,
            branch=line.gitBranch or None,
            title=title,
            model=line.model,
            version=line.version,
            answer=answer,
        )
        if copied is None or line.agentId:
            return see(shown, at, ending)
        return as_copied(shown, None if at is None or line.type != "assistant" else at + 1)

    def _read_prompt(self, line: RecordLine, session: str, at: int | None) -> Iterator[Event]:
        text = join_texts(line.message.parts)
        if not text.strip() or is_context(text):
            return
        is_typed = line.subtype not in UNTYPED
        title = first_line(text) if is_typed else None
        yield self._see(line, session, at, "prompt", title=title)
        yield Said(session, "user", text, at=at, is_typed=is_typed)

    def _read_answer(self, line: RecordLine, session: str, at: int | None) -> Iterator[Event]:
        parts = line.message.parts
        text, turn = join_texts(parts), line.uuid
        if line.agentId and line.usageMetadata is not None:
            turn = _name_agent_call(session, line.usageMetadata)
        asked = [one.functionCall for one in parts if one.functionCall is not None]
        self.state.model = line.model or self.state.model
        ending: Ending = "call" if asked else "answer" if text.strip() else "empty"
        yield self._see(line, session, at, ending, answer=text)
        # the tokens of a sub-agent's call may be in its parent's telemetry alone
        if line.usageMetadata is not None or not line.agentId:
            usage = (line.usageMetadata or UsageMetadata()).read()
            yield Turn(
                key=turn,
                session=session,
                at=at,
                model=line.model,
                usage=usage,
                usage_status=FoundUsage(usage).status,
                duration_ms=self.state.answer_ms,
                branch=line.gitBranch or None,
            )
        self.state.answer_ms = None
        yield Said(session, "assistant", text, turn, at=at)
        for number, one in enumerate(asked):
            name = one.id or f"{turn}#{number}"
            yield make_called(session, turn, name, one.name, one.args, at=at, turn=turn)

    def _read_results(self, line: RecordLine, session: str, at: int | None) -> Iterator[Event]:
        outcome = line.toolCallResult or CallOutcome()
        for response in find_responses(line.message.parts):
            call_id = response.id or outcome.callId
            if not call_id:
                yield Returned(session)
                continue
            name = f"{session}:{call_id}"
            asked = self.open_calls.get(name)
            is_timed = asked is not None and asked.tool == self.state.tool
            spent = self.state.tool_ms if is_timed else None
            yield Measured(session, name, response.exit_code, spent)
            failed = isinstance(response.response, dict) and "error" in response.response
            is_error = failed if outcome.status is None else outcome.status != "success"
            yield Returned(session, name, at, response.text, is_error, id=call_id)
        self.state.tool = self.state.tool_ms = None

    def _read_system(self, line: RecordLine, session: str, at: int | None) -> Iterator[Event]:
        if line.subtype == "chat_compression":
            yield Compacted(session, at)
        elif line.subtype == "parent_session" and isinstance(line.systemPayload, dict):
            parent = line.systemPayload.get("parentSessionId")
            if isinstance(parent, str) and parent:
                yield Session(key=session, parent=parent, parent_kind="subagent")
        elif line.subtype == "ui_telemetry" and isinstance(line.systemPayload, dict):
            event = line.systemPayload.get("uiEvent")
            if isinstance(event, dict) and line.forkedFrom is None:
                yield from self._read_telemetry(event, line, session, at)

    def _read_telemetry(
        self, event: dict[str, Any], line: RecordLine, session: str, at: int | None
    ) -> Iterator[Event]:
        spent = event.get("duration_ms")
        milliseconds = round(spent) if isinstance(spent, int | float) and spent >= 0 else None
        match event.get("event.name"):
            case "qwen-code.api_response" if agent := _find_agent(event, line.sessionId or ""):
                yield from self._read_agent_call(event, agent, line, at)
            case "qwen-code.api_response":
                self.state.answer_ms = milliseconds
            case "qwen-code.tool_call":
                self.state.tool, self.state.tool_ms = event.get("function_name"), milliseconds
            case "qwen-code.api_error":
                text = event.get("error_message") or event.get("error") or "API error"
                status, model = event.get("status_code"), event.get("model")
                yield self._see(line, session, at, "api_error")
                yield failed_turn(
                    f"{line.uuid}!",
                    session,
                    str(text),
                    at=at,
                    status=status if isinstance(status, int) else None,
                    model=model if isinstance(model, str) else self.state.model,
                )

    def _read_agent_call(
        self, event: dict[str, Any], agent: str, line: RecordLine, at: int | None
    ) -> Iterator[Event]:
        """A call of a sub-agent, which has no other record."""
        used = {name: event.get(f"{field}_token_count") for name, field in COUNTED.items()}
        counted = msgspec.convert(used, UsageMetadata)
        usage = counted.read()
        session = f"{line.sessionId}/{agent}"
        model = event.get("model")
        yield Session(
            key=session,
            parent=line.sessionId,
            parent_kind="subagent",
            project=line.cwd,
            branch=line.gitBranch or None,
            version=line.version,
            started_at=at,
            ended_at=at,
        )
        yield Turn(
            key=_name_agent_call(session, counted),
            session=session,
            at=at,
            model=model if isinstance(model, str) else self.state.model,
            usage=usage,
            usage_status=FoundUsage(usage).status,
        )


# the names of the figures in the telemetry
COUNTED = {
    "promptTokenCount": "input",
    "candidatesTokenCount": "output",
    "thoughtsTokenCount": "thoughts",
    "cachedContentTokenCount": "cached_content",
    "totalTokenCount": "total",
}


def _name_agent_call(session: str, used: UsageMetadata) -> str:
    """A name that a sub-agent's call has in its own file and in its parent's telemetry."""
    prompt, output = used.promptTokenCount, used.candidatesTokenCount
    return f"{session}:{prompt}:{output}:{used.totalTokenCount}"


def _find_agent(event: dict[str, Any], session: str) -> str | None:
    """The sub-agent in the name of a request, `<session>#<agent>#<round>`.

    In a terminal, the requests of the session itself are `<session>########<round>`.
    """
    owner, _, rest = str(event.get("prompt_id") or "").partition("#")
    agent = rest.rpartition("#")[0]
    return agent if agent.strip("#") and owner == session else None
