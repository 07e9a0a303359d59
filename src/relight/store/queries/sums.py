"""The sums of a report."""

from msgspec import Struct

from relight.model import TokenColumns


class UsageSums(TokenColumns, frozen=True):
    """One row of sums; None where no record has a value."""

    sessions: int
    turns: int | None
    partial_turns: int | None
    cost_nanos: int | None
    included_nanos: int | None
    unpriced_turns: int | None
    tool_calls: int | None
    tool_failures: int | None
    wall_ms: float | None
    failed_turns: int | None = None


class OutcomeSums(Struct, frozen=True):
    """The sessions that succeeded and failed, and sums of those two kinds; None for single calls.

    A session without a known outcome says nothing about the cost of a success.
    """

    successes: int
    failures: int
    turns: int | None = None
    unpriced_turns: int | None = None
    cost_nanos: int | None = None


class GroupSums(Struct, frozen=True):
    """The sums of one group of a report, with the group's value for each key."""

    keys: dict[str, str | int | None]
    sums: UsageSums
    outcomes: OutcomeSums


class SessionCounts(Struct, frozen=True):
    """The number of sessions, and of those that succeeded and failed."""

    sessions: int
    successes: int
    failures: int
