"""The session that a program left: imported, and found among all others."""

import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from relight.errors import RelightError
from relight.model import row_id
from relight.redact import redact_text
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.misses import record_safely
from relight.store.runs import find_recorded_session, find_unclaimed_sessions
from relight.warm.automatic import import_and_propose

# clocks of two programs, and the times of files, differ by up to this
SLACK_MS = 2000
WAIT_SECONDS = 60.0


class LeftSession(Struct, frozen=True):
    """The session that a program left, as `source:key`, or a note why there is none."""

    name: str | None
    note: str | None = None


def find_left_session(
    store: Store,
    *,
    source: str | None,
    key: str | None,
    prompt: str,
    started_at: int,
    ended_at: int,
    environment: Mapping[str, str] | None = None,
) -> LeftSession:
    """Import new sessions and return the one that a program left between two moments.

    The session's `key` decides if it is known, unless the program continued an older session.
    Otherwise it is the session that began meanwhile, belongs to no other run and has this very
    prompt: a person may work with the same agent in the same folder, and a wrong session is worse
    than none.
    """
    environment = os.environ if environment is None else environment
    imported = record_safely(
        store,
        lambda own: import_and_propose(
            own, sources=[source] if source else (), environment=environment, workers=1
        ),
        wait_seconds=WAIT_SECONDS,
    )
    if imported is None:
        return LeftSession(None, "the session it left could not be imported")
    begin, end = started_at - SLACK_MS, ended_at + SLACK_MS
    if source and key:
        found = find_recorded_session(store, row_id("session", source, key))
        if found and found.started_at is not None and found.started_at < begin:
            # its earlier cost is not this run's
            return LeftSession(None, f"it continued {source}:{key}, which began before")
        if found:
            return LeftSession(found.name)
    candidates = find_unclaimed_sessions(store, source=source, begin=begin, end=end)
    given = [one.name for one in candidates if _has_prompt(store, one.id, prompt)]
    if len(given) > 1:
        note = f"{len(given)} sessions were given the same prompt at the same time"
        return LeftSession(None, note)
    if not given:
        return LeftSession(None, "it left no session" if source else None)
    return LeftSession(given[0])


def _has_prompt(store: Store, session_id: int, prompt: str) -> bool:
    """True if the first message of a session contains this prompt, redacted as in the record."""
    try:
        messages = read_transcript(store, session_id).messages
    except RelightError:
        return False
    first = next((one for one in messages if one["role"] == "user"), None)
    wanted = _plain(redact_text(prompt, key=store.redaction_key))
    return first is not None and bool(wanted) and wanted in _plain(first["content"])


def _plain(text: Any) -> str:
    return " ".join(str(text).split())
