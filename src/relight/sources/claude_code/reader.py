"""Claude Code: `projects/<folder>/<session>.jsonl`, sub-agents in files of their own.

One response is written as one line for each of its blocks, all with the same message id; a
fork copies earlier lines with their ids. `input_tokens` counts only what was not cached.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.chat.injected import strip_block
from relight.model import Origin, Parsed, Session, ToolCall, Total, Turn, Usage
from relight.sources.claude_code.lines import (
    COMMANDS,
    Line,
    Message,
    ModelUsage,
    decode_line,
    find_answer,
    find_title,
    name_session,
    own_text,
    read_usage,
    result_text,
    tell_ending,
)
from relight.sources.claude_code.skills import SkillWatch, Watched
from relight.sources.files import find_files
from relight.sources.reading import Reading
from relight.times import read_time

NAME = "claude-code"
SIDECHAINS_KEPT = 32


class _State(Struct):
    session: str | None = None
    model: str | None = None
    last_at: int | None = None
    last_answer: str | None = None
    sidechains: dict[str, str] = {}
    open_calls: list[ToolCall] = []
    skills: Watched = msgspec.field(default_factory=Watched)


def find(environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
    """Transcripts in the folder given, else in Claude Code's own folders."""
    for root in [folder] if folder else folders(environment):
        yield from find_files(root)


def folders(environment: Mapping[str, str]) -> list[Path]:
    """`CLAUDE_CONFIG_DIR` (several may be named, with commas), else the two usual places."""
    home = Path(environment.get("HOME") or Path.home())
    named = [name.strip() for name in environment.get("CLAUDE_CONFIG_DIR", "").split(",")]
    roots = [Path(name).expanduser() for name in named if name]
    roots = roots or [home / ".claude", home / ".config" / "claude"]
    return [root / "projects" if root.name != "projects" else root for root in roots]


