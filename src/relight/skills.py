"""Uses of skills: told by the programs that run them, and added up by day."""

import math
import sqlite3
from collections.abc import Sequence
from typing import Any

from relight.errors import RelightError
from relight.ids import row_id
from relight.sources import SOURCES
from relight.store import Store
from relight.times import day_reader, take_time, write_time

WAYS = ("cron", "tool", "slash", "preload", "auto")
STATUSES = ("reported", "estimated", "included", "unknown")
# what is told of a use, and kept as it was told
TOLD = (
    "session_id",
    "root_id",
    "job_id",
    "skill_name",
    "skill_version",
    "entry",
    "invoked_at",
    "completed_at",
    "day",
    "model",
    "provider",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost_nanos",
    "cost_status",
    "cost_source",
    "success",
    "end_reason",
    "quality_score",
    "share",
)
KNOWN = f"select id, is_told, {', '.join(TOLD)} from skill_invocations"
# one told use stands for at least one turn
WRITE = f"""
    insert or replace into skill_invocations (id, is_told, {", ".join(TOLD)}, turns, partial_turns,
        unpriced_turns, included_nanos, tool_calls, tool_failures)
    values (:id, 1, {", ".join(f":{name}" for name in TOLD)}, 1, 0, :cost_nanos is null,
        case when :cost_status = 'included' then coalesce(:cost_nanos, 0) else 0 end, 0, 0)
"""
DAILY = (
    "skill_name, model, provider, day, invocation_count, success_count, failure_count,"
    " unknown_count, avg_duration_s, total_cost_usd, avg_cost_usd, unpriced_count,"
    " total_input_tokens, total_output_tokens, avg_quality_score, last_invoked_at"
)


def record_skill_invocation(
    store: Store,
    *,
    skill_name: str,
    invoked_at: object,
    session_id: str | None = None,
    job_id: str | None = None,
    skill_version: str | None = None,
    completed_at: object = None,
    entry: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    duration_seconds: float | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    cache_read_tokens: int | None = None,
    cache_write_tokens: int | None = None,
    cost_usd: float | None = None,
    cost_status: str | None = None,
    cost_source: str | None = None,
    success: bool | None = None,
    end_reason: str | None = None,
    quality_score: float | None = None,
    share: float = 1.0,
) -> int:
    """Keep one use of a skill as it is told, and give its id.

    With a `session_id` there is one row for the session, skill and `entry`: what is told again
    replaces what was told before, and what is left out stays. It stands before anything that is
    derived from the session's own records.
    """
    begun = take_time("invoked_at", invoked_at)
    ended = None if completed_at is None else take_time("completed_at", completed_at)
    if ended is not None and ended < begun:
        raise RelightError("completed_at is before invoked_at", "give both in the same time zone")
    if ended is not None and duration_seconds is None:
        duration_seconds = (ended - begun) / 1000
    told: dict[str, Any] = {
        "job_id": _check_text("job_id", job_id),
        "skill_name": _check_text("skill_name", skill_name, is_needed=True),
        "skill_version": _check_text("skill_version", skill_version),
        "entry": _check_choice("entry", entry, WAYS),
        "invoked_at": begun,
        "completed_at": ended,
        "day": day_reader(store.timezone)(begun) or "unknown",
        "model": _check_text("model", model),
        "provider": _check_text("provider", provider),
        "duration_seconds": _check_number("duration_seconds", duration_seconds),
        "input_tokens": _check_count("input_tokens", input_tokens),
        "output_tokens": _check_count("output_tokens", output_tokens),
        "cache_read_tokens": _check_count("cache_read_tokens", cache_read_tokens),
        "cache_write_tokens": _check_count("cache_write_tokens", cache_write_tokens),
        **_check_cost(cost_usd, cost_status, cost_source),
        "success": _check_success(success),
        "end_reason": _check_text("end_reason", end_reason),
        "quality_score": _check_number("quality_score", quality_score),
        "share": _check_number("share", share, most=1.0),
    }
    name = _check_text("session_id", session_id)
    with store.transaction() as database:
        return _write(database, told | _find_session(database, name), name)


