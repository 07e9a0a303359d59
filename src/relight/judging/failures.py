"""The kind of a failure, whether a retry can help, and how long to wait.

The HTTP status decides, then the type of the exception, then anchored text; the rows are in
`data/failures.toml`. No client library is imported: exceptions of httpx2, openai, subprocess, ssl
and others are recognised by the names of their classes and by their attributes.
"""

import builtins
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple, SupportsIndex

import msgspec

from relight.data import read_table
from relight.expressions import compile_later
from relight.judging.error_text import (
    TEXT_LIMIT,
    find_code,
    find_errno,
    find_exit_code,
    find_headers,
    find_status,
    gather_text,
    is_missing_program,
    is_status,
    list_chains,
    list_types,
    read_integer,
    read_wait_headers,
    read_wait_text,
)
from relight.model import Failure

_LONGEST_ASKED_SECONDS = 365 * 86400.0  # a later date is not meant
# "openai.APIConnectionError: …", as a log or another program prints an exception
_TYPE_NAME = compile_later(r"\s*(?:\w+\.)*(\w+)(?:[:(]|\s*\Z)")


class FailureKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    remedy: str | None = None
    is_refusal: bool = False


class Refusals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Failures of a model call, beside kinds, that come before any answer and cost nothing."""

    unsure_status: tuple[int, ...]
    types: tuple[str, ...]
    patterns: tuple[str, ...]


class FailureTexts(msgspec.Struct, frozen=True):
    status: tuple[str, ...]
    wait: tuple[str, ...]
    clock: tuple[str, ...]


class FailureTable(msgspec.Struct, frozen=True):
    kind: tuple[FailureKind, ...]
    refusals: Refusals
    texts: FailureTexts


class FailureRules:
    """The table with one index for each look-up."""

    def __init__(self, table: FailureTable) -> None:
        self.kinds = {row.name: row for row in reversed(table.kind)}
        self.by_status = {code: row.name for row in table.kind for code in row.status}
        self.by_type = {name: row.name for row in table.kind for name in row.types}
        self.by_errno = {name: row.name for row in table.kind for name in row.errnos}
        self.by_exit_code = {code: row.name for row in table.kind for code in row.exit_codes}
        self.texts = [(row, _join(row)) for row in table.kind if row.codes or row.patterns]
        self.refusals = table.refusals
        self.refusal_texts = compile_later(
            "|".join(table.refusals.patterns), re.IGNORECASE | re.MULTILINE
        )
        self.status_texts = [compile_later(text) for text in table.texts.status]
        self.wait_texts = [compile_later(text, re.IGNORECASE) for text in table.texts.wait]
        self.clock_texts = [compile_later(text, re.IGNORECASE) for text in table.texts.clock]


def _join(row: FailureKind) -> re.Pattern[str]:
    codes = [rf"(?<!\w){re.escape(code)}(?!\w)" for code in row.codes]
    return compile_later("|".join([*codes, *row.patterns]), re.IGNORECASE | re.MULTILINE)


@cache
def _rules() -> FailureRules:
    return FailureRules(read_table("failures.toml", FailureTable))


def read_kinds() -> Mapping[str, FailureKind]:
    """Every kind of failure by its name."""
    return _rules().kinds


class _Link(NamedTuple):
    """One error of a chain, with its text."""

    error: object
    text: str


def classify_error(
    error: object, *, status: SupportsIndex | float | str | None = None, now: float | None = None
) -> Failure:
    """Return what an exception, an error's text or an API's error body means, and what to do.

    In a chain the outermost exception with a known status or type decides, in a group the first
    such member; text only if none has one. `backoff_seconds` is never less than the server's
    Retry-After. Nothing is raised, whatever the error is: this runs where something has already
    failed.

    >>> classify_error("HTTP 429: You exceeded your current quota").category
    'permanent'
    """
    chains = [[_Link(each, gather_text(each)) for each in chain] for chain in list_chains(error)]
    links = [link for chain in chains for link in chain]
    code: str | int | None = read_integer(status)
    if name := _name_status(read_integer(status)):
        name = _refine(name, links)
    else:
        judged = next(filter(None, map(_judge_chain, chains)), None)
        codes = (find_code(link.error) for link in links)
        first = next((one for one in codes if one is not None), None)
        name, found = judged or ("unknown", first)
        code = code if found is None else found
    line = _join_texts(links).strip().partition("\n")[0]
    return make_failure(
        name,
        line[:200],
        code=code,
        asked_seconds=find_retry_after(error, now=now),
        is_refusal=_is_refusal(_rules().kinds[name], code, links),
        exception=type(error).__name__ if isinstance(error, BaseException) else None,
    )


def make_failure(
    kind: str,
    text: str = "",
    *,
    code: str | int | None = None,
    asked_seconds: float | None = None,
    is_refusal: bool = False,
    exception: str | None = None,
) -> Failure:
    """Return a failure of a known kind, with the text that describes this one."""
    row = _rules().kinds[kind]
    can_retry = row.max_retries > 0
    return Failure(
        kind=kind,
        category=row.category,
        reason=f"{row.reason}: {text}" if text else row.reason,
        should_retry=can_retry,
        max_retries=row.max_retries,
        backoff_seconds=max(row.backoff_seconds, (asked_seconds or 0.0) if can_retry else 0.0),
        code=code,
        asked_seconds=asked_seconds,
        is_refusal=is_refusal,
        exception=exception,
    )


@lru_cache(maxsize=4096)
def find_kind(text: str, *, is_tool: bool = False) -> str | None:
    """Return the kind of failure in a text; with `is_tool` only kinds that tools have."""
    text = text[:TEXT_LIMIT]
    for row, pattern in _rules().texts:
        is_candidate = row.is_tool if is_tool else row.name not in row.refines
        if is_candidate and pattern.search(text):
            return row.name
    return None


def find_exit_kind(exit_code: int) -> str | None:
    """Return the kind of failure that an exit code of a shell or a signal means."""
    return _rules().by_exit_code.get(128 - exit_code if -64 < exit_code < -1 else exit_code)


def find_retry_after(error: object, *, now: float | None = None) -> float | None:
    """Return the seconds that the server asked to wait, from its headers or its text."""
    errors = [each for chain in list_chains(error) for each in chain]
    spans, clocks = _rules().wait_texts, _rules().clock_texts
    asked = [read_wait_headers(find_headers(each) or {}, now) for each in errors]
    asked += [
        read_wait_text(gather_text(each), spans=spans, clocks=clocks, now=now) for each in errors
    ]
    seconds = next((each for each in asked if each is not None), None)
    return None if seconds is None else min(seconds, _LONGEST_ASKED_SECONDS)


def _judge_chain(links: Sequence[_Link]) -> tuple[str, str | int | None] | None:
    """The kind of an error and its causes, and its code; text comes last."""
    for name_link in (_name_fact, lambda link: find_kind(link.text)):
        for link in links:
            if name := name_link(link):
                return _refine(name, links), _find_link_status(link) or find_code(link.error)
    return None


def _name_fact(link: _Link) -> str | None:
    exit_code = find_exit_code(link.error)
    name = (
        _name_status(_find_link_status(link))
        or (None if exit_code is None else find_exit_kind(exit_code))
        or _name_type(link)
    )
    # an exit code says that a program failed; only its text says why
    return find_kind(link.text) or name if name == "command_failed" else name


def _name_status(status: int | None) -> str | None:
    if status is None or not is_status(status):
        return None
    return _rules().by_status.get(status) or ("bad_request" if status < 500 else "server_error")


def _name_type(link: _Link) -> str | None:
    """The kind by the class of an exception, or by the class name that a text begins with."""
    rules = _rules()
    if name := rules.by_errno.get(find_errno(link.error) or ""):
        return name
    if is_missing_program(link.error):
        return "command_not_found"
    return rules.by_type.get(_find_type(link) or "")


def _find_type(link: _Link) -> str | None:
    """The class of an exception, or of the name that a text begins with, if the table has it."""
    types = list_types(type(link.error)) if isinstance(link.error, BaseException) else []
    if found := _TYPE_NAME.match(link.text):
        known = getattr(builtins, found[1], None)
        types += [found[1], *(list_types(known) if isinstance(known, type) else ())]
    return next((name for name in types if name in _rules().by_type), None)


def _is_refusal(kind: FailureKind, code: str | int | None, links: Sequence[_Link]) -> bool:
    """True if a model call that failed so was refused before any answer, and costs nothing."""
    rules = _rules()
    if isinstance(code, int) and is_status(code):
        return code not in rules.refusals.unsure_status
    has_type = any(_find_type(link) in rules.refusals.types for link in links)
    return kind.is_refusal or has_type or bool(rules.refusal_texts.search(_join_texts(links)))


def _find_link_status(link: _Link) -> int | None:
    found = (pattern.search(link.text) for pattern in _rules().status_texts)
    said = (int(match[1]) for match in found if match)
    return find_status(link.error) or next(filter(is_status, said), None)


def _join_texts(links: Sequence[_Link]) -> str:
    return "\n".join(link.text for link in links)[:TEXT_LIMIT]


def _refine(name: str, links: Sequence[_Link]) -> str:
    text = _join_texts(links)
    for row, pattern in _rules().texts:
        if name in row.refines and pattern.search(text):
            return row.name
    return name
