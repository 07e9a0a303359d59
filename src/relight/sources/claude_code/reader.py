"""Claude Code: `projects/<folder>/<session>.jsonl`, sub-agents in separate files.

One response is written as one line for each of its blocks, all with the same message id; a
fork copies earlier lines with their ids and times. `/branch` marks each copy; of other forks the
head of the file has the time of the first own line. `input_tokens` counts only what was not cached.
"""

from collections.abc import Iterator

import msgspec

from relight.model import Origin, Session, ToolCall, Total, Turn, Usage
from relight.sources.claude_code.lines import (
    Block,
    Message,
    ModelUsage,
    TranscriptLine,
    decode_line,
    find_answer,
    find_ending,
    find_prompt,
    find_title,
    own_text,
    read_session_key,
    read_usage,
    result_text,
)
from relight.sources.claude_code.skills import SkillWatch, WatchedSkills
from relight.sources.events import Called, Compacted, Event, Returned, Said, failed_turn
from relight.sources.reading import ReaderState, StatefulReader
from relight.times import read_time

SIDECHAINS_REMEMBERED = 32


class TranscriptState(ReaderState):
    """The facts that a transcript's later lines depend on."""

    # the time of the lines above the first message, and the message that they were written for
    head_at: int | None = None
    head_message: str | None = None
    has_begun: bool = False
    model: str | None = None
    last_at: int | None = None
    last_answer: str | None = None
    sidechains: dict[str, str] = msgspec.field(default_factory=dict)
    skills: WatchedSkills = msgspec.field(default_factory=WatchedSkills)


