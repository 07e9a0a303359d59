"""Records a client's conversations: what is new in the messages it is given, and its turns."""

import threading
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from relight.chat.messages import Call, read_calls, read_text
from relight.intake.recorder import SessionTracker, record
from relight.models.endpoints import encode
from relight.store import Store
from relight.work.moa.mixture import MoaTurn, record_turn

Message = Mapping[str, Any]


class Journal:
    """One session's record; without a store it does nothing."""

    def __init__(self, store: Store | None, session_id: str, preset: str) -> None:
        self.tracker: SessionTracker | None = None
        if store is not None:
            self.tracker = record(store, session_id, model=f"moa:{preset}")
        # every message seen, by its words, and by all that it came after
        self._seen: set[bytes] = set()
        self._lock = threading.Lock()

    def see(self, messages: Sequence[Message]) -> None:
        """Record what was not said before; a model's own words were told by its turn."""
        if self.tracker is None:
            return
        asked = {call.key: call for message in messages for call in read_calls(message)}
        for message in self._find_new(messages):
            role, content = str(message.get("role")), message.get("content")
            if role == "tool":
                self._tell_result(asked.get(str(message.get("tool_call_id"))), message)
            elif role != "assistant":
                self.tracker.message(role, content)

    def _find_new(self, messages: Sequence[Message]) -> list[Message]:
        """The messages that no conversation had at this place.

        A client may lead several conversations in turns, and shorten one on its way. So each
        message is known by all that came before it; before the last answer, where nothing new can
        be but what was left out until now, by its words alone. A system prompt may change with
        every turn, and is known by its words.
        """
        roles = [message.get("role") for message in messages]
        answered = max((n for n, role in enumerate(roles) if role == "assistant"), default=-1)
        new, so_far = [], b""
        with self._lock:
            for place, (message, role) in enumerate(zip(messages, roles, strict=True)):
                words = key = _digest(bytes(encode("message", message)))
                if role not in ("system", "developer"):
                    key = so_far = _digest(so_far + words)
                if key not in self._seen and (place > answered or words not in self._seen):
                    new.append(message)
                self._seen |= {key, words}
        return new

    def _tell_result(self, call: Call | None, message: Message) -> None:
        assert self.tracker is not None
        tool = call.tool if call else str(message.get("name") or "")
        self.tracker.tool_call(
            tool,
            call.arguments if call else None,
            read_text(message.get("content")),
            call_id=call.key if call else None,
        )

    def record(self, turn: MoaTurn) -> None:
        if self.tracker is not None:
            record_turn(self.tracker, turn)

    def finish(self) -> None:
        if self.tracker is not None:
            self.tracker.finish()


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
