"""Relight's own events as the chat messages they hold."""

from collections.abc import Iterable
from typing import Any

from relight.chat.injected import skip_injected
from relight.sources.reading import BAD_LINE
from relight.sources.relight.reader import Answered, Called, Said, decode_event
from relight.sources.talk import Talk


def read_talk(lines: Iterable[bytes], key: str) -> Talk:
    """The conversation in the order told, and what is known of its calls beside their text."""
    messages: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for line in lines:
        try:
            event = decode_event(line)
        except BAD_LINE:
            continue  # counted when it was recorded
        if event.session != key:
            continue
        match event:
            case Said(message=message):
                messages.append(message)
            case Answered(message=dict() as message, role=role) if role != "reference":
                messages.append(message)
            case Called(call_id=str() as call_id):
                told = {"role": "tool", "tool_call_id": call_id, "content": event.result or ""}
                messages.append(told)
                facts = {"exit_code": event.exit_code, "timed_out": event.timed_out}
                known.append({"call_id": call_id, "is_error": event.is_error, **facts})
            case _:
                pass
    return Talk(list(skip_injected(messages)), known)