class ClaudeCodeReader(StatefulReader[TranscriptState]):
    """Reads the lines of one transcript."""

    state_type = TranscriptState

    def __init__(self, origin: Origin, state: bytes = b"") -> None:
        super().__init__(origin, state)
        self.skills = SkillWatch(self.state.skills)

    def save(self) -> bytes:
        kept = list(self.state.sidechains.items())[-SIDECHAINS_REMEMBERED:]
        self.state.sidechains = dict(kept)
        return super().save()

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = decode_line(data)
        if line.sessionId == "":
            raise ValueError("the session has no id")
        if line.modelUsage is not None and line.sessionId:
            yield from self._read_totals(line.sessionId, line.modelUsage)
        message = line.message
        if message is None and line.uuid is None and not self.state.has_begun:
            self._read_head(line)
        if message is None or not line.sessionId:
            return
        self.state.has_begun = True
        at = read_time(line.timestamp)
        self.state.last_at = at or self.state.last_at
        session = read_session_key(line, self.state.sidechains)
        if self.owner is None:
            self.owner = session
        if not self.is_conversation:  # without these it is read in a quarter less time
            yield self._read_session(line, message, session, at)
        if line.type == "assistant":
            yield from self._read_response(line, message, session, at)
        elif line.type == "user":
            if isinstance(message.content, list):
                yield from self._read_results(message.content, session, at)
            if line.isCompactSummary:
                if not self._is_copy(line, at):
                    yield self._count_compaction(line, session, at)
                yield Compacted(session, at, find_prompt(message))
            elif not line.isMeta and (text := find_prompt(message)):
                yield Said(session, "user", text, at=at)
            text = own_text(message)
            if text is not None and self.skills.may_be_in(text):
                yield from self.skills.see_text(
                    text,
                    session=session,
                    at=at,
                    uuid=line.uuid,
                    cause=line.sourceToolUseID or (line.parentUuid if line.isMeta else None),
                    is_typed=not line.isMeta and line.sourceToolUseID is None,
                )

    def _read_head(self, line: TranscriptLine) -> None:
        """Note when the file was begun: a fork's head is written before its copies."""
        shown = line.snapshot
        at = read_time(line.timestamp or (shown.timestamp if shown else None))
        if at is not None and at >= (self.state.head_at or 0):
            self.state.head_at = at
            self.state.head_message = shown.messageId if shown else None

    def _is_copy(self, line: TranscriptLine, at: int | None) -> bool:
        """True if a fork copied this line from its parent."""
        begun_at = self.state.head_at
        if line.forkedFrom is not None or begun_at is None or at is None:
            return line.forkedFrom is not None
        # a snapshot is written some milliseconds after the prompt that it is for
        return at < begun_at and line.uuid != self.state.head_message

    def _read_session(
        self, line: TranscriptLine, message: Message, key: str, at: int | None
    ) -> Session:
        """The session of a line; a sub-agent's lines have its parent's id."""
        parent = line.sessionId or ""
        is_child, is_copy = key != parent, self._is_copy(line, at)
        # a copied line says nothing about the fork's own time and end
        seen_at = self.state.head_at if is_copy else at
        ending = None if is_copy else find_ending(line)
        forked_at = self._find_fork(at) if is_copy and line.type == "assistant" else None
        return Session(
            key=key,
            parent=parent if is_child else None,
            parent_kind="subagent" if is_child else "fork" if forked_at is not None else None,
            forked_at=forked_at,
            project=line.cwd,
            branch=line.gitBranch or None,
            title=find_title(line),
            model=message.model if message.model != "<synthetic>" else None,
            version=line.version,
            started_at=seen_at,
            ended_at=seen_at,
            ending=ending,
            prompted_at=at if ending == "prompt" else None,
            answer=None if is_copy else find_answer(line),
        )

    def _find_fork(self, at: int | None) -> int | None:
        """The moment that a fork began: after this copy, if the head of the file has none."""
        begun_at = self.state.head_at
        if at is None or (begun_at is not None and begun_at > at):
            return begun_at
        return at + 1

    def _read_response(
        self, line: TranscriptLine, message: Message, session: str, at: int | None
    ) -> Iterator[Event]:
        if message.model == "<synthetic>":
            if line.isApiErrorMessage:
                yield failed_turn(
                    message.id or line.uuid or "",
                    session,
                    message.text or "API error",
                    at=at,
                    status=line.apiErrorStatus,
                    model=self.state.model,
                )
            return
        self.state.model = message.model
        name = message.id or line.uuid or ""
        key = f"{name}:{line.requestId}" if line.requestId else name
        if isinstance(message.content, str):
            yield self._say(session, name, message.content, key=key, at=at)
        if (usage := message.usage) is not None:
            yield Turn(
                key=key,
                session=session,
                at=at,
                model=message.model,
                provider=_provider(name, message.model),
                usage=read_usage(usage),
                # a stream's start holds a placeholder: only its end has the output
                usage_status="final" if message.stop_reason else "partial",
                branch=line.gitBranch or None,
                request=line.requestId,
            )
        if line.attributionSkill or self.state.skills.typed is not None:
            skill = line.attributionSkill
            yield from self.skills.see_answer(skill, session=session, turn=key, at=at)
        for block in message.blocks:
            if block.type == "text":
                yield self._say(session, name, block.text, key=key, at=at)
            elif block.type == "tool_use":
                if self.state.last_answer != name:
                    yield self._say(session, name, None, key=key, at=at)
                if block.name == "Skill":
                    arguments = bytes(block.input)
                    self.skills.see_call(block.id, arguments, session=session, turn=key, at=at)
                call = ToolCall(
                    key=block.id,
                    session=session,
                    turn=key,
                    tool=block.name,
                    at=at,
                    arguments=bytes(block.input).decode("utf-8", "replace") or None,
                )
                yield Called(call, None, key or None)

    def _count_compaction(self, line: TranscriptLine, session: str, at: int | None) -> Turn:
        """The call that wrote a summary, which no line has the usage of.

        Newer clients have it in their totals, which take its place; without them the session's cost
        is a lower bound.
        """
        return Turn(
            key=f"{line.uuid}:compaction",
            session=session,
            at=at,
            model=self.state.model,
            provider=_provider("", self.state.model),
            role="compaction",
            usage_status="partial",
        )

    def _say(self, session: str, name: str, text: str | None, *, key: str, at: int | None) -> Said:
        """Words of a response, counted once though each of its blocks has a line."""
        is_new = self.state.last_answer != name
        self.state.last_answer = name
        return Said(session, "assistant", text, key or None, is_new, at)

    def _read_results(self, blocks: list[Block], session: str, at: int | None) -> Iterator[Event]:
        for block in blocks:
            if block.type == "tool_result":
                name = block.tool_use_id
                yield Returned(session, name, at, result_text(block.content), block.is_error)
                if self.state.skills.loading:
                    yield from self.skills.see_result(name, is_error=block.is_error)

    def _read_totals(self, session: str, usage: dict[str, ModelUsage]) -> Iterator[Event]:
        """`cost-state`: cumulative for the session with its sub-agents, and inherited by forks."""
        # it may be all that is new of a session
        yield Session(key=session)
        for name, used in usage.items():
            model = name.removesuffix("[1m]")
            yield Total(
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