def read(lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
    """What these lines of one transcript say, going on from `state`."""
    reader = _Reader(origin, msgspec.json.decode(state, type=_State) if state else _State())
    reader.reading.read_lines(lines, reader.read_line)
    return reader.finish()


class _Reader:
    def __init__(self, origin: Origin, state: _State) -> None:
        self.origin = origin
        self.state = state
        self.reading = Reading(state.open_calls)
        self.skills = SkillWatch(self.reading, state.skills)

    def finish(self) -> Parsed:
        state, reading = self.state, self.reading
        state.open_calls = list(reading.open_calls.values())
        state.sidechains = dict(list(state.sidechains.items())[-SIDECHAINS_KEPT:])
        return reading.finish(state.session, msgspec.json.encode(state))

    def read_line(self, data: bytes) -> None:
        line = decode_line(data)
        if line.sessionId == "":
            raise ValueError("the session has no id")
        if line.modelUsage is not None and line.sessionId:
            self._read_totals(line.sessionId, line.modelUsage)
        message = line.message
        if message is None or not line.sessionId:
            return
        at = read_time(line.timestamp)
        self.state.last_at = at or self.state.last_at
        session = self._read_session(line, at)
        if line.type == "assistant":
            self._read_response(line, message, session, at)
        elif line.type == "user":
            self._read_results(message, session, at)
            if not line.isMeta and not line.isCompactSummary:
                self._hear_person(message, session)
            if (text := own_text(message)) is not None:
                self.skills.see_text(
                    text,
                    session=session,
                    at=at,
                    uuid=line.uuid,
                    cause=line.sourceToolUseID or (line.parentUuid if line.isMeta else None),
                    is_typed=not line.isMeta and line.sourceToolUseID is None,
                )

    def _read_session(self, line: Line, at: int | None) -> str:
        """The session a line belongs to: a sub-agent's lines bear its parent's id."""
        parent = line.sessionId or ""
        key = name_session(line, self.state.sidechains)
        if self.state.session is None:
            self.state.session = key
        is_child = key != parent
        message = line.message
        model = message.model if message and message.model != "<synthetic>" else None
        self.reading.see_session(
            Session(
                key=key,
                parent=parent if is_child else None,
                parent_kind="subagent" if is_child else None,
                project=line.cwd,
                title=find_title(line),
                model=model,
                version=line.version,
                started_at=at,
                ended_at=at,
                ending=(ending := tell_ending(line)),
                prompted_at=at if ending == "prompt" else None,
                answer=find_answer(line),
            )
        )
        return key

    def _read_response(self, line: Line, message: Message, session: str, at: int | None) -> None:
        if message.model == "<synthetic>":
            if line.isApiErrorMessage:
                self._read_api_error(line, message, session, at)
            return
        self.state.model = message.model
        name = message.id or line.uuid or ""
        key = f"{name}:{line.requestId}" if line.requestId else name
        if isinstance(message.content, str):
            self._hear_model(session, name, message.content)
        if (usage := message.usage) is not None:
            self.reading.see_turn(
                Turn(
                    key=key,
                    session=session,
                    at=at,
                    model=message.model,
                    provider=_provider(name, message.model),
                    usage=read_usage(usage),
                    # the placeholder of a stream's start: only its end tells the output
                    usage_status="final" if message.stop_reason else "partial",
                )
            )
        if line.attributionSkill or self.state.skills.typed is not None:
            self.skills.see_answer(line.attributionSkill, session=session, turn=key, at=at)
        for block in message.blocks:
            if block.type == "text":
                self._hear_model(session, name, block.text)
            elif block.type == "tool_use":
                self._hear_model(session, name, None)
                if block.name == "Skill":
                    arguments = bytes(block.input)
                    self.skills.see_call(block.id, arguments, session=session, turn=key, at=at)
                self.reading.open_call(
                    ToolCall(
                        key=block.id,
                        session=session,
                        turn=key,
                        tool=block.name,
                        at=at,
                        arguments=bytes(block.input).decode("utf-8", "replace") or None,
                    )
                )

    def _read_api_error(self, line: Line, message: Message, session: str, at: int | None) -> None:
        from relight.judging.failures import classify_error

        text = message.text or "API error"
        self.reading.see_turn(
            Turn(
                key=message.id or line.uuid or "",
                session=session,
                at=at,
                model=self.state.model,
                calls=0,
                usage=Usage(0, 0, 0, 0),
                failure=classify_error(text, status=line.apiErrorStatus).kind,
                failure_text=text[:500],
            )
        )

    def _hear_person(self, message: Message, session: str) -> None:
        text = message.content
        if isinstance(text, list):
            if all(block.type == "tool_result" for block in text):
                return
            text = "\n".join(block.text for block in text if block.type == "text")
        if text and not text.startswith(COMMANDS):
            self.reading.hear(session, "user", strip_block(text))

    def _hear_model(self, session: str, name: str, text: str | None) -> None:
        """Count an answer once, though each of its blocks has a line of its own."""
        self.reading.hear(session, "assistant", text, is_new=self.state.last_answer != name)
        self.state.last_answer = name

    def _read_results(self, message: Message, session: str, at: int | None) -> None:
        for block in message.blocks:
            if block.type == "tool_result":
                self.reading.hear(session, "tool")
                self.reading.close_call(
                    block.tool_use_id,
                    finished_at=at,
                    result=result_text(block.content),
                    is_error=block.is_error,
                )
                if self.state.skills.loading:
                    self.skills.see_result(block.tool_use_id, is_error=block.is_error)

    def _read_totals(self, session: str, usage: dict[str, ModelUsage]) -> None:
        """`cost-state`: cumulative for the session with its sub-agents, and inherited by forks."""
        # it may be all that is new of a session
        self.reading.see_session(Session(key=session))
        for name, used in usage.items():
            model = name.removesuffix("[1m]")
            self.reading.totals[f"{session}:{model}"] = Total(
                key=f"{session}:{model}",
                session=session,
                model=model,
                provider=_provider("", model),
                at=self.state.last_at,
                with_children=True,
                usage=Usage(
                    input=used.inputTokens,
                    cache_read=used.cacheReadInputTokens,
                    cache_write=used.cacheCreationInputTokens,
                    output=used.outputTokens,
                    cache_write_1h=used.cacheCreationEphemeral1hInputTokens,
                    reasoning=used.thinkingTokens,
                ),
            )


def _provider(message_id: str, model: str | None) -> str | None:
    if message_id.startswith("msg_bdrk_"):
        return "aws"
    if message_id.startswith("msg_vrtx_"):
        return "google-vertex"
    return "anthropic" if model and model.startswith("claude") else None
