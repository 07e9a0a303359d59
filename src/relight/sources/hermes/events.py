"""What Relight's plugin saw inside Hermes: single model calls, failures, tools' times, skills.

Hermes itself keeps only sums. Each event is a line on the session's tape; `table` is `event`.
"""

import re
from typing import Any

from relight.judging.failures import classify_error
from relight.model import Session, SkillEntry, Timing, Turn, Usage
from relight.sources.hermes.skills import BEHIND
from relight.sources.hermes.totals import read_usage
from relight.sources.reading import Reading, check
from relight.sources.skill_documents import read_version
from relight.times import read_time

PRELOADED = re.compile(
    r'\[IMPORTANT: The user launched this CLI session with the "(?P<name>[^"\n]+)" skill'
    r" preloaded\.[^\n]*\n(?P<document>.*?)(?=\n\[IMPORTANT: The user launched|\Z)",
    re.DOTALL,
)


def read_event(reading: Reading, row: dict[str, Any]) -> None:
    """Add what an event tells; what the database tells as well is left to it."""
    session = row["session_id"]
    at = read_time(row.get("ended_at") or row.get("at"))
    reading.see_session(Session(key=session, model=row.get("model")))
    match row.get("event"):
        case "answered":
            _read_answer(reading, row, at)
        case "failed":
            _read_failure(reading, row, at)
        case "called" if row.get("tool") and row.get("duration_ms") is not None and at:
            call = row.get("call_id")
            name = f"{session}:{call}" if call else None
            spent = round(row["duration_ms"])
            timing = Timing(f"{session}:{call}:{at}", session, row["tool"], at, spent, name)
            reading.timings.append(check(timing))
        case "skill" if row.get("name"):
            reading.see_skill(
                SkillEntry(
                    key=f"{session}:preload:{row['name']}",
                    session=session,
                    name=row["name"],
                    entry="preload",
                    at=at,
                    version=row.get("version"),
                )
            )


def _read_answer(reading: Reading, row: dict[str, Any], at: int | None) -> None:
    duration = row.get("duration_seconds")
    reading.see_turn(
        Turn(
            key=f"{row['session_id']}:{row['id']}",
            session=row["session_id"],
            at=read_time(row.get("started_at")) or at,
            model=row.get("model"),
            provider=row.get("provider"),
            usage=read_usage(row.get("usage")),
            duration_ms=None if duration is None else round(duration * 1000),
        )
    )


def _read_failure(reading: Reading, row: dict[str, Any], at: int | None) -> None:
    """A failed call; the log may tell of it as well, within the same second."""
    text = str(row.get("message") or row.get("reason") or "API error")
    reading.see_turn(
        Turn(
            key=f"{row['session_id']}!{(at or 0) // 1000}",
            session=row["session_id"],
            at=at,
            model=row.get("model"),
            calls=0,
            usage=Usage(0, 0, 0, 0),
            failure=classify_error(text, status=row.get("status")).kind,
            failure_text=text[:500],
        )
    )


def find_preloaded(text: str) -> list[tuple[str, str | None]]:
    """The skills that stand in a system prompt because the user asked for them, with versions."""
    if "skill preloaded." not in text:
        return []
    return [
        (found["name"], read_version(BEHIND.split(found["document"], maxsplit=1)[0]))
        for found in PRELOADED.finditer(text)
    ]
