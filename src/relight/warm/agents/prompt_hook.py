"""The hook of Claude Code and Codex: lessons and a template on the first prompt; notices forks."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.store import Store
from relight.store.misses import record_safely
from relight.store.provisions import Decision, find_decision
from relight.warm.injection import BUDGET
from relight.warm.provision import (
    Provision,
    is_switched_off,
    make_decision_id,
    provision_session,
    record_decision,
)

SESSION_START = "SessionStart"
# what a session goes on from, as the agents name it; a fork has a new id, and so had a resumed
# session in some versions of Claude Code
CONTINUED = ("fork", "resume")
WAIT_SECONDS = 2.0
# a prompt after an answer is not the first; the first answer is near the beginning
CHECKED_BYTES = 262_144


class HookAgent(Struct, frozen=True):
    """The signs in an agent's transcript that a session has answers, or is a fork.

    `most_bytes` of context are added to a prompt; an agent moves more than that into a file.
    """

    answer: bytes
    fork: bytes | None = None
    budget: int = BUDGET
    most_bytes: int | None = None


HOOK_AGENTS = {
    "claude-code": HookAgent(b'"type":"assistant"'),
    # Codex counts four bytes as a token, and moves what is over 2,500 of them
    "codex": HookAgent(b'"role":"assistant"', b'"forked_from_id":"', 1700, 9_900),
}


class _HookInput(Struct):
    """The parts of an agent's input to the hooks that matter here."""

    session_id: str = ""
    hook_event_name: str = ""
    source: str = ""
    prompt: str = ""
    cwd: str | None = None
    transcript_path: str | None = None
    # set for a sub-agent, which begins in the middle of a task
    agent_id: str | None = None


def answer_event(
    given: bytes, *, source: str = "claude-code", home: str | Path | None = None
) -> str | None:
    """Return what to print for an event, the context to add, or None. Never raises."""
    if is_switched_off():
        return None
    try:
        event = msgspec.json.decode(given, type=_HookInput)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not event.session_id or event.agent_id:
        return None
    agent = HOOK_AGENTS[source]
    beginning = _read_beginning(event.transcript_path)
    is_fork = agent.fork is not None and agent.fork in beginning
    if event.hook_event_name == SESSION_START or is_fork:
        if event.source in CONTINUED or is_fork:
            _record(home, lambda store: _continue(store, event, source))
        return None
    if not event.prompt.strip() or event.prompt.startswith("/") or agent.answer in beginning:
        return None
    return _record(home, lambda store: _provide(store, event, source))


def _record(home: str | Path | None, write: Callable[[Store], str | None]) -> str | None:
    return record_safely(home, write, wait_seconds=WAIT_SECONDS)


def _continue(store: Store, event: _HookInput, source: str) -> None:
    """Record that a session has its beginning already, so that it gets no template."""
    decision = Decision(
        id=make_decision_id(),
        session_key=event.session_id,
        source=source,
        arm="continued",
        reason="it goes on from an earlier session, whose arm counts for it",
        created_at=int(time.time() * 1000),
        project=event.cwd,
    )
    record_decision(store, decision)


def _provide(store: Store, event: _HookInput, source: str) -> str | None:
    if find_decision(store, event.session_id):
        return None
    agent = HOOK_AGENTS[source]

    def provision(budget: int) -> Provision:
        return provision_session(
            store,
            event.prompt,
            session_id=event.session_id,
            project=event.cwd,
            source=source,
            budget=budget,
        )

    text = provision(agent.budget).text
    if text and agent.most_bytes and len(text.encode()) > agent.most_bytes:
        text = provision(agent.budget // 2).text  # the same template, with less of it
    if not text:
        return None
    context = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
    answer: dict[str, Any] = {"hookSpecificOutput": context}
    return msgspec.json.encode(answer).decode()


def _read_beginning(path: str | None) -> bytes:
    try:
        with Path(path or "").open("rb") as file:
            return file.read(CHECKED_BYTES).replace(b'": "', b'":"')
    except OSError:
        return b""  # a session's first prompt may come before its file
