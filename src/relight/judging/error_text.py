"""The text, numbers and causes of an error of any library.

Nothing here raises: it runs where something has already failed.
"""

import errno
import re
from collections.abc import Mapping
from operator import index
from typing import Any

from relight.text import to_text

TEXT_LIMIT = 4000
_ERRORS_LIMIT = 32
_DIGITS = re.compile(r"\s*[0-9]{1,9}\s*")
# subclasses of OSError with other numbers: 1 is not EPERM there
_NUMBERED_OTHERWISE = frozenset(("SSLError", "gaierror", "herror"))
_STARTERS = frozenset(("_execute_child", "_posix_spawn"))


def list_chains(error: object) -> list[list[object]]:
    """Return the error with its causes, outermost first; then the chains of its contexts.

    A cause (`raise … from`) explains an error. A context, an exception that was merely being
    handled, may be unrelated (a cache miss before a model call), so it is a separate chain that
    comes later. After `from None` there is no context. A group stands for its members.
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


def gather_text(error: object) -> str:
    """Return the text of one error: its message, its body, its output."""
    if not isinstance(error, BaseException):
        return decode_text(error)[:TEXT_LIMIT]
    parts = [decode_text(error)]
    body = peek(error, "body")
    if not callable(body):
        parts.append(decode_text(body))
    # only the part of a response that was read: httpx raises for the rest
    for owner, name in (
        (peek(error, "response"), "text"),
        *((error, name) for name in ("code", "type", "stderr", "output")),
    ):
        value = peek(owner, name)
        if isinstance(value, str | bytes):
            parts.append(decode_text(value))
    return "\n".join(part for part in parts if part)[:TEXT_LIMIT]


def find_status(error: object) -> int | None:
    """Return the HTTP status of a failure, from an attribute or the body of an API's error."""
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
    numbers = (read_integer(value) for value in (*attributes, *fields))
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
    """Return the error's code: an exit code, an API's code or the system's name."""
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
    """Return the operating system's name for an error, such as ENOSPC."""
    number = peek(error, "errno")
    if not isinstance(number, int) or not _NUMBERED_OTHERWISE.isdisjoint(list_types(type(error))):
        return None
    return errno.errorcode.get(number)


def list_types(kind: type) -> list[str]:
    """Return the names of a class and of its bases, the narrowest first."""
    return [base.__name__ for base in kind.__mro__]


def is_missing_program(error: object) -> bool:
    """True if the file that was not found is the program that `subprocess` tried to start.

    It raises the same error for a missing working folder; only the file name differs.
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
    """Return an attribute of a foreign object, None if it has none or if reading it raises."""
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign error may raise anything
        return None


def decode_text(value: object) -> str:
    """Return a foreign value as text, empty if it has none or if `str` raises."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return bytes(value[: 4 * TEXT_LIMIT]).decode(errors="replace")
    return to_text(value, fallback="")


def read_integer(value: object) -> int | None:
    """Return a whole number of any type, or its digits; None for a bool.

    >>> read_integer("429"), read_integer(429.0), read_integer(True)
    (429, 429, None)
    """
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # raises for other types
    except Exception:  # noqa: BLE001 - a foreign method may raise anything
        return None
