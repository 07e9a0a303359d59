"""Long tool results, shortened in what is sent; the record keeps the whole."""

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
