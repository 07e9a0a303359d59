"""Long tool results, shortened in what is sent; the record keeps the whole."""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_TOOL_CHARS = 8000
_HEAD_PERCENT = 65


def trim_text(text: str, limit: int) -> str:
    """A text of at most `limit` characters, and a note: its head, how long it was, its tail.

    >>> trim_text("0123456789" * 10, 20)
    '0123456789012\\n… [truncated, 100 chars total]\\n3456789'
    """
    if len(text) <= limit:
        return text
    head = limit * _HEAD_PERCENT // 100
    tail = limit - head
    end = text[len(text) - tail :] if tail else ""
    return f"{text[:head]}\n… [truncated, {len(text)} chars total]\n{end}"


def trim_results(
    messages: Sequence[Mapping[str, Any]], *, limit: int = MAX_TOOL_CHARS
) -> list[Mapping[str, Any]]:
    """The messages with long tool results shortened; those that change are copies."""
    return [_trim(message, limit) for message in messages]


def _trim(message: Mapping[str, Any], limit: int) -> Mapping[str, Any]:
    content = message.get("content")
    if message.get("role") != "tool" or not isinstance(content, str) or len(content) <= limit:
        return message
    return {**message, "content": trim_text(content, limit)}
