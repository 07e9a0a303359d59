"""Long texts and arguments, shortened to head and tail.

The head says what a text is and the tail how it ended, so 65 % of the result is head.
"""

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from relight.chat.messages import read_arguments, read_text
from relight.config import LEAST_TOOL_CHARS, find_home, read_config
from relight.errors import RelightError

if TYPE_CHECKING:
    from relight.config import Settings

VARIABLE = "RELIGHT_MAX_TOOL_CHARS"
_HEAD_PERCENT = 65
_KEY_LIMIT = 64
_DEPTH_LIMIT = 8
# The longest string inside arguments, and the most items of a list or object.
_STEPS = ((400, 40), (200, 20), (100, 10), (50, 5), (40, 2), (40, 1))


def shorten_text(text: str, limit: int) -> str:
    """Return a text of about `limit` characters: head, a note of how much was cut, tail.

    >>> shorten_text("0123456789" * 10, 50)
    '012345678901234 … [76 characters cut] … 123456789'
    """
    text = clean_text(text)
    if len(text) <= limit:
        return text
    room = limit - len(_note(len(text)))
    if room <= 0:
        return _note(len(text)).strip()
    head, tail = _split_ends(text, room)
    return head + _note(len(text) - room) + tail


def trim_text(text: str, limit: int) -> str:
    """Return a tool result as it is sent to a model: `limit` characters and a note of its length.

    >>> trim_text("0123456789" * 10, 20)
    '0123456789012\\n… [truncated, 100 chars total]\\n3456789'
    """
    if len(text) <= limit:
        return text
    head, tail = _split_ends(text, limit)
    return f"{head}\n… [truncated, {len(text)} chars total]\n{tail}"


def shorten_tool_results(
    messages: Iterable[Mapping[str, Any]], *, max_chars: int | None = None
) -> list[dict[str, Any]]:
    """Return a copy of chat messages whose tool results are at most `max_chars` long, and a note.

    Without `max_chars` the limit is `RELIGHT_MAX_TOOL_CHARS`, else `max_tool_chars` in
    `config.toml`, else 8,000. Only texts are shortened; pictures and the like stay.

    >>> message = {"role": "tool", "tool_call_id": "1", "content": "0123456789" * 10}
    >>> shorten_tool_results([message], max_chars=20)[0]["content"]
    '0123456789012\\n… [truncated, 100 chars total]\\n3456789'
    """
    limit = find_max_tool_chars() if max_chars is None else max_chars
    return [_shorten_result(message, limit) for message in messages]


def _shorten_result(message: Mapping[str, Any], limit: int) -> dict[str, Any]:
    if message.get("role") != "tool":
        return dict(message)
    content = message.get("content")
    if isinstance(content, str):
        content = trim_text(content, limit)
    elif isinstance(content, list):
        content = [
            {**part, "text": trim_text(part["text"], limit)}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    return {**message, "content": content}


def find_max_tool_chars(config: "Settings | None" = None) -> int:
    """Return the longest tool result that a model is sent, as the user has set it."""
    given = os.environ.get(VARIABLE)
    if not given:
        return (config or read_config(find_home())).max_tool_chars
    if not given.isdecimal() or int(given) < LEAST_TOOL_CHARS:
        raise RelightError(
            f"{VARIABLE} must be a whole number from {LEAST_TOOL_CHARS} up, not {given!r}",
            "unset it to use max_tool_chars in config.toml",
        )
    return int(given)


def _split_ends(text: str, room: int) -> tuple[str, str]:
    """The head and the tail of a text, together `room` characters."""
    head = room * _HEAD_PERCENT // 100
    return text[:head], text[len(text) - room + head :]


def cut_text(text: str, limit: int) -> str:
    """Return the beginning of a text, for limits too small to hold a note of what was cut.

    >>> cut_text("Two heads: somebody merged on Tuesday.", 20)
    'Two heads: somebody …'
    """
    text = clean_text(text)
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + " …"


def shorten_arguments(arguments: object, limit: int) -> str:
    """Return a call's arguments as a JSON object of about `limit` characters, valid at any limit.

    Short arguments stay as written. Arguments that are not an object become its field `input`.
    """
    fields = read_arguments(arguments)
    if fields is not None and isinstance(arguments, str) and len(arguments) <= limit:
        return clean_text(arguments)
    if fields is None:
        raw = arguments if isinstance(arguments, str) else read_text(arguments)
        fields = {"input": raw} if raw.strip() else {}
    for string_limit, item_limit in ((limit, limit), *_STEPS):
        text = _write(_shorten_value(fields, string_limit, item_limit, 0))
        if len(text) <= limit:
            break
    return text if len(text) <= max(limit, 200) else "{}"


def clean_text(text: str) -> str:
    """Return the text without lone surrogates, which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _note(count: int) -> str:
    return f" … [{count} characters cut] … "


def _shorten_value(value: Any, string_limit: int, item_limit: int, depth: int) -> Any:
    if isinstance(value, str):
        return shorten_text(value, string_limit)
    if depth >= _DEPTH_LIMIT and isinstance(value, list | tuple | dict):
        return "…"
    if isinstance(value, list | tuple):
        kept = [
            _shorten_value(one, string_limit, item_limit, depth + 1) for one in value[:item_limit]
        ]
        more = len(value) - len(kept)
        return [*kept, f"… [{more} items cut] …"] if more > 0 else kept
    if isinstance(value, dict):
        return {
            shorten_text(str(name), _KEY_LIMIT): _shorten_value(
                one, string_limit, item_limit, depth + 1
            )
            for name, one in list(value.items())[:item_limit]
        }
    if value is None or isinstance(value, bool | int | float):
        return value
    return shorten_text(str(value), string_limit)


def _write(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # infinity or NaN
        return "{}"
