"""The nouns: sessions, turns, tool calls and what is judged of them.

Every value is frozen. A field that is None is unknown, which is never the same as zero.
Times ending in `_at` are Unix milliseconds in UTC; money is integer nano-dollars, so that
sums do not depend on order.
"""

from typing import Literal

from msgspec import Struct



class Usage(Struct, frozen=True):
    """Tokens of one model call, in buckets that do not overlap.

    `input` is what was neither read from nor written to a cache. `cache_write_1h` is the part
    of `cache_write` at the one-hour price, `reasoning` the part of `output` that was thinking.
    """

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    cache_write_1h: int | None = None
    reasoning: int | None = None


class Cost(Struct, frozen=True):
    """What a turn cost, who says so (`source`) and how sure it is (`status`)."""

    nanos: int | None
    status: Literal["reported", "estimated", "included", "unknown"]
    source: str | None


class Verdict(Struct, frozen=True):
    """Did a tool call do what it was asked? `negative`: it did, and the answer was no."""

    label: Literal["ok", "negative", "error", "unknown"]
    kind: str | None = None
    reason: str | None = None
    evidence: str | None = None


class Failure(Struct, frozen=True):
    """What went wrong, and whether trying again can help."""

    kind: str
    category: Literal["retryable", "permanent", "unknown"]
    reason: str
    should_retry: bool
    max_retries: int
    backoff_seconds: float
    code: str | int | None = None
