"""Record finished calls with the live recorder, each in one write.

Whatever happens here stays here: a program runs on if its calls cannot be recorded, and reads one
warning.
"""

import atexit
import logging
import os
import threading
import time
from collections import deque
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, field

from relight.chat.answers import drop_thoughts
from relight.chat.messages import read_calls
from relight.chat.requests import WirePart
from relight.config import find_home
from relight.errors import RelightError
from relight.intake.auto.calls import EndedCall, end_unended, ignoring_errors
from relight.intake.auto.conversations import Conversations
from relight.intake.auto.scope import AutoSession
from relight.intake.recorder import SessionTracker, make_session_name, record
from relight.models.endpoints import Endpoint
from relight.store import Store, open_store
from relight.store.misses import count_miss

# how long the first call waits for a store that is in use, and how soon it is tried again
OPEN_SECONDS = 0.5
AGAIN_SECONDS = 60.0
# how many sessions are open at once; one that is continued later is opened again
MOST_OPEN = 64
MOST_KNOWN = 10_000
# how long the end of a program waits for a store that is in use
END_SECONDS = 5.0
SELLERS = {"googleapis": "google"}

logger = logging.getLogger("relight")


class UnansweredCall(Struct, frozen=True):
    """A tool call that an answer asked for, and its place in the record."""

    key: str
    tool: str
    arguments: object
    turn: str
    place: int


class KnownSession(Struct):
    """The state of a session for later requests: calls without a result, and the system prompt."""

    calls: list[UnansweredCall] = field(default_factory=list)
    system: str = ""


class AutoRecorder:
    """The sessions of this process."""

    def __init__(self) -> None:
        self._conversations = Conversations()
        self._known: dict[str, KnownSession] = {}
        self._retry_at = 0.0
        self.renew()

    def renew(self) -> None:
        """Begin without a store, as a fork must: it cannot share its parent's."""
        self.lock = threading.RLock()
        self.waiting: deque[EndedCall] = deque()
        self._store: Store | None = None
        self._open: dict[str, SessionTracker] = {}

    def write(self, call: EndedCall) -> None:
        """Record a call in its session."""
        store = self._find_store()
        if store is None:
            return
        named = call.scope.session_id if call.scope else None
        found = self._conversations.find(call.request, named=named)
        session = found.session or make_session_name(time.time())
        tracker = self._find_tracker(store, session, call)
        known = self._known.setdefault(session, KnownSession())
        with tracker.together():
            self._record_words(tracker, known, call.request.system, found.new)
            turn = self._record_turn(tracker, call)
        answer = call.answer
        if answer is None or call.failure is not None:
            self._conversations.note_failure(session, found, named=named)
        else:
            for place, one in enumerate(read_calls(answer.message)):
                known.calls.append(UnansweredCall(one.key, one.tool, one.arguments, turn, place))
            self._conversations.note_answer(session, found, call.request, answer, named=named)
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _find_store(self) -> Store | None:
        if self._store is None and time.monotonic() >= self._retry_at:
            try:
                store = open_store(wait_seconds=OPEN_SECONDS)
                if not store.can_write:
                    store.close()
                    raise RelightError(f"{store.path} can only be read")
                self._store = store
            except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
                self._retry_at = time.monotonic() + AGAIN_SECONDS
                logger.warning("model calls are not recorded: %s", error)
        if self._store is None:
            _count_lost(find_home())
        return self._store

    def _find_tracker(self, store: Store, session: str, call: EndedCall) -> SessionTracker:
        """Return the session's recorder, open and the youngest; the oldest is closed."""
        tracker = self._open.pop(session, None)
        if tracker is None:
            scope = call.scope
            above = scope.parent.session_id if scope and scope.parent else None
            tracker = record(
                store,
                session,
                model=call.request.model,
                provider=_find_seller(call.address),
                parent=above,
                title=scope.title if scope else None,
                project=scope.project if scope else None,
            )
        self._open[session] = tracker
        if len(self._open) > MOST_OPEN:
            self._open.pop(next(iter(self._open))).__exit__(None, None, None)
        return tracker

    def _record_words(
        self, tracker: SessionTracker, known: KnownSession, system: str, new: list[WirePart]
    ) -> None:
        """Record what the program said since the last answer."""
        system = system or "\n".join(part.text for part in new if part.kind == "system")
        if system and system != known.system:
            known.system = system
            tracker.message("system", system)
        for part in new:
            if part.kind == "user":
                tracker.message("user", part.text)
            elif part.kind == "result":
                self._record_result(tracker, known, part)

    def _record_result(self, tracker: SessionTracker, known: KnownSession, part: WirePart) -> None:
        """Record a result with the call that asked for it; some APIs join them by name alone."""
        asked = next((one for one in known.calls if _is_answered(one, part)), None)
        if asked is None:
            tracker.message("tool", part.text)  # of a call before this program began
            return
        known.calls.remove(asked)
        tracker.tool_call(
            asked.tool,
            asked.arguments,
            part.text,
            call_id=asked.key or None,
            turn=asked.turn,
            place=asked.place,
            is_error=part.is_error,
        )

    def _record_turn(self, tracker: SessionTracker, call: EndedCall) -> str:
        answer, failure = call.answer, call.failure
        usage = answer.usage if answer and failure is None else None
        said = answer.message if answer else None
        return tracker.turn(
            model=(answer and answer.model) or call.request.model,
            provider=_find_seller(call.address),
            usage=usage,
            cost_usd=_find_cost(usage),
            message=drop_thoughts(said) if said and (failure is None or _has_words(said)) else None,
            duration_ms=call.duration_ms,
            first_token_ms=call.first_token_ms,
            failure=failure,  # type: ignore[arg-type]
        )

    def end(self, scope: AutoSession, error: BaseException | None) -> None:
        """End the session of a block, with the exception that left it."""
        tracker = self._open.pop(str(scope.session_id), None)
        if tracker is not None:
            tracker.__exit__(type(error) if error else None, error, None)

    def close(self) -> None:
        """End all sessions, as long as the store lets it."""
        until = time.monotonic() + END_SECONDS
        while self._open and time.monotonic() < until:
            self._open.popitem()[1].__exit__(None, None, None)
        if self._store is not None:
            self._store.close()
            self._store = None


