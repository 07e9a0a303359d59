"""What an error of whatever library says of itself: its words, its numbers, what is behind it.

Nothing here raises: it is asked where something has gone wrong already.
"""

import errno
import re
from collections.abc import Mapping
from operator import index
from typing import Any

TEXT_LIMIT = 4000
_ERRORS_LIMIT = 32
_DIGITS = re.compile(r"\s*[0-9]{1,9}\s*")
# subclasses of OSError with numbers of their own: 1 is no EPERM there
_NUMBERED_OTHERWISE = frozenset(("SSLError", "gaierror", "herror"))
_STARTERS = frozenset(("_execute_child", "_posix_spawn"))


def list_chains(error: object) -> list[list[object]]:
    """The error with what it was raised from, outermost first; then what was handled beside it.

    What an error was raised from explains it. What was merely being handled may have nothing to
    do with it (a cache without the key, so that a model was asked), and is a chain of its own,
    to be asked later; after `from None` there is none. A group is its members.
    """
    chains: list[list[object]] = []
    seen: set[int] = set()
    beside = [error]
    while beside and len(seen) < _ERRORS_LIMIT:
        chain: list[object] = []
        left = [beside.pop(0)]
        while left and len(seen) < _ERRORS_LIMIT:
            each = left.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if not isinstance(each, BaseExceptionGroup):
                chain.append(each)
            if not isinstance(each, BaseException):
                continue
            if each.__cause__ is not None:
                left.append(each.__cause__)
            elif each.__context__ is not None and not each.__suppress_context__:
                beside.append(each.__context__)
            if isinstance(each, BaseExceptionGroup):
                left.extend(reversed(each.exceptions[:_ERRORS_LIMIT]))
        if chain:
            chains.append(chain)
    return chains


def describe(error: object) -> str:
    """Everything one error says: its message, its body, its output."""
    if not isinstance(error, BaseException):
        return say(error)[:TEXT_LIMIT]
    parts = [say(error)]
    body = peek(error, "body")
    if not callable(body):
        parts.append(say(body))
    # of a response only what was read: one of httpx raises if it was not
    for owner, name in (
        (peek(error, "response"), "text"),
        *((error, name) for name in ("code", "type", "stderr", "output")),
    ):
        value = peek(owner, name)
        if isinstance(value, str | bytes):
            parts.append(say(value))
    return "\n".join(part for part in parts if part)[:TEXT_LIMIT]


def find_status(error: object) -> int | None:
    """The HTTP status of a failure, as an attribute or in the body of an API's error."""
    response = peek(error, "response")
    attributes = (
        *(peek(error, name) for name in ("status_code", "status", "http_status", "code")),
        *(peek(response, name) for name in ("status_code", "status")),
    )
    bodies = [error, error.get("error")] if isinstance(error, dict) else []
    fields = (
        body.get(name)
        for body in bodies
        if isinstance(body, dict)
        for name in ("status_code", "status", "code")
    )
    numbers = (read_number(value) for value in (*attributes, *fields))
    return next((number for number in numbers if is_status(number)), None)


def is_status(value: int | None) -> bool:
    return value is not None and 400 <= value < 600


def find_headers(error: object) -> Mapping[Any, Any] | None:
    headers = peek(peek(error, "response"), "headers")
    if headers is None:
        headers = peek(error, "headers")
    return headers if isinstance(headers, Mapping) else None


def find_exit_code(error: object) -> int | None:
    code = peek(error, "returncode")
    return code if isinstance(code, int) else None


def find_code(error: object) -> str | int | None:
    """What an error is called by who raised it: an exit code, an API's code, a system's name."""
    if (exit_code := find_exit_code(error)) is not None:
        return exit_code
    code = peek(error, "code")
    if isinstance(code, str | int):
        return code
    if name := find_errno(error):
        return name
    reason, number = peek(error, "reason"), peek(error, "errno")
    if not isinstance(number, int):
        return None
    return reason if isinstance(reason, str) else number


def find_errno(error: object) -> str | None:
    """The operating system's name for an error, such as ENOSPC."""
    number = peek(error, "errno")
    if not isinstance(number, int) or not _NUMBERED_OTHERWISE.isdisjoint(list_types(type(error))):
        return None
    return errno.errorcode.get(number)


def list_types(kind: type) -> list[str]:
    """The names of a class and of all it is made of, the narrowest first."""
    return [base.__name__ for base in kind.__mro__]


def is_missing_program(error: object) -> bool:
    """Whether the file that was not found is the program that `subprocess` was to start.

    It raises the same for the folder to start it in, and tells them apart only by the name.
    """
    if not isinstance(error, FileNotFoundError) or error.__traceback__ is None:
        return False
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    code, known = trace.tb_frame.f_code, trace.tb_frame.f_locals
    if code.co_name not in _STARTERS or not code.co_filename.endswith("subprocess.py"):
        return False
    folder = known.get("cwd")
    return bool(known) and (folder is None or error.filename != folder)


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
    """A whole number, in whatever type or digits a client has it; truth is none.

    >>> read_number("429"), read_number(429.0), read_number(True)
    (429, 429, None)
    """
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # whatever has none raises
    except Exception:  # noqa: BLE001 - a stranger's own method
        return None
