"""The nouns: sessions, turns, tool calls and what is judged of them.

Every value is frozen. A field that is None is unknown, which is never the same as zero.
Times ending in `_at` are Unix milliseconds in UTC; money is integer nano-dollars, so that
sums do not depend on order.
"""

from functools import lru_cache
from itertools import filterfalse
from typing import Annotated, Literal

from msgspec import Meta, Struct

from relight.names import blake2b
from relight.times import LATEST_MS

Moment = Annotated[int, Meta(ge=0, lt=LATEST_MS)]
MOST_TOKENS = 10**11  # of one call: more is an error, and sums would not fit
Count = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Nanos = Annotated[int, Meta(ge=0, le=10**15)]
Milliseconds = Annotated[int, Meta(ge=0, le=10**13)]

Ending = Literal["prompt", "answer", "empty", "call", "result", "api_error", "interrupted"]
OutcomeName = Literal["success", "failure", "unknown"]
OUTCOMES: tuple[OutcomeName, ...] = ("success", "failure", "unknown")
CostStatus = Literal["reported", "estimated", "included", "unknown"]
SkillWay = Literal["cron", "tool", "slash", "preload", "auto"]
WindowKind = Literal["5h", "week"]


class Usage(Struct, frozen=True):
    """Tokens of one model call, in buckets that do not overlap.

    `input` is what was neither read from nor written to a cache. `cache_write_1h` is the part
    of `cache_write` at the one-hour price, `reasoning` the part of `output` that was thinking.
    """

    input: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None
    output: Count | None = None
    cache_write_1h: Count | None = None
    reasoning: Count | None = None


# each bucket: its field in `Usage` and its column; docs/adding.md says what a new one touches
BUCKETS = {
    "input": "input_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "cache_write_1h": "cache_write_1h_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}
TOKENS = tuple(BUCKETS.values())
PARTS = ("cache_write_1h_tokens", "reasoning_tokens")  # of other buckets
WHOLE_TOKENS = tuple(filterfalse(PARTS.__contains__, TOKENS))  # which add up to all
# the figures of a roll-up row or a charge, in the order of columns and reports
AMOUNTS = (
    "turns",
    "partial_turns",
    "unpriced_turns",
    *TOKENS,
    "cost_nanos",
    "included_nanos",
    "tool_calls",
    "tool_failures",
)


class TokenColumns(Struct, frozen=True):
    """The columns of the token buckets."""

    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None


class TokenCounts(Struct, frozen=True, kw_only=True):
    """The same of a record that need not name them."""

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class Cost(Struct, frozen=True):
    """The cost of a turn, its `source`, and how certain it is (`status`)."""

    nanos: Nanos | None
    status: CostStatus
    source: str | None


class Verdict(Struct, frozen=True):
    """The outcome of a tool call. `negative`: the call worked, and its answer was no."""

    label: Literal["ok", "negative", "error", "unknown"]
    kind: str | None = None
    reason: str | None = None
    evidence: str | None = None


class Failure(Struct, frozen=True):
    """A failure: its kind, whether a retry can help, and the name of the exception's type.

    `is_refusal` is True for a model call that was refused before any answer, which costs nothing.
    """

    kind: str
    category: Literal["retryable", "permanent", "unknown"]
    reason: str
    should_retry: bool
    max_retries: int
    backoff_seconds: float
    code: str | int | None = None
    asked_seconds: float | None = None  # the wait that the other side asked for
    is_refusal: bool = False
    exception: str | None = None

    @property
    def usage(self) -> Usage:
        """The tokens of a model call that failed so, if nothing more is known of it."""
        return Usage(0, 0, 0, 0) if self.is_refusal else Usage()


class Session(Struct, frozen=True, kw_only=True):
    """One conversation of one agent, as far as its records have been read."""

    key: str
    parent: str | None = None
    parent_kind: Literal["subagent", "fork", "compaction"] | None = None
    # the moment that a fork began: what it holds from before that, it copied
    forked_at: Moment | None = None
    project: str | None = None
    branch: str | None = None
    title: str | None = None
    model: str | None = None
    version: str | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    # what the last record was: a prompt, an answer, a call, a result, an API error, an interruption
    ending: Ending | None = None
    prompted_at: Moment | None = None
    answer: str | None = None
    told_outcome: OutcomeName | None = None
    script_error: str | None = None
    exported_from: str | None = None  # `source:id` in the store that an export is from


class Turn(Struct, frozen=True, kw_only=True):
    """One model call, keyed by the source's own id of the response.

    `usage_status` says how sure the tokens are: `final`, `partial` (a lower bound) or
    `reconciled` (known from a running total only). A call that failed has `calls` 0: it is no
    turn, but its tokens and its cost count.
    """

    key: str
    session: str
    at: Moment | None = None
    model: str | None = None
    provider: str | None = None
    role: str | None = None
    calls: Count = 1
    usage: Usage = Usage()
    usage_status: Literal["final", "partial", "reconciled"] = "final"
    cost: Cost | None = None
    duration_ms: Milliseconds | None = None
    first_token_ms: Milliseconds | None = None
    failure: str | None = None
    failure_text: str | None = None
    branch: str | None = None
    request: str | None = None  # its id, by which telemetry knows the call