def _is_answered(asked: UnansweredCall, part: WirePart) -> bool:
    return asked.key == part.call if part.call else asked.tool == part.tool


@lru_cache(maxsize=64)
def _find_seller(address: str) -> str:
    seller = Endpoint(model="", base_url=address).seller
    return SELLERS.get(seller, seller)


def _find_cost(usage: dict[str, object] | None) -> float | str | None:
    """Return the cost that an endpoint states beside the tokens, as OpenRouter does."""
    cost = usage.get("cost") if usage else None
    return cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None


def _has_words(message: dict[str, object]) -> bool:
    return bool(message.get("content") or message.get("tool_calls"))


def _count_lost(home: Path) -> None:
    if home.is_dir() and os.access(home, os.W_OK):
        count_miss(None, home, "a model call was not recorded")


_recorder = AutoRecorder()
_busy = threading.local()


def record_call(call: EndedCall) -> None:
    """Record a call before this returns.

    The garbage collector may end another call while one is written: that one is written next.
    """
    _recorder.waiting.append(call)
    if getattr(_busy, "is_writing", False):
        return
    _busy.is_writing = True
    try:
        with _recorder.lock:
            while _recorder.waiting:
                with ignoring_errors():
                    _recorder.write(_recorder.waiting.popleft())
    finally:
        _busy.is_writing = False


def end_session(scope: AutoSession, error: BaseException | None) -> None:
    """End the session of a block; never raise into the program."""
    try:
        with _recorder.lock:
            _recorder.end(scope, error)
    except Exception:  # nothing of ours may end the program
        logger.debug("a session was not ended", exc_info=True)


def close_sessions() -> None:
    """End all sessions, at the end of the program; never raise into it."""
    try:
        end_unended()
        with _recorder.lock:
            _recorder.close()
    except Exception:  # nothing of ours may end the program
        logger.debug("sessions were not ended", exc_info=True)


atexit.register(close_sessions)
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_recorder.renew)
