"""The text, numbers and causes of an error of any library.

Nothing here raises: it runs where something has already failed.
"""

import errno
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
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


UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def read_wait_headers(headers: Mapping[Any, Any], now: float | None = None) -> float | None:
    """Return the seconds of `Retry-After`, a number or a date."""
    lowered = {
        decode_text(name).lower(): decode_text(value).strip() for name, value in headers.items()
    }
    if (seconds := _read_seconds(lowered.get("retry-after-ms"))) is not None:
        return seconds / 1000
    after = lowered.get("retry-after")
    if (seconds := _read_seconds(after)) is not None:
        return seconds
    if after and (at := _read_date(after)) is not None:
        return _count_seconds(at, now)
    return None


def read_wait_text(
    text: str,
    *,
    spans: Iterable[re.Pattern[str]],
    clocks: Iterable[re.Pattern[str]],
    now: float | None = None,
) -> float | None:
    """Return the seconds that a text asks to wait: a span, or the time until a moment."""
    for pattern in spans:
        if found := pattern.search(text):
            parts = [float(text) * UNITS[unit] for unit, text in found.groupdict().items() if text]
            if parts:
                return sum(parts)
    for pattern in clocks:
        if found := pattern.search(text):
            with suppress(ValueError, OverflowError, OSError, LookupError):
                return _count_seconds(_read_moment(found.groupdict(), now), now)
    return None


def _read_seconds(text: str | None) -> float | None:
    if text and re.fullmatch(r"\d+(?:\.\d*)?", text):
        return float(text)
    return None


def _read_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _read_moment(parts: Mapping[str, str | None], now: float | None) -> float:
    """Return Unix seconds of a moment; a time of day is the next one, and a day without a year."""
    if epoch := parts.get("epoch"):
        return float(epoch)
    if iso := parts.get("iso"):
        return datetime.fromisoformat(iso.replace(" UTC", "+00:00")).astimezone().timestamp()
    zone = _find_zone(parts.get("zone"))
    today = datetime.fromtimestamp(time.time() if now is None else now, zone)
    hour = int(parts["hour"] or 0)
    if half := parts.get("half"):
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    at = today.replace(hour=hour, minute=int(parts["minute"] or 0), second=0, microsecond=0)
    if month := parts.get("month"):
        year = int(parts["year"] or today.year)
        at = at.replace(
            year=year, month=MONTHS.index(month.lower()) + 1, day=int(parts["day"] or 1)
        )
        if parts["year"] is None and at < today - timedelta(days=1):
            at = at.replace(year=year + 1)
    elif at < today:
        at += timedelta(days=1)
    # local times without a zone are this machine's, also after its clocks change
    return (at if zone else at.replace(tzinfo=None)).timestamp()


def _find_zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name) if name else None


def _count_seconds(at: float, now: float | None) -> float:
    return max(0.0, at - (time.time() if now is None else now))