class ToolCall(Struct, frozen=True, kw_only=True):
    """One request by the model with its result; `result` None means none was recorded."""

    key: str
    session: str
    tool: str
    # the id in its result, if that is not its key: agents reuse ids
    name: str | None = None
    turn: str | None = None
    at: Moment | None = None
    finished_at: Moment | None = None
    arguments: str | None = None
    result: str | None = None
    is_error: bool | None = None
    exit_code: int | None = None
    timed_out: bool | None = None
    duration_ms: Milliseconds | None = None


class Total(Struct, frozen=True, kw_only=True):
    """A client's own running total for a session and model: what turns must add up to.

    What it shows beyond the turns that are known becomes one `reconciled` turn.
    """

    key: str
    session: str
    model: str | None
    usage: Usage
    provider: str | None = None
    role: str | None = None
    at: Moment | None = None
    calls: Count | None = None
    cost: Cost | None = None
    with_children: bool = False


class SkillEntry(Struct, frozen=True, kw_only=True):
    """A skill coming into a session, and how; `turn` is the model call that loaded it.

    With `entry` None the log itself says that `turn` was spent on the skill.
    """

    key: str
    session: str
    name: str
    entry: SkillWay | None = None
    at: Moment | None = None
    version: str | None = None
    turn: str | None = None


class Outcome(Struct, frozen=True):
    """An outcome with all evidence, the deciding piece first, or what all signs point to."""

    outcome: OutcomeName
    evidence: list[str] = []
    points_to: OutcomeName | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A scheduled piece of agent work."""

    key: str
    name: str
    schedule: str | None = None
    prompt: str | None = None
    skills: list[str] = []
    model: str | None = None
    provider: str | None = None
    script: str | None = None
    state: str | None = None
    created_at: Moment | None = None
    next_run_at: Moment | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One execution of a job, from its scheduler's ledger; it may have left no session."""

    key: str
    job: str
    status: str
    session: str | None = None
    error: str | None = None
    scheduled_for: Moment | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None


class Latency(Struct, frozen=True, kw_only=True):
    """The duration of one model call, from a log beside the session's record."""

    key: str
    session: str
    model: str | None
    latency_ms: Milliseconds


class Passage(Struct, frozen=True):
    """A text of a session: a person's or a model's words, a call's arguments, or its result."""

    session: str
    kind: Literal["prompt", "answer", "call", "result"]
    text: str
    tool: str | None = None


class Timing(Struct, frozen=True):
    """The duration of a tool call that ended `at`, from a log beside the session's record."""

    key: str
    session: str
    tool: str
    at: Moment
    duration_ms: Milliseconds
    name: str | None = None  # the call's name, as in `ToolCall`
    call: str | None = None  # or the call's key
    report: str | None = None  # the key of a call that stands for it if no record has it


class LimitReport(Struct, frozen=True, kw_only=True):
    """The use of a plan's window `at` a moment, as the agent itself recorded it."""

    session: str
    kind: WindowKind
    ends_at: Moment
    at: Moment
    used_percent: Annotated[float, Meta(ge=0, le=1000)]


class Unreadable(Struct, frozen=True):
    """A stretch of a file that could not be understood, and why."""

    offset: int
    reason: str


class Parsed(Struct, frozen=True, kw_only=True):
    """The content of a stretch of a source's records, and the reader's state after it.

    The stretch's tape belongs to `owner`; `bad_lines` says why lines could not be read.
    """

    owner: str | None
    state: bytes
    sessions: list[Session] = []
    turns: list[Turn] = []
    reports: list[Turn] = []  # calls that telemetry reports of an agent with its own records
    calls: list[ToolCall] = []
    totals: list[Total] = []
    jobs: list[Job] = []
    runs: list[Run] = []
    latencies: list[Latency] = []
    skills: list[SkillEntry] = []
    passages: list[Passage] = []
    messages: dict[str, int] = {}  # how many each session had, results of calls among them
    timings: list[Timing] = []
    limits: list[LimitReport] = []
    compactions: list[tuple[str, int]] = []  # sessions that a summary replaced, and when
    bad_lines: dict[int, str] = {}


class Origin(Struct, frozen=True):
    """A file that a source's records come from, as it was when looked at."""

    path: str
    size: int = 0
    modified_ns: int = 0
    inode: int = 0
    # why it cannot be read, if that is known before reading
    trouble: str | None = None


class Mark(Struct, frozen=True, kw_only=True):
    """The read mark of a part of an origin, and the state that its reader needs to continue.

    `head` is a fingerprint of what was read: a file that was rewritten is read from its start, as
    a new `generation`.
    """

    path: str
    part: str = ""
    size: int = 0
    modified_ns: int = 0
    inode: int = 0
    offset: int = 0
    generation: int = 0
    head: bytes = b""
    state: bytes = b""


class Piece(Struct, frozen=True, kw_only=True):
    """New raw records of an origin, between the mark they were read from and the mark after.

    `after.state` is filled in once the records have been parsed.
    """

    source: str
    raw: bytes
    before: Mark
    after: Mark
    start: int | None = None  # of the records in their file, if it is not where the mark stands
    unreadable: list[Unreadable] = []


def hash_names(kind: str, *names: str) -> int:
    """Return a 64-bit row id from the source's names of a thing.

    Every process computes the same id. Of ten million, two are equal with a chance of 3 : 10⁶.
    """
    text = "\0".join((kind, *names)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


@lru_cache(maxsize=4096)
def row_id(kind: str, *names: str) -> int:
    """Return the same id from a cache: for short names that recur."""
    return hash_names(kind, *names)
