"""The arguments of the tools, which their schemas are made of, and what the tools return."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from relight.reports.filters import DAY_FORMS

if TYPE_CHECKING:
    from relight.reports.failed_work import FailedTotals, FailedWork, FailureCause
    from relight.reports.spirals import NamedSpiral
    from relight.store.queries.failures import FailureGroup

Name = Annotated[str, Meta(description="session_id as shown, a beginning of it, or last")]
Since = Annotated[str | None, Meta(description=f"the first day: {DAY_FORMS}")]
Until = Annotated[str | None, Meta(description="the last day, likewise")]


class SearchSessions(Struct, frozen=True, forbid_unknown_fields=True):
    """Search what was said and done in earlier sessions of coding agents, or list the newest.

    With a query it returns the matching steps, without one the sessions, newest first.
    """

    query: Annotated[
        str,
        Meta(description='words (all must match), "a phrase", prefix*, -without, path:… tool:…'),
    ] = ""
    outcome: Annotated[
        Literal["success", "failure", "unknown"] | None, Meta(description="only such sessions")
    ] = None
    failed_calls: Annotated[bool, Meta(description="only tool calls that failed")] = False
    tool: Annotated[str | None, Meta(description="only calls of this tool")] = None
    since: Since = None
    until: Until = None
    source: Annotated[
        str | None, Meta(description="only this agent, by the name before the colon of a session")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


class ReadSession(Struct, frozen=True, forbid_unknown_fields=True):
    """Read an earlier session: outcome, cost, and its steps with commands, results and errors.

    Long texts are shortened; a single step (limit 1) is shown almost whole.
    """

    session_id: Name
    step: Annotated[int, Meta(ge=1, description="the first step to show")] = 1
    limit: Annotated[int, Meta(ge=1, le=50, description="how many steps to show")] = 20
    only_errors: Annotated[bool, Meta(description="only the steps that failed")] = False


class WhatFailed(Struct, frozen=True, forbid_unknown_fields=True):
    """List what failed lately and why: sessions and runs, failed calls by kind, repeated failures.

    Ask before you try something that may have failed here before.
    """

    since: Since = "30d"
    until: Until = None
    tool: Annotated[str | None, Meta(description="only failed calls of this tool")] = None


class AskCost(Struct, frozen=True, forbid_unknown_fields=True):
    """Return what agents cost: of a branch, a commit or a path, or by day, model and more."""

    ref: Annotated[str | None, Meta(description="a branch, a commit or a path")] = None
    by: Annotated[
        Literal["day", "week", "month", "model", "session", "branch", "source", "tool"],
        Meta(description="without ref: the rows"),
    ] = "day"
    since: Since = "30d"
    until: Until = None


class SimilarTask(Struct, frozen=True, forbid_unknown_fields=True):
    """Find how a similar task was done before: sessions with a similar task, and a worked example.

    Ask at the beginning of a task, with the task in full sentences.
    """

    task: Annotated[str, Meta(min_length=1, max_length=20_000)]


class LabelSession(Struct, frozen=True, forbid_unknown_fields=True):
    """Record whether an earlier session reached its goal. A person's label is never replaced."""

    session_id: Name
    outcome: Literal["success", "failure", "unknown"]
    why: Annotated[str, Meta(max_length=500, description="the reason, in a few words")] = ""


class ToolHit(Struct, frozen=True, kw_only=True):
    """A step that matches a search."""

    session_id: str
    step: int
    kind: str
    at: str | None = None
    tool: str | None = None
    title: str | None = None
    outcome: str = "unknown"
    snippet: str


class ToolSession(Struct, frozen=True, kw_only=True):
    """A session in a list; nulls are unknown, and left out when it is written."""

    session_id: str
    title: str | None = None
    project: str | None = None
    branch: str | None = None
    model: str | None = None
    started_at: str | None = None
    outcome: str
    cost_usd: float | None = None
    unpriced_turns: int | None = None
    turns: int | None = None
    tool_calls: int
    tool_failures: int
    similarity: float | None = None


class ToolStep(Struct, frozen=True, kw_only=True):
    """A step of a session; nulls are unknown, or have no meaning for it."""

    step: int
    kind: str
    at: str | None = None
    text: str | None = None
    tool: str | None = None
    command: str | None = None
    path: str | None = None
    arguments: str | None = None
    result: str | None = None
    label: str | None = None
    failure_kind: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    cost_usd: float | None = None
    child_session_id: str | None = None


class ToolResultPage(Struct, frozen=True, kw_only=True):
    """Hits or sessions; `total` is of all that match."""

    hits: list[ToolHit] | None = None
    sessions: list[ToolSession] | None = None
    total: int | None = None
    note: str | None = None


class ToolSessionPart(ToolSession, frozen=True, kw_only=True):
    """A session and some of its steps; `next` is the first step that follows them."""

    ended_at: str | None = None
    evidence: list[str]
    changed: str | None = None
    total_steps: int
    steps: list[ToolStep]
    next: int | None = None
    silence: str | None = None


class ToolFailures(Struct, frozen=True, kw_only=True):
    """Failures: sums, causes, the newest sessions and runs, failed calls and spirals."""

    failed: "FailedTotals"
    causes: "list[FailureCause]"
    newest: "list[FailedWork]"
    failed_calls: "list[FailureGroup]"
    repeated: "list[NamedSpiral]"


class ToolCost(Struct, frozen=True, kw_only=True):
    """The figures of a part of the record, and its key, such as a day or a model."""

    key: str | None = None
    title: str | None = None
    sessions: int
    turns: int | None
    total_tokens: int | None
    cost_usd: float | None
    included_usd: float | None
    unpriced_turns: int | None
    tool_calls: int
    tool_failures: int
    successes: int
    failures: int
    unknown: int
    cost_per_success_usd: float | None


class ToolCostReport(Struct, frozen=True, kw_only=True):
    """The cost of agents by a key: the rows that cost most, and the rest of them as `other`."""

    by: str
    since: str | None
    until: str | None
    total: ToolCost
    rows: list[ToolCost]
    other: ToolCost | None


class ToolTemplate(Struct, frozen=True, kw_only=True):
    """A template for a task, and why; `example` is how the task was done, of the best one."""

    name: str
    task: str
    outcome: str
    session_id: str | None = None
    reasons: list[str]
    example: str | None = None


class ToolLikeness(Struct, frozen=True):
    """Sessions and templates whose task is similar, best first."""

    sessions: list[ToolSession]
    templates: list[ToolTemplate]


class ToolLabel(Struct, frozen=True):
    """The label that a session has now."""

    session_id: str
    outcome: str
