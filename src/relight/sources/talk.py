"""A session as OpenAI chat messages, put together from the records of any source."""

from typing import Any

from msgspec import Struct

from relight.chat.injected import strip_block


class Talk(Struct, frozen=True):
    """What was said in a session, and what is known of its calls beside their text."""

    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]] = []


class TalkWriter:
    """Writes messages in order; calls of one answer stand in one message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.facts: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, dict[str, Any]] = {}

    def say(self, role: str, text: str | None, *, answer: str | None = None) -> None:
        """Add words; those of an `answer` already begun are added to it."""
        if not text:
            return
        text = strip_block(text) if role == "user" else text
        if role == "user":
            self.messages.append({"role": "user", "content": text})
            return
        message = self._find_answer(answer)
        message["content"] = f"{message['content']}\n{text}" if message["content"] else text

    def ask(self, key: str, tool: str, arguments: str | None, *, answer: str | None = None) -> None:
        function = {"name": tool, "arguments": arguments if arguments is not None else "{}"}
        call = {"id": key, "type": "function", "function": function}
        self._find_answer(answer).setdefault("tool_calls", []).append(call)

    def tell(self, key: str, text: str | None) -> None:
        """Add the result of a call."""
        self.messages.append({"role": "tool", "tool_call_id": key, "content": text or ""})

    def know(self, key: str, **facts: Any) -> None:
        known = {name: value for name, value in facts.items() if value is not None}
        if known:
            self.facts.setdefault(key, {"call_id": key}).update(known)

    def finish(self) -> Talk:
        return Talk(self.messages, list(self.facts.values()))

    def _find_answer(self, name: str | None) -> dict[str, Any]:
        """The message of an answer: by its id, else the one that is being spoken."""
        if name is not None and name in self._answers:
            return self._answers[name]
        last = self.messages[-1] if self.messages else None
        if name is None and last is not None and last["role"] == "assistant":
            return last
        message: dict[str, Any] = {"role": "assistant", "content": None}
        self.messages.append(message)
        if name is not None:
            self._answers[name] = message
        return message
