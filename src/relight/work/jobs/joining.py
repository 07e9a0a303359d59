"""The session that a program left: imported, and found again among all others."""

import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from relight.errors import RelightError
from relight.ids import row_id
from relight.redact import redact_text
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.misses import record_safely
from relight.warm.automatic import import_and_propose

# clocks of two programs on one machine, and of files' times, may differ by as much
SLACK_MS = 2000
WAIT_SECONDS = 60.0
CANDIDATES = """
    select id, source || ':' || key from session
    where parent_id is null and started_at between ? and ?
        and source <> 'relight' and (? is null or source = ?)
        and not exists (select 1 from run where run.session_id = session.id)
        and not exists (select 1 from run_attempt where run_attempt.session_id = session.id)
    order by started_at, key
"""


class Left(Struct, frozen=True):
    """The session that a program left, as `source:key`, or why none was found."""

    session: str | None
    note: str | None = None


def find_left(
    store: Store,
    *,
    source: str | None,
    key: str | None,
    prompt: str,
    started_at: int,
    ended_at: int,
    environment: Mapping[str, str] | None = None,
) -> Left:
    """Import what is new and give the session that a program left between two moments.

    By its `key` where the program told it, unless it only went on with an older one. Else it is
    the one that began meanwhile, belongs to no other run, and was given this very prompt: a person
    may be working with the same agent in the same folder, and another's session is worse than none.
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
        return Left(None, "the session it left could not be imported")
    window = (started_at - SLACK_MS, ended_at + SLACK_MS)
    if source and key:
        found = row_id("session", source, key)
        rows = store.query("select started_at from session where id = ?", (found,))
        if rows and rows[0][0] is not None and rows[0][0] < window[0]:
            # what it cost before is not this run's
            return Left(None, f"it went on with {source}:{key}, which began before")
        if rows:
            return Left(f"{source}:{key}")
    rows = store.query(CANDIDATES, (*window, source, source))
    given = [name for session_id, name in rows if _was_given(store, session_id, prompt)]
    if len(given) > 1:
        return Left(None, f"{len(given)} sessions were given the same prompt at the same time")
    if not given:
        return Left(None, "it left no session" if source else None)
    return Left(given[0])


def _was_given(store: Store, session_id: int, prompt: str) -> bool:
    """Whether the first words of a session are this prompt, as the tape has them."""
    try:
        messages = read_transcript(store, session_id).messages
    except RelightError:
        return False
    first = next((one for one in messages if one["role"] == "user"), None)
    sought = _plain(redact_text(prompt, key=store.redaction_key))
    return first is not None and bool(sought) and sought in _plain(first["content"])


def _plain(text: Any) -> str:
    return " ".join(str(text).split())
