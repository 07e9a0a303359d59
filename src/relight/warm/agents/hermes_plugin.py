"""The plugin inside Hermes: adds the seed to the first turn, and records what Hermes does not.

Loaded by Hermes through the entry point group `hermes_agent.plugins`, and only if the user enabled
it. An error here is counted as a miss and never stops Hermes. The plugin never opens Hermes'
database: closing a second handle on it would drop the locks that Hermes holds.
"""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from relight.store import Store
from relight.store.misses import record_safely

SOURCE = "hermes"
WAIT_SECONDS = 2.0
# Hermes moves what a hook adds beyond 10,000 characters to a file
CONTEXT_CHARACTERS = 9_500
BUFFERED_EVENTS = 40
# a sub-agent begins in the middle of a task
LEFT_OUT = ("subagent",)


def register(ctx: Any) -> None:
    """Register the hooks; Hermes calls this when it loads the plugin."""
    plugin = Plugin()
    for name in (
        "pre_llm_call",
        "pre_api_request",
        "post_api_request",
        "api_request_error",
        "post_tool_call",
        "post_llm_call",
        "on_session_end",
    ):
        ctx.register_hook(name, guard(plugin, name))
    atexit.register(guard(plugin, "flush"))


def guard(plugin: "Plugin", name: str) -> Callable[..., Any]:
    """Return a hook that never raises and accepts any arguments, also of a newer Hermes."""

    def hook(*_: object, **facts: Any) -> Any:
        try:
            return getattr(plugin, name)(facts)
        except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
            _count_miss(error)
            return None

    return hook


def _count_miss(error: Exception) -> None:
    def fail(_: Store) -> None:
        raise error

    record_safely(None, fail, wait_seconds=0.5)


class Plugin:
    """Hooks by name. Events are recorded when the turn is over."""

    def __init__(self, home: str | None = None) -> None:
        self.home = home
        self._lock = threading.Lock()
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._known_skills: set[tuple[str, str]] = set()
        # older versions of Hermes give a request no id; the time distinguishes processes
        self._begun, self._numbers = f"{time.time_ns():x}", itertools.count(1)

    def pre_llm_call(self, facts: dict[str, Any]) -> dict[str, str] | None:
        """Return what a session's first turn begins with, as text behind the user's message."""
        session, task = facts.get("session_id"), facts.get("user_message")
        if not facts.get("is_first_turn") or not session or not isinstance(task, str):
            return None
        if facts.get("platform") in LEFT_OUT or not task.strip():
            return None
        from relight.warm.injection import BUDGET
        from relight.warm.provision import is_switched_off, provision_session

        if is_switched_off():
            return None

        def provide(store: Store) -> str | None:
            for budget in (BUDGET, BUDGET // 2):  # the same template, with less of it
                given = provision_session(
                    store,
                    task,
                    session_id=str(session),
                    project=_find_project(),
                    source=SOURCE,
                    budget=budget,
                )
                if not given.text or len(given.text) <= CONTEXT_CHARACTERS:
                    return given.text
            return None

        text = record_safely(self.home, provide, wait_seconds=WAIT_SECONDS)
        return {"context": text} if text else None

    def pre_api_request(self, facts: dict[str, Any]) -> None:
        """Record preloaded skills, which only the request's system prompt names."""
        from relight.sources.hermes.skills import find_preloaded

        session = facts.get("session_id")
        messages = facts.get("request_messages") or ()
        for message in messages if isinstance(messages, list | tuple) else ():
            if not isinstance(message, dict) or message.get("role") != "system":
                continue
            for name, version in find_preloaded(str(message.get("content") or "")):
                if (str(session), name) not in self._known_skills:
                    self._known_skills.add((str(session), name))
                    self._add_event(facts, event="skill", name=name, version=version)

    def post_api_request(self, facts: dict[str, Any]) -> None:
        usage = facts.get("usage")
        names = ("input", "output", "cache_read", "cache_write", "reasoning")
        counts = {
            f"{name}_tokens": usage.get(f"{name}_tokens")
            for name in names
            if isinstance(usage, dict)
        }
        self._add_event(
            facts,
            event="answered",
            id=self._name_request(facts),
            usage=counts,
            duration_seconds=facts.get("api_duration"),
        )

    def api_request_error(self, facts: dict[str, Any]) -> None:
        error = facts.get("error")
        message = error.get("message") if isinstance(error, dict) else error
        self._add_event(
            facts,
            event="failed",
            id=self._name_request(facts),
            message=str(message)[:2000] if message else None,
            reason=_text(facts.get("reason")),
            status=facts.get("status_code"),
        )
        self._flush_session(facts)  # a turn that fails finally calls no other hook

    def post_tool_call(self, facts: dict[str, Any]) -> None:
        self._add_event(
            facts,
            event="called",
            call_id=_text(facts.get("tool_call_id")),
            tool=_text(facts.get("tool_name")),
            duration_ms=facts.get("duration_ms"),
        )

    def _flush_session(self, facts: dict[str, Any]) -> None:
        if session := facts.get("session_id"):
            self._record(str(session))

    post_llm_call = on_session_end = _flush_session

    def flush(self, _: dict[str, Any]) -> None:
        for session in list(self._events):
            self._record(session)

    def _name_request(self, facts: dict[str, Any]) -> str:
        return _text(facts.get("api_request_id")) or f"{self._begun}.{next(self._numbers)}"

    def _add_event(self, facts: dict[str, Any], **event: Any) -> None:
        session = facts.get("session_id")
        if not session:
            return
        row = {
            "table": "event",
            "session_id": str(session),
            "at": time.time(),
            "model": _text(facts.get("response_model") or facts.get("model")),
            "provider": _text(facts.get("provider")),
            "base_url": _text(facts.get("base_url")),
            "started_at": _seconds(facts.get("started_at")),
            "ended_at": _seconds(facts.get("ended_at")),
            **event,
        }
        with self._lock:
            events = self._events.setdefault(str(session), [])
            events.append({name: value for name, value in row.items() if value is not None})
            is_full = len(events) >= BUFFERED_EVENTS
        if is_full:
            self._record(str(session))

    def _record(self, session: str) -> None:
        with self._lock:
            events = self._events.pop(session, [])
        if events:
            record_safely(
                self.home,
                lambda store: record_events(store, session, events),
                wait_seconds=WAIT_SECONDS,
            )


def record_events(store: Store, session: str, events: list[dict[str, Any]]) -> None:
    """Record events on the session's tape."""
    from relight.model import Mark, Piece
    from relight.sources import find_source
    from relight.store.write.record import Recorder
    from relight.store.write.seal import seal
    from relight.store.write.tape import read_marks

    path = f"relight-plugin:{os.environ.get('HERMES_HOME') or 'home'}"
    raw = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    for _ in range(3):  # another process of the same session may have been first
        before = read_marks(store, SOURCE, path).get(session) or Mark(path=path, part=session)
        after = msgspec.structs.replace(before, offset=before.offset + len(raw))
        piece = Piece(source=SOURCE, raw=raw, before=before, after=after)
        sealed = seal(
            piece, find_source(SOURCE).read, key=store.redaction_key, timezone=store.timezone
        )
        taken, _new = Recorder(store).record([sealed])
        if taken:
            return


def _find_project() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:  # the folder is gone
        return None


def _text(value: object) -> str | None:
    return None if value is None else str(getattr(value, "value", value))[:500]


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    from relight.times import read_time

    at = read_time(value)
    return None if at is None else at / 1000