def _write(database: sqlite3.Connection, told: dict[str, Any], name: str | None) -> int:
    row: dict[str, Any] = {**dict.fromkeys(("id", *TOLD)), "cost_status": "unknown"}
    if name is not None:
        cursor = database.execute(
            f"{KNOWN} where session_id in (?, ?) and skill_name = ? and coalesce(entry, '') = ?",
            (name, told["session_id"], told["skill_name"], told["entry"] or ""),
        )
        known = cursor.fetchone()
        if known is not None:
            names = [column[0] for column in cursor.description]
            kept = dict(zip(names, known, strict=True))
            row |= kept if kept.pop("is_told") else {"id": kept["id"]}
    row |= {key: value for key, value in told.items() if value is not None}
    if row["cost_status"] == "unknown":
        row["cost_nanos"] = None
    cursor = database.execute(WRITE, row)
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _find_session(database: sqlite3.Connection, name: str | None) -> dict[str, Any]:
    """The session's full name and root, where it is recorded here; else it is kept as told."""
    if name is None:
        return {"session_id": None}
    source, _, key = name.partition(":")
    ids = {row_id("session", source, key), *(row_id("session", one, name) for one in SOURCES)}
    rows = database.execute(
        "select source || ':' || key, root_id from session"
        f" where id in ({', '.join('?' * len(ids))})",
        list(ids),
    ).fetchall()
    if len(rows) == 1:
        return {"session_id": rows[0][0], "root_id": rows[0][1]}
    return {"session_id": name}


def read_daily(
    store: Store,
    *,
    since: str | None = None,
    until: str | None = None,
    skill: str | None = None,
) -> list[dict[str, Any]]:
    """`skill_stats_daily` between two days, newest first."""
    rows = store.query(
        f"select {DAILY} from skill_stats_daily where day >= ? and day <= ?"
        " and (? is null or skill_name = ?)"
        " order by day desc, skill_name, model, provider",
        (since or "", until or "~", skill, skill),
    )
    daily = [dict(zip(DAILY.split(", "), row, strict=True)) for row in rows]
    return [one | {"last_invoked_at": write_time(one["last_invoked_at"])} for one in daily]


def _check_text(name: str, value: str | None, *, is_needed: bool = False) -> str | None:
    if value is None and not is_needed:
        return None
    if not isinstance(value, str) or not value.strip():
        raise RelightError(f"{name} must be a text that is not empty, not {value!r}")
    return value.strip()


def _check_choice(name: str, value: str | None, choices: Sequence[str]) -> str | None:
    if value is not None and value not in choices:
        raise RelightError(f"{name} cannot be {value!r}", f"it is one of {', '.join(choices)}")
    return value


def _check_number(name: str, value: object, *, most: float = math.inf) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RelightError(f"{name} must be a number, not {value!r}")
    if not 0 <= value <= most or math.isinf(value):
        limit = "from 0 up" if most == math.inf else f"between 0 and {most:g}"
        raise RelightError(f"{name} must be {limit}, not {value!r}")
    return float(value)


def _check_count(name: str, value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise RelightError(f"{name} must be a whole number from 0 up, not {value!r}")
    return value


def _check_success(value: object) -> int | None:
    if value is not None and not isinstance(value, bool):
        raise RelightError(f"success must be True, False or None for unknown, not {value!r}")
    return None if value is None else int(value)


def _check_cost(cost_usd: object, status: str | None, source: str | None) -> dict[str, Any]:
    """Money as whole nano-dollars; without a price it is unknown, and never zero."""
    cost = _check_number("cost_usd", cost_usd)
    _check_choice("cost_status", status, STATUSES)
    if cost is None and status in ("reported", "estimated"):
        raise RelightError(f"cost_status is {status!r}, but there is no cost_usd")
    return {
        "cost_nanos": None if cost is None or status == "unknown" else round(cost * 1e9),
        "cost_status": status or (None if cost is None else "reported"),
        "cost_source": _check_text("cost_source", source),
    }
