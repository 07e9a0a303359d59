"""Rows of one stretch of records, as they travel from worker processes to the one that writes.

There a list without names is smaller and quicker to read.
"""

from operator import attrgetter
from typing import Any

from msgspec import Struct

from relight.judging.admissions import Admission
from relight.judging.features import Measures, WordCounts
from relight.model import (
    BUCKETS,
    TOKENS,
    Cost,
    CostStatus,
    Job,
    Latency,
    Mark,
    Run,
    Session,
    TokenColumns,
    Total,
    Turn,
    Unreadable,
    Usage,
    row_id,
)
from relight.prices import UNKNOWN
from relight.store.derive.search_text import TextRow
from relight.store.derive.session_sums import WholeSums
from relight.store.limits import LimitReportRow
from relight.store.write.set_aside import SetAside

_read_columns = attrgetter(*(BUCKETS[name] for name in Usage.__struct_fields__))
_read_buckets = attrgetter(*BUCKETS)


class TurnRow(TokenColumns, frozen=True, array_like=True, gc=False):
    """A row of `turn`."""

    id: int
    session_id: int
    at: int | None
    day: str | None
    model: str | None
    provider: str | None
    role: str | None
    calls: int
    usage_status: str
    cost_nanos: int | None
    cost_status: CostStatus
    cost_source: str | None
    duration_ms: int | None
    first_token_ms: int | None
    failure: str | None
    failure_text: str | None
    total_id: int | None = None
    branch: str | None = None
    request: int | None = None

    @property
    def usage(self) -> Usage:
        return usage_of(self)


class CallRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `tool_call`."""

    id: int
    session_id: int
    turn_id: int | None
    at: int | None
    day: str | None
    finished_at: int | None
    tool: str
    fingerprint: int
    arguments_bytes: int | None
    result_bytes: int | None
    exit_code: int | None
    duration_ms: int | None
    label: str
    kind: str | None
    reason: str | None
    evidence: str | None
    tests: str | None
    work: str
    name: int | None


class SkillEntryRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `skill_entry`."""

    id: int
    session_id: int
    skill_name: str
    entry: str | None
    at: int | None
    skill_version: str | None
    turn_id: int | None


class TimingRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `call_timing`."""

    id: int
    session_id: int
    tool: str
    at: int
    duration_ms: int
    name: int | None
    report_id: int | None = None


class FileEditRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `file_edit`."""

    call_id: int
    path: str
    lines_added: int
    lines_removed: int


class GitCommitRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `git_commit`."""

    call_id: int
    hash: str
    branch: str | None


class CompactionRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of `compaction`."""

    session_id: int
    at: int


class Sealed(Struct, frozen=True, kw_only=True):
    """Rows of one stretch of records, ready to be written together with its read mark."""

    source: str
    before: Mark
    after: Mark
    owner_id: int | None = None
    start: int = 0
    raw_bytes: int = 0
    records: bytes = b""
    sessions: list[tuple[int, Session]] = []
    # by the hash of the answer
    admissions: dict[int, Admission] = {}
    turns: list[tuple[int, str | None, Turn]] = []
    # turns as rows, which workers make of `turns`; unless they priced them, a cost is the one that
    # the source states
    turn_rows: list[TurnRow] = []
    is_priced: bool = False
    # of sessions that begin here, as far as these records go
    measures: dict[int, Measures] = {}
    sums: dict[int, WholeSums] = {}
    reports: list[tuple[int, Turn]] = []
    calls: list[CallRow] = []
    totals: list[tuple[int, Total]] = []
    jobs: list[Job] = []
    runs: list[Run] = []
    latencies: list[Latency] = []
    unreadable: list[Unreadable] = []
    skills: list[SkillEntryRow] = []
    words: list[WordCounts] = []
    timings: list[TimingRow] = []
    limits: list[LimitReportRow] = []
    compactions: list[CompactionRow] = []
    edits: list[FileEditRow] = []
    commits: list[GitCommitRow] = []
    set_aside: SetAside | None = None
    texts: list[TextRow] = []
    # the part of the tape that the rows were derived from again
    tape_part_id: int | None = None


def list_turns(piece: Sealed) -> list[TurnRow]:
    """Return the rows of all turns, at the costs that the source states."""
    made = [
        turn_row(piece.source, found, day, turn, cost=turn.cost or UNKNOWN)
        for found, day, turn in piece.turns
    ]
    return [*piece.turn_rows, *made]


def turn_row(source: str, turn_id: int, day: str | None, turn: Turn, *, cost: Cost) -> TurnRow:
    """The row of a turn with its cost."""
    return TurnRow(
        **name_tokens(turn.usage),
        id=turn_id,
        session_id=row_id("session", source, turn.session),
        at=turn.at,
        day=day,
        model=turn.model,
        provider=turn.provider,
        role=turn.role,
        calls=turn.calls,
        usage_status=turn.usage_status,
        cost_nanos=cost.nanos,
        cost_status=cost.status,
        cost_source=cost.source,
        duration_ms=turn.duration_ms,
        first_token_ms=turn.first_token_ms,
        failure=turn.failure,
        failure_text=turn.failure_text,
        branch=turn.branch,
        request=name_request(source, turn),
    )


def name_request(source: str, turn: Turn) -> int | None:
    """The hash of a request's id, by which a call and its report know each other."""
    return None if turn.request is None else row_id("request", source, turn.request)


def usage_of(row: TokenColumns) -> Usage:
    """The tokens of a row."""
    return Usage(*_read_columns(row))


def name_tokens(usage: Usage) -> dict[str, Any]:
    """The tokens of a call by column."""
    return dict(zip(TOKENS, _read_buckets(usage), strict=True))
