"""Long texts and arguments of a template, shortened to head and tail."""

import json
from typing import Any

from relight.chat.messages import read_arguments, read_text, split_ends

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
    head, tail = split_ends(text, room)
    return head + _note(len(text) - room) + tail


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
