"""What Hermes' own sums say was used and spent, as totals to hold turns against."""

from collections.abc import Iterator
from typing import Any

import msgspec

from relight.model import Cost, Total, Usage
from relight.sources.reading import Count
from relight.times import read_time

USAGE = ("input", "output", "cache_read", "cache_write", "reasoning")


def read_totals(session: dict[str, Any], usage: list[dict[str, Any]]) -> Iterator[Total]:
    """A total for each model and task; calls beside the conversation only stand there.

    Older versions have no such rows, and newer ones may not hold all of an old session: what
    the session's own sums show beyond them is told as one more.
    """
    key = session["id"]
    rest = {name: session.get(f"{name}_tokens") or 0 for name in USAGE}
    calls = session.get("api_call_count") or 0
    cost = session.get("estimated_cost_usd")
    for row in usage:
        names = [str(row.get(name) or "") for name in ("model", "billing_provider", "task")]
        place = [str(row.get(name) or "") for name in ("billing_base_url", "billing_mode")]
        yield Total(
            key=":".join([key, *names, *place]),
            session=key,
            model=names[0] or None,
            provider=names[1] or None,
            role=names[2] or None,
            at=read_time(row.get("first_seen") or session.get("started_at")),
            calls=row.get("api_call_count") or 0,
            usage=_read_usage(row),
            cost=_read_cost(row),
        )
        if not names[2]:
            rest = {name: rest[name] - (row.get(f"{name}_tokens") or 0) for name in USAGE}
            calls -= row.get("api_call_count") or 0
    if any(value > 0 for value in rest.values()):
        remainder = {f"{name}_tokens": max(value, 0) for name, value in rest.items()}
        yield Total(
            key=f"{key}:session",
            session=key,
            model=session.get("model"),
            provider=session.get("billing_provider"),
            at=read_time(session.get("started_at")),
            calls=max(calls, 0),
            usage=_read_usage(remainder),
            # the session's cost is for all of it, not for what its rows leave over
            cost=_read_cost(session) if not usage and cost else None,
        )


def _read_usage(row: dict[str, Any]) -> Usage:
    return Usage(
        input=_count(row.get("input_tokens")),
        cache_read=_count(row.get("cache_read_tokens")),
        cache_write=_count(row.get("cache_write_tokens")),
        output=_count(row.get("output_tokens")),
        reasoning=row.get("reasoning_tokens") and _count(row["reasoning_tokens"]),
    )


def _count(value: object) -> int:
    return msgspec.convert(value or 0, Count)


def _read_cost(row: dict[str, Any]) -> Cost | None:
    """What Hermes says it cost, where it says so: 0.0 with status `unknown` means no price."""
    actual, estimated = row.get("actual_cost_usd"), row.get("estimated_cost_usd")
    status = row.get("cost_status")
    if actual:
        return Cost(round(actual * 1e9), "reported", "source")
    if status == "included":
        return Cost(None, "included", "source")
    if status in ("estimated", "actual") and estimated is not None:
        return Cost(round(estimated * 1e9), "estimated", "source")
    return None
