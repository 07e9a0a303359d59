"""The lines of a Claude Code transcript, and the parts of each."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from relight.chat.blocks import find_task
from relight.chat.messages import decode_mended
from relight.model import Count, Ending, Usage
from relight.sources.reading import INTERRUPTED, find_texts, first_line, last_words

# how the client records commands that it runs without the model
COMMANDS = ("<command-", "<local-command")


class CacheCreation(Struct):
    ephemeral_1h_input_tokens: Count = 0


class OutputDetails(Struct):
    thinking_tokens: Count | None = None


class BlockUsage(Struct):
    input_tokens: Count = 0
    cache_read_input_tokens: Count | None = 0
    cache_creation_input_tokens: Count | None = 0
    output_tokens: Count = 0
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None


class Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"")
    text: str = ""
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"")


class Message(Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: BlockUsage | None = None

    @property
    def blocks(self) -> list[Block]:
        return self.content if isinstance(self.content, list) else []

    @property
    def text(self) -> str | None:
        """The text, or the first one of several blocks."""
        if isinstance(self.content, list):
            return next((block.text for block in self.content if block.text), None)
        return self.content


class ModelUsage(Struct):
    inputTokens: Count = 0
    outputTokens: Count = 0
    thinkingTokens: Count | None = None
    cacheReadInputTokens: Count = 0
    cacheCreationInputTokens: Count = 0
    cacheCreationEphemeral1hInputTokens: Count | None = None


class ForkedFrom(Struct):
    sessionId: str = ""


class FileSnapshot(Struct):
    messageId: str | None = None
    timestamp: str | None = None


class TranscriptLine(Struct):
    type: str = ""
    sessionId: str | None = None
    timestamp: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    isSidechain: bool = False
    agentId: str | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    cwd: str | None = None
    gitBranch: str | None = None
    version: str | None = None
    message: Message | None = None
    requestId: str | None = None
    isApiErrorMessage: bool | None = None
    apiErrorStatus: int | None = None
    attributionSkill: str | None = None
    sourceToolUseID: str | None = None
    modelUsage: dict[str, ModelUsage] | None = None
    forkedFrom: ForkedFrom | None = None
    snapshot: FileSnapshot | None = None


_decode = msgspec.json.Decoder(TranscriptLine).decode


def decode_line(line: bytes) -> TranscriptLine:
    return decode_mended(_decode, line)


def read_session_key(line: TranscriptLine, chains: dict[str, str]) -> str:
    """The key of a line's session.

    Old clients write sub-agents into their parent's file. Such a sub-agent is named by the first
    line of its chain; `chains` has the name of each line seen.
    """
    parent = line.sessionId or ""
    if line.agentId:
        return f"{parent}/{line.agentId}"
    if not line.isSidechain:
        return parent
    name = chains.get(line.parentUuid or "") or f"sidechain-{(line.uuid or '')[:8]}"
    chains[line.uuid or ""] = name
    return f"{parent}/{name}"


def find_title(line: TranscriptLine) -> str | None:
    """A title from a person's prompt, which neither the client nor a command wrote."""
    message = line.message
    if line.type != "user" or line.isMeta or line.isCompactSummary or message is None:
        return None
    # the prompt of a job may begin with a skill in tags: the client's own tags hold no task
    return None if find_task(message.text or "").startswith("<") else first_line(message.text)


def find_ending(line: TranscriptLine) -> Ending | None:
    """The session's ending if this line is its last."""
    message = line.message
    if message is None or line.isMeta or line.isCompactSummary:
        return None
    kinds = {block.type for block in message.blocks}
    if line.type == "assistant":
        if line.isApiErrorMessage:
            return "api_error"
        return "call" if "tool_use" in kinds else "answer" if "text" in kinds else None
    text = message.text or ""
    if text.startswith(INTERRUPTED):
        return "interrupted"
    if "tool_result" in kinds:
        return "result"
    # a command that the client runs without the model gets no answer
    return None if text.startswith(COMMANDS) else "prompt"


def find_answer(line: TranscriptLine) -> str | None:
    """The beginning of a model's words, if the line has any."""
    if line.type != "assistant" or line.isApiErrorMessage or line.message is None:
        return None
    return last_words(line.message.text)


def find_prompt(message: Message) -> str | None:
    """A person's words; None for a command that the client runs without the model."""
    text = message.content
    if isinstance(text, list):
        text = "\n".join(block.text for block in text if block.type == "text" and block.text)
    return text if text and not text.startswith(COMMANDS) else None


def own_text(message: Message) -> str | None:
    """A message's text, unless it brings results of calls."""
    content = message.content
    if isinstance(content, list):
        return content[0].text if content and content[0].type == "text" else None
    return content


def result_text(raw: Raw) -> str | None:
    """The text of a tool result, which is a string or a list of blocks."""
    data = bytes(raw)
    if not data:
        return None
    content: Any = msgspec.json.decode(data)
    if isinstance(content, list):
        return "\n".join(find_texts(content))
    return content if isinstance(content, str) else None


def read_usage(usage: BlockUsage) -> Usage:
    hour = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else None
    details = usage.output_tokens_details
    return Usage(
        input=usage.input_tokens,
        cache_read=usage.cache_read_input_tokens or 0,
        cache_write=usage.cache_creation_input_tokens or 0,
        output=usage.output_tokens,
        cache_write_1h=hour,
        reasoning=details.thinking_tokens if details else None,
    )
