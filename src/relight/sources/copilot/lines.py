"""The events of Copilot CLI, each with the fields of its `data` that are read."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from relight.chat.messages import decode_mended
from relight.chat.usage import exclusive_usage
from relight.model import Count, Usage


class EventLine(Struct):
    type: str = ""
    data: Raw = Raw(b"{}")
    id: str = ""
    timestamp: str | None = None
    agentId: str | None = None


class Place(Struct):
    cwd: str | None = None
    branch: str | None = None


class BeginData(Struct):
    """`session.start`, and `session.resume`, which names no session."""

    sessionId: str | None = None
    copilotVersion: str | None = None
    selectedModel: str | None = None
    context: Place | None = None
    detachedFromSpawningParentSessionId: str | None = None


class PromptData(Struct):
    content: str = ""
    source: str | None = None
    isAutopilotContinuation: bool = False


class TokenFigures(Struct):
    inputTokens: Count | None = None
    outputTokens: Count | None = None
    cacheReadTokens: Count | None = None
    cacheWriteTokens: Count | None = None
    reasoningTokens: Count | None = None

    def read(self) -> Usage:
        return exclusive_usage(
            self.inputTokens,
            self.cacheReadTokens,
            self.outputTokens,
            cache_write=self.cacheWriteTokens,
            reasoning=self.reasoningTokens,
        )


class Accounting(Struct):
    sourceSessionId: str | None = None
    sequence: int | None = None
    usageId: str | None = None


class CallUsage(TokenFigures):
    model: str | None = None
    modelProvider: str | None = None
    apiCallId: str | None = None
    isByok: bool | None = None
    duration: float | None = None
    timeToFirstTokenMs: float | None = None
    accounting: Accounting | None = None


class UsageData(Struct):
    usage: CallUsage


class ToolRequest(Struct):
    toolCallId: str = ""
    name: str = ""
    arguments: Any = None


class AnswerData(Struct):
    messageId: str | None = None
    model: str | None = None
    content: str | None = None
    toolRequests: list[ToolRequest] | None = None
    apiCallId: str | None = None
    outputTokens: Count | None = None


class StartedCall(Struct):
    toolCallId: str = ""


class ShellExecution(Struct):
    exitCode: int | None = None


class CallResult(Struct):
    content: Any = None


class CallError(Struct):
    message: str | None = None


class FinishedCall(Struct):
    toolCallId: str = ""
    success: bool | None = None
    result: CallResult | None = None
    error: CallError | None = None
    shellExecution: ShellExecution | None = None


class ErrorData(Struct):
    """`session.error` and `model.call_failure`, which name the text differently."""

    message: str | None = None
    errorMessage: str | None = None
    statusCode: int | None = None
    model: str | None = None


class ModelData(Struct):
    newModel: str | None = None


class SkillData(Struct):
    name: str = ""
    trigger: str | None = None


class CompactionData(Struct):
    success: bool = True
    summaryContent: str | None = None


class AbortData(Struct):
    """Nothing of it is needed."""


class ModelMetrics(Struct):
    usage: TokenFigures


class Metrics(Struct):
    modelMetrics: dict[str, ModelMetrics] = {}


class ShutdownData(Metrics):
    """The sums of a process; newer versions nest them."""

    accountingSnapshot: Metrics | None = None


SHAPES: dict[str, type[Struct]] = {
    "session.start": BeginData,
    "session.resume": BeginData,
    "session.context_changed": Place,
    "session.model_change": ModelData,
    "user.message": PromptData,
    "session.usage_record": UsageData,
    "assistant.message": AnswerData,
    "tool.execution_start": StartedCall,
    "tool.execution_complete": FinishedCall,
    "session.error": ErrorData,
    "model.call_failure": ErrorData,
    "abort": AbortData,
    "skill.invoked": SkillData,
    "session.compaction_complete": CompactionData,
    "session.shutdown": ShutdownData,
}
_decode_line = msgspec.json.Decoder(EventLine).decode
_decode_data = {kind: msgspec.json.Decoder(shape).decode for kind, shape in SHAPES.items()}


def decode_event(data: bytes) -> tuple[EventLine, Struct | None]:
    """An event and its data; None for the many kinds that say nothing of interest here."""
    line = decode_mended(_decode_line, data)
    decode = _decode_data.get(line.type)
    return line, decode_mended(decode, bytes(line.data)) if decode else None
