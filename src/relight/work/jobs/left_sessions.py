"""The session that a program left: imported, and found among all others."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from relight.errors import RelightError
from relight.model import row_id
from relight.redact import redact_text
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store import runs as run_table
from relight.store.misses import record_safely
from relight.store.runs import RecordedSession
from relight.warm.automatic import import_and_propose
from relight.work.jobs.notes import ProgramNote

# clocks of two programs, and the times of files, differ by up to this
SLACK_MS = 2000
WAIT_SECONDS = 60.0


class LeftSession(NamedTuple):
    """The session that a program left, as `source:key`, or a note why there is none."""

    name: str | None
    note: str | None = None


def find_left_session(
    store: Store,
    program: ProgramNote,
    prompt: str,
    *,
    ended_at: int,
    environment: Mapping[str, str],
) -> LeftSession:
    """Import new sessions and return the one that a program left until a moment.

    The session's key decides if it is known, unless the program continued an older session.
    Otherwise it is the session that began meanwhile, belongs to no other run and has this very
    prompt: a person may work with the same agent in the same folder, and a wrong session is worse
    than none.
    """
    source, key = program.source, program.key
    imported = record_safely(
        store,
        lambda own: import_and_propose(
            own, sources=[source] if source else (), environment=environment, workers=1
        ),
        wait_seconds=WAIT_SECONDS,
    )
    if imported is None:
        return LeftSession(None, "the session it left could not be imported")
    begin, end = program.started_at - SLACK_MS, ended_at + SLACK_MS
    wanted = redact_text(prompt, key=store.redaction_key)
    left = choose_left(
        run_table.find_recorded_session(store, row_id("session", source, key))
        if source and key
        else None,
        lambda: run_table.find_unclaimed_sessions(store, source=source, begin=begin, end=end),
        begin=begin,
        has_prompt=lambda one: contains_prompt(_read_first_message(store, one.id), wanted),
    )
    if left.name or left.note or source is None:
        return left
    return LeftSession(None, "it left no session")


def choose_left(
    named: RecordedSession | None,
    find_candidates: Callable[[], Iterable[RecordedSession]],
    *,
    begin: int,
    has_prompt: Callable[[RecordedSession], bool],
) -> LeftSession:
    """Return a program's session: the one that it named, else the only one with its prompt."""
    if named and named.started_at is not None and named.started_at < begin:
        # its earlier cost is not this run's
        return LeftSession(None, f"it continued {named.name}, which began before")
    if named:
        return LeftSession(named.name)
    given = [one.name for one in find_candidates() if has_prompt(one)]
    if len(given) > 1:
        note = f"{len(given)} sessions were given the same prompt at the same time"
        return LeftSession(None, note)
    return LeftSession(given[0] if given else None)


def _read_first_message(store: Store, session_id: int) -> Any:
    """The first message of a person in a session; None if there is none to be read."""
    try:
        messages = read_transcript(store, session_id).messages
    except RelightError:
        return None
    return next((one["content"] for one in messages if one["role"] == "user"), None)


def contains_prompt(message: Any, prompt: str) -> bool:
    """True if a session's first message contains this prompt, however its lines are broken."""
    wanted = _plain(prompt)
    return message is not None and bool(wanted) and wanted in _plain(message)


def _plain(text: Any) -> str:
    return " ".join(str(text).split())
