"""The record of an exported session: a line of a chat file with the figures of its turns and calls.

`relight export` writes it, and the source `chat` reads it. Times are ISO-8601 in UTC, money is in
dollars, null is unknown. `docs/guide/export.md` describes the fields.
"""

from msgspec import Struct

# the value of `relight_export`: a record of a later shape has a larger one
VERSION = 1


class ExportedFigures(Struct, frozen=True):
    """The sums of one session alone: sub-agents have their own."""

    turns: int = 0
    partial_turns: int = 0
    unpriced_turns: int = 0
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    included_usd: float = 0.0
    tool_calls: int = 0
    tool_failures: int = 0


class ExportedFacts(Struct, frozen=True):
    """The facts about a session; `parent_kind` is subagent, fork or compaction."""

    session_id: str
    source: str
    parent_session_id: str | None = None
    parent_kind: str | None = None
    title: str | None = None
    project: str | None = None
    branch: str | None = None
    model: str | None = None
    version: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    outcome: str = "unknown"
    outcome_evidence: list[str] = []
    category: str | None = None
    score: float | None = None
    # the last kind of record and the time of the last prompt, which outcomes are judged by
    ending: str | None = None
    prompted_at: str | None = None


class ExportedTurn(Struct, frozen=True):
    """One model call with its tokens in disjoint buckets and its cost."""

    turn_id: str
    at: str | None = None
    model: str | None = None
    provider: str | None = None
    role: str | None = None
    calls: int = 1
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_status: str = "final"
    cost_usd: float | None = None
    cost_status: str = "unknown"
    cost_source: str | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None
    failure: str | None = None
    failure_text: str | None = None
    branch: str | None = None


class ExportedCall(Struct, frozen=True):
    """One tool call with its verdict; its arguments and result are in the messages.

    `exit_code` may have been found in the text of the result. The last three fields are those of
    the agent's record.
    """

    call_id: str
    turn_id: str | None = None
    tool: str = ""
    at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    label: str | None = None
    failure_kind: str | None = None
    reason: str | None = None
    evidence: str | None = None
    recorded_exit_code: int | None = None
    is_error: bool | None = None
    timed_out: bool | None = None


class AskedFunction(Struct, frozen=True):
    """The tool of a call, and its arguments as the model wrote them."""

    name: str = ""
    arguments: str | None = None


class AskedCall(Struct, frozen=True):
    """A tool call in a message; `id` is the `call_id` of the call."""

    id: str
    type: str = "function"
    function: AskedFunction = AskedFunction()


class ExportedMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An OpenAI chat message, with its time and the turn that it is from.

    `injected` is what the agent, a hook or Relight put into a prompt. A message with
    `is_compaction` is the summary that replaced the conversation so far.
    """

    role: str
    content: str | None = None
    tool_calls: list[AskedCall] | None = None
    tool_call_id: str | None = None
    timestamp: str | None = None
    turn_id: str | None = None
    injected: str | None = None
    is_compaction: bool = False


class ExportedSession(ExportedFacts, frozen=True, kw_only=True):
    """A session with everything. `silence` says why its messages are missing, if they are."""

    relight_export: int = VERSION
    figures: ExportedFigures = ExportedFigures()
    turns: list[ExportedTurn] = []
    calls: list[ExportedCall] = []
    messages: list[ExportedMessage] = []
    silence: str | None = None
