"""Long texts and arguments, shortened so that what is left still tells what was there."""

import json
import re
from typing import Any

from relight.chat.messages import read_arguments, read_text

# control characters, and those that have no width or turn the direction; not the two joiners that
# scripts are written with
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0e\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_HEAD_PERCENT = 65
_KEY_LIMIT = 64
_DEPTH_LIMIT = 8
# How long a string inside arguments may be, and how many items of a list or object are kept.
_STEPS = ((400, 40), (200, 20), (100, 10), (50, 5), (40, 2), (40, 1))


def shorten_text(text: str, limit: int) -> str:
    """A text of about `limit` characters: its head, a note of what was cut, and its tail.

    The head tells what a result is and the tail how it ended, so 65 % of what is kept is head.

    >>> shorten_text("0123456789" * 10, 50)
    '012345678901234 … [76 characters cut] … 123456789'
    """
    text = clean_text(text)
    if len(text) <= limit:
        return text
    room = limit - len(_note(len(text)))
    if room <= 0:
        return _note(len(text)).strip()
    head = room * _HEAD_PERCENT // 100
    return text[:head] + _note(len(text) - room) + text[len(text) - room + head :]


def cut_text(text: str, limit: int) -> str:
    """The beginning of a text; for limits at which a note of what was cut would be the most of it.

    >>> cut_text("Two heads: somebody merged on Tuesday.", 20)
    'Two heads: somebody …'
    """
    text = clean_text(text)
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + " …"


def shorten_arguments(arguments: object, limit: int) -> str:
    """A call's arguments as a JSON object of about `limit` characters, valid at any limit.

    What is short enough stays as written. Arguments that are no object become the `input` of one.
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
    """The text without lone surrogates, which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def strip_hidden(text: str) -> str:
    """The text without characters that a person cannot see, but a model may read.

    Whole sentences can be written in them, and whoever looks at a template must see all of it.

    >>> strip_hidden("Fix\u200b this\U000e0041\U000e0042 now\x1b[0m")
    'Fix this now[0m'
    """
    return _HIDDEN.sub("", text)


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
    except ValueError:  # a number without end
        return "{}"
