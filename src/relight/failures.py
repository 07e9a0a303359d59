"""What went wrong: of which kind, whether trying again can help, and how long to wait.

Decided on the HTTP status, then on the type of the exception, then on anchored text; the rows
are in `data/failures.toml`. No client library is imported: exceptions of httpx2, openai,
subprocess, ssl and the rest are known by the names of their classes and by their attributes.
"""

import errno
import re
import time
import tomllib
from collections.abc import Mapping
from datetime import UTC
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from relight.complaints import TEXT_LIMIT, describe, find_first, peek, read_number, say
from relight.model import Failure

_LONGEST_ASKED_SECONDS = 365 * 86400.0  # a date so far off is no date


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table of failures."""

    name: str
    category: Literal["retryable", "permanent", "unknown"]
    reason: str
    max_retries: int = 0
    backoff_seconds: float = 0.0
    status: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    errnos: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    refines: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    is_tool: bool = False
    is_answer: bool = False


class _Texts(msgspec.Struct, frozen=True):
    status: tuple[str, ...]
    wait: tuple[str, ...]
    failed_answers: tuple[str, ...]


class _Table(msgspec.Struct, frozen=True):
    kind: tuple[Kind, ...]
    texts: _Texts


class _Rules:
    """The table, turned round so that each question is one look-up."""

    def __init__(self, table: _Table) -> None:
        self.kinds = {row.name: row for row in reversed(table.kind)}
        self.by_status = {code: row.name for row in table.kind for code in row.status}
        self.by_type = {name: row.name for row in table.kind for name in row.types}
        self.by_errno = {name: row.name for row in table.kind for name in row.errnos}
        self.by_exit_code = {code: row.name for row in table.kind for code in row.exit_codes}
        self.texts = [(row, _join(row)) for row in table.kind if row.codes or row.patterns]
        self.status_texts = [re.compile(text) for text in table.texts.status]
        self.wait_texts = [re.compile(text, re.IGNORECASE) for text in table.texts.wait]
        self.failed_answers = re.compile(
            "|".join(table.texts.failed_answers), re.IGNORECASE | re.MULTILINE
        )


def _join(row: Kind) -> re.Pattern[str]:
    codes = [rf"(?<!\w){re.escape(code)}(?!\w)" for code in row.codes]
    return re.compile("|".join([*codes, *row.patterns]), re.IGNORECASE | re.MULTILINE)


@cache
def _rules() -> _Rules:
    text = (Path(__file__).parent / "data" / "failures.toml").read_text(encoding="utf-8")
    return _Rules(msgspec.convert(tomllib.loads(text), _Table))


def read_kinds() -> Mapping[str, Kind]:
    """Every kind of failure by its name."""
    return _rules().kinds


def classify_error(
    error: object, *, status: int | str | None = None, now: float | None = None
) -> Failure:
    """What an exception, an error's text or an API's error body means, and what to do about it.

    `backoff_seconds` is never less than what the other side asked for with Retry-After. Of a
    group of exceptions the first decides. Whatever is given, nothing is raised: this is called
    where something has gone wrong already.

    >>> classify_error("HTTP 429: You exceeded your current quota").category
    'permanent'
    """
    rules = _rules()
    error = find_first(error)
    text = describe(error)
    code = read_number(status)
    if code is None:
        code = _find_status(error, text)
    exit_code = peek(error, "returncode")
    name = (
        _name_status(code)
        or _name_exit_code(exit_code)
        or (_name_type(error) if isinstance(error, BaseException) else None)
    )
    if name is None or name == "command_failed":
        name = find_kind(text) or name or "unknown"
    else:
        name = _refine(name, text)
    kind = rules.kinds[name]
    can_retry = kind.max_retries > 0
    asked = find_retry_after(error, now=now) if can_retry else None
    line = text.strip().partition("\n")[0]
    return Failure(
        kind=name,
        category=kind.category,
        reason=f"{kind.reason}: {line[:200]}" if line else kind.reason,
        should_retry=can_retry,
        max_retries=kind.max_retries,
        backoff_seconds=max(kind.backoff_seconds, asked or 0.0),
        code=code if code is not None else _find_code(error, exit_code),
    )


@lru_cache(maxsize=4096)
def find_kind(text: str, *, is_tool: bool = False) -> str | None:
    """The kind of failure a text tells of; with `is_tool` only of those tools have."""
    text = text[:TEXT_LIMIT]
    for row, pattern in _rules().texts:
        if (row.is_tool or not is_tool) and pattern.search(text):
            return row.name
    return None


def find_exit_kind(exit_code: int) -> str | None:
    """The kind of failure that a shell or a signal shows by its exit code."""
    return _rules().by_exit_code.get(128 - exit_code if -64 < exit_code < -1 else exit_code)


def find_failure_phrase(text: str) -> str | None:
    """The words of a final answer that say the run failed, if it has them.

    >>> find_failure_phrase("I was unable to complete the task: the disk is full.")
    'I was unable to complete the'
    """
    found = _rules().failed_answers.search(text)
    return found[0].strip() if found else None


def find_retry_after(error: object, *, now: float | None = None) -> float | None:
    """The seconds that the other side asked to wait, from its headers or its words."""
    error = find_first(error)
    headers = peek(peek(error, "response"), "headers")
    if headers is None:
        headers = peek(error, "headers")
    asked = _read_headers(headers, now) if isinstance(headers, Mapping) else None
    if asked is None:
        asked = _read_words(describe(error))
    return None if asked is None else min(asked, _LONGEST_ASKED_SECONDS)


def _read_headers(headers: Mapping[Any, Any], now: float | None) -> float | None:
    told = {say(name).lower(): say(value).strip() for name, value in headers.items()}
    if (seconds := _read_seconds(told.get("retry-after-ms"))) is not None:
        return seconds / 1000
    after = told.get("retry-after")
    if (seconds := _read_seconds(after)) is not None:
        return seconds
    if after and (at := _read_date(after)) is not None:
        return max(0.0, at - (time.time() if now is None else now))
    return None


def _read_words(text: str) -> float | None:
    for pattern in _rules().wait_texts:
        if found := pattern.search(text):
            units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
            parts = [(float(told), units[unit]) for unit, told in found.groupdict().items() if told]
            if parts:
                return sum(amount * seconds for amount, seconds in parts)
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


def _find_status(error: object, text: str) -> int | None:
    response = peek(error, "response")
    for owner, name in (
        (error, "status_code"),
        (error, "status"),
        (error, "http_status"),
        (error, "code"),
        (response, "status_code"),
        (response, "status"),
    ):
        if _is_status(value := read_number(peek(owner, name))):
            return value
    bodies = [error, error.get("error")] if isinstance(error, dict) else []
    for body in [body for body in bodies if isinstance(body, dict)]:
        for name in ("status_code", "status", "code"):
            if _is_status(value := read_number(body.get(name))):
                return value
    for pattern in _rules().status_texts:
        if (found := pattern.search(text)) and _is_status(value := int(found[1])):
            return value
    return None


def _is_status(value: int | None) -> bool:
    return value is not None and 400 <= value < 600


def _find_code(error: object, exit_code: object) -> str | int | None:
    if isinstance(exit_code, int):
        return exit_code
    code = peek(error, "code")
    if isinstance(code, str | int):
        return code
    number = peek(error, "errno")
    return errno.errorcode.get(number, number) if isinstance(number, int) else None


def _name_status(status: int | None) -> str | None:
    if status is None or not _is_status(status):
        return None
    return _rules().by_status.get(status) or ("bad_request" if status < 500 else "server_error")


def _name_exit_code(exit_code: object) -> str | None:
    return find_exit_kind(exit_code) if isinstance(exit_code, int) else None


def _name_type(error: BaseException) -> str | None:
    rules = _rules()
    number = peek(error, "errno")
    if isinstance(number, int) and (name := rules.by_errno.get(errno.errorcode.get(number, ""))):
        return name
    names = (rules.by_type.get(base.__name__) for base in type(error).__mro__)
    return next((name for name in names if name), None)


def _refine(name: str, text: str) -> str:
    for row, pattern in _rules().texts:
        if name in row.refines and pattern.search(text):
            return row.name
    return name
