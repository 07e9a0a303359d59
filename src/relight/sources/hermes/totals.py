"""Hermes' own sums of tokens and costs, as totals to compare turns with."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from relight.model import Cost, Count, Total, Usage
from relight.prices import is_local_address, reported_cost
from relight.times import read_time

USAGE = ("input", "output", "cache_read", "cache_write", "reasoning")
UNNAMED = (None, "", "custom", "auto")


class SessionSums(Struct, frozen=True):
    """The sums of a row: of a session, or of one model and task in it."""

    model: str | None = None
    billing_provider: str | None = None
    billing_base_url: str | None = None
    billing_mode: str | None = None
    task: str | None = None
    started_at: Any = None
    first_seen: Any = None
    api_call_count: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    estimated_cost_usd: float | None = None
    actual_cost_usd: float | None = None
    cost_status: str | None = None

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, f"{name}_tokens") or 0 for name in USAGE}


def read_session_totals(
    key: str, session: SessionSums, used: Sequence[SessionSums]
) -> Iterator[Total]:
    """A total for each model and task; calls beside the conversation are only in these.

    Older versions have no such rows, and newer ones may lack part of an old session: the rest of
    the session's own sums is one more total.
    """
    rest, calls = session.counts(), session.api_call_count or 0
    for row in used:
        names = (row.model, row.billing_provider, row.task, row.billing_base_url, row.billing_mode)
        yield Total(
            key=":".join([key, *(name or "" for name in names)]),
            session=key,
            model=row.model or None,
            provider=find_provider(row.billing_provider, row.billing_base_url),
            role=row.task or None,
            at=read_time(row.first_seen or session.started_at),
            calls=row.api_call_count or 0,
            usage=Usage(**row.counts() | {"reasoning": row.reasoning_tokens}),
            cost=_read_cost(row),
        )
        if not row.task:
            rest = {name: rest[name] - value for name, value in row.counts().items()}
            calls -= row.api_call_count or 0
    if any(value > 0 for value in rest.values()):
        yield Total(
            key=f"{key}:session",
            session=key,
            model=session.model,
            provider=find_provider(session.billing_provider, session.billing_base_url),
            at=read_time(session.started_at),
            calls=max(calls, 0),
            usage=Usage(**{name: max(value, 0) for name, value in rest.items()}),
            # the session's cost is for all of it, not for what its rows leave over
            cost=_read_cost(session) if not used and session.estimated_cost_usd else None,
        )


def find_provider(name: str | None, address: str | None) -> str | None:
    """The provider that bills: `local` for a server on this machine or its network.

    Hermes names all endpoints that it has no entry for alike: `custom`, or `auto` for side tasks.

    >>> find_provider("custom", "http://127.0.0.1:11434/v1"), find_provider("ollama", None)
    ('local', 'ollama')
    """
    is_nameless = name in UNNAMED and address and address.startswith(("http://", "https://"))
    return "local" if is_nameless and is_local_address(address or "") else name or None


def read_usage(row: object) -> Usage:
    """The tokens of one call, under the names of Hermes' columns."""
    counts = row if isinstance(row, dict) else {}
    return Usage(**{name: counts.get(f"{name}_tokens") for name in USAGE})


def _read_cost(row: SessionSums) -> Cost | None:
    """The cost that Hermes reports, if any: 0.0 with status `unknown` means no price."""
    if row.actual_cost_usd:
        return reported_cost(row.actual_cost_usd)
    if row.cost_status == "included":
        return Cost(None, "included", "source")
    if row.cost_status in ("estimated", "actual") and row.estimated_cost_usd is not None:
        return reported_cost(row.estimated_cost_usd, status="estimated")
    return None
