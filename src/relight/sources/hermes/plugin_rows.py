"""Rows that Relight's plugin writes inside Hermes: model calls, failures, tool times, skills.

Hermes itself stores only sums. Each row is a line on the session's tape; its `table` is `event`.
"""

from collections.abc import Iterator
from typing import Any

from relight.judging.failures import classify_error
from relight.model import Session, SkillEntry, Timing, Turn, Usage
from relight.sources.events import Event
from relight.sources.hermes.totals import read_usage
from relight.times import read_time


def read_plugin_row(row: dict[str, Any]) -> Iterator[Event]:
    """The events of a row, without what the database holds as well."""
    session = row["session_id"]
    at = read_time(row.get("ended_at") or row.get("at"))
    yield Session(key=session, model=row.get("model"))
    match row.get("event"):
        case "answered":
            yield _read_answer(row, at)
        case "failed":
            yield _read_failure(row, at)
        case "called" if row.get("tool") and row.get("duration_ms") is not None and at:
            call = row.get("call_id")
            name = f"{session}:{call}" if call else None
            spent = round(row["duration_ms"])
            yield Timing(f"{session}:{call}:{at}", session, row["tool"], at, spent, name)
        case "skill" if row.get("name"):
            yield SkillEntry(
                key=f"{session}:preload:{row['name']}",
                session=session,
                name=row["name"],
                entry="preload",
                at=at,
                version=row.get("version"),
            )


def _read_answer(row: dict[str, Any], at: int | None) -> Turn:
    duration = row.get("duration_seconds")
    return Turn(
        key=f"{row['session_id']}:{row['id']}",
        session=row["session_id"],
        at=read_time(row.get("started_at")) or at,
        model=row.get("model"),
        provider=row.get("provider"),
        usage=read_usage(row.get("usage")),
        duration_ms=None if duration is None else round(duration * 1000),
    )


def _read_failure(row: dict[str, Any], at: int | None) -> Turn:
    """A failed call; its key joins it with the log's line of the same second."""
    text = str(row.get("message") or row.get("reason") or "API error")
    return Turn(
        key=f"{row['session_id']}!{(at or 0) // 1000}",
        session=row["session_id"],
        at=at,
        model=row.get("model"),
        calls=0,
        usage=Usage(0, 0, 0, 0),
        failure=classify_error(text, status=row.get("status")).kind,
        failure_text=text[:500],
    )
