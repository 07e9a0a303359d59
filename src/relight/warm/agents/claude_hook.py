"""Claude Code's hook on a prompt: adds a template to the first prompt of a session."""

from pathlib import Path
from typing import Any

import msgspec

from relight.store import Store
from relight.store.misses import record_safely
from relight.store.provisions import find_decision
from relight.warm.provision import is_switched_off, provision_session

SOURCE = "claude-code"
WAIT_SECONDS = 2.0
# a prompt after an answer is not the first; the first answer is near the beginning
CHECKED_BYTES = 262_144


class _HookInput(msgspec.Struct):
    """The parts of Claude Code's input to the hook that matter here."""

    session_id: str = ""
    prompt: str = ""
    cwd: str | None = None
    transcript_path: str | None = None


def answer_prompt(given: bytes, *, home: str | Path | None = None) -> str | None:
    """Return what to print for a prompt, the context to add, or None. Never raises."""
    if is_switched_off():
        return None
    try:
        prompt = msgspec.json.decode(given, type=_HookInput)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not prompt.session_id or not prompt.prompt.strip() or prompt.prompt.startswith("/"):
        return None
    if _has_answers(prompt.transcript_path):
        return None
    return record_safely(home, lambda store: _provide(store, prompt), wait_seconds=WAIT_SECONDS)


def _provide(store: Store, prompt: _HookInput) -> str | None:
    if find_decision(store, prompt.session_id):
        return None
    given = provision_session(
        store,
        prompt.prompt,
        session_id=prompt.session_id,
        project=prompt.cwd,
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
