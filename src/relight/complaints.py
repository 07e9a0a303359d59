"""What an error of whatever library says of itself: its words, its attributes, its causes.

Nothing here raises: it is asked where something has gone wrong already.
"""

import re

TEXT_LIMIT = 4000
_CAUSES_LIMIT = 3
_GROUPS_LIMIT = 9
_DIGITS = re.compile(r"\s*[0-9]{1,9}\s*")


def describe(error: object) -> str:
    """Everything an error says: its message, its body, its output, and its causes."""
    if not isinstance(error, BaseException):
        return say(error)[:TEXT_LIMIT]
    parts = [say(error)]
    body = peek(error, "body")
    if not callable(body):
        parts.append(say(body))
    parts.append(_read_body(peek(error, "response")))
    for name in ("code", "type", "stderr", "output"):
        value = peek(error, name)
        if isinstance(value, str | bytes):
            parts.append(say(value))
    cause = error.__cause__ or error.__context__
    for _ in range(_CAUSES_LIMIT):
        if cause is None:
            break
        parts.append(f"{type(cause).__name__}: {say(cause)}")
        cause = cause.__cause__ or cause.__context__
    return "\n".join(part for part in parts if part)[:TEXT_LIMIT]


def _read_body(response: object) -> str:
    """The text of a response, as far as it was read: one of httpx raises if it was not."""
    body = peek(response, "text")
    return say(body) if isinstance(body, str | bytes) else ""


def find_first(error: object) -> object:
    """The first exception within groups of them, or the error itself."""
    for _ in range(_GROUPS_LIMIT):
        if not isinstance(error, BaseExceptionGroup):
            break
        error = error.exceptions[0]
    return error


def peek(owner: object, name: str) -> object:
    """An attribute of a stranger, None if it has none: a property may raise whatever it likes."""
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - an error that cannot be read is still to be classified
        return None


def say(value: object) -> str:
    """A stranger's own words, empty if it has none or fails to find them."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return bytes(value[: 4 * TEXT_LIMIT]).decode(errors="replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - as above
        return ""


def read_number(value: object) -> int | None:
    """A number, or one in digits as some clients write it."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
