"""Claude Code's hooks: one adds a template to a session's first prompt, one notices forks."""

from pathlib import Path
from typing import Any

import msgspec

from relight.store import Store
from relight.store.misses import record_safely
from relight.store.provisions import find_decision
from relight.warm.provision import is_switched_off, provision_session, record_continuation

SOURCE = "claude-code"
SESSION_START = "SessionStart"
# what a session goes on from, as Claude Code names it; a fork has a new id, and so had a resumed
# session in some versions
CONTINUED = ("fork", "resume")
WAIT_SECONDS = 2.0
# a prompt after an answer is not the first; the first answer is near the beginning
CHECKED_BYTES = 262_144


class _HookInput(msgspec.Struct):
    """The parts of Claude Code's input to the hooks that matter here."""

    session_id: str = ""
    hook_event_name: str = ""
    source: str = ""
    prompt: str = ""
    cwd: str | None = None
    transcript_path: str | None = None


def answer_event(given: bytes, *, home: str | Path | None = None) -> str | None:
    """Return what to print for an event, the context to add, or None. Never raises."""
    if is_switched_off():
        return None
    try:
        event = msgspec.json.decode(given, type=_HookInput)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not event.session_id:
        return None
    if event.hook_event_name == SESSION_START:
        if event.source in CONTINUED:
            record_safely(home, lambda store: _continue(store, event), wait_seconds=WAIT_SECONDS)
        return None
    if not event.prompt.strip() or event.prompt.startswith("/"):
        return None
    if _has_answers(event.transcript_path):
        return None
    return record_safely(home, lambda store: _provide(store, event), wait_seconds=WAIT_SECONDS)


def _continue(store: Store, event: _HookInput) -> None:
    """Record that a session has its beginning already: a fork's file does not exist yet."""
    record_continuation(store, session_key=event.session_id, source=SOURCE, project=event.cwd)


def _provide(store: Store, event: _HookInput) -> str | None:
    if find_decision(store, event.session_id):
        return None
    given = provision_session(
        store,
        event.prompt,
        session_id=event.session_id,
        project=event.cwd,
        source=SOURCE,
    )
    if not given.text:
        return None
    context = {"hookEventName": "UserPromptSubmit", "additionalContext": given.text}
    answer: dict[str, Any] = {"hookSpecificOutput": context}
    return msgspec.json.encode(answer).decode()


def _has_answers(path: str | None) -> bool:
    try:
        with Path(path or "").open("rb") as file:
            return b'"type":"assistant"' in file.read(CHECKED_BYTES).replace(b'": "', b'":"')
    except OSError:
        return False  # a session's first prompt may come before its file
