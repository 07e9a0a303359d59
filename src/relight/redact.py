"""Text with secrets taken out.

Works on the raw bytes of records before they are parsed, so that import and rebuild see the same.
What a secret looks like is told row by row in `data/redact.toml`; this module only searches.

One expression for all rules would read 20 to 100 MB/s. So rules are grouped by a literal they
share, as rare as can be: the engine leaps from one literal to the next at 3 GB/s, and only there
tries the rules of the group. A lower-cased copy, made once, serves the rules that ignore case.
"""

import hmac
import json
import re
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

# Where a word begins, in text that may be escaped: the `n` of `\n` is no letter of the word after
# it, nor are the digits of `\u001b`, `%3D` and of a terminal's `[32m`. Behind a lone backslash
# nothing begins: the `r` of `\r8_` belongs to the escape.
_START = r"""(?: (?<![A-Za-z0-9_+\\-]) | (?<=\\[nrtbf]) | (?<=\\u[0-9a-fA-F]{4})
               | (?<=%[0-9a-fA-F]{2}) | (?<=[\[;][0-9]m) | (?<=[\[;][0-9]{2}m) )"""

_ESCAPE = re.compile(rb'((?:\\+u[0-9a-fA-F]{4})+|\\+["/bfnrt])|\\+')
_BACKSLASHES = re.compile(rb"\\+")


class Secret(Struct, frozen=True):
    """One secret: the rule that found it and the bytes it occupies."""

    rule: str
    start: int
    end: int


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table: the shape of one kind of secret around a literal."""

    name: str
    literals: list[str]
    after: str
    hit: list[str]
    miss: list[str]
    before: str | None = None
    any_case: bool = False
    note: str = ""

    def write_pattern(self, literal: str) -> str:
        """What follows the literal, and looks behind it."""
        if self.before is None:
            return self.after
        # The prefix alone is looked for first: it is cheap, and nearly always not there.
        prefix = f"(?<={self.before}{literal})" if self.before else ""
        return f"{prefix}(?<=({_START}{self.before}){literal})(?:{self.after})"


class Lookalike(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table: values that are no secrets although they stand where one could."""

    name: str
    kinds: list[str]
    regex: str
    like: list[str]
    note: str = ""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """All that `data/redact.toml` says."""

    guard: dict[str, str]
    rule: list[Rule]
    lookalike: list[Lookalike]


class _Scan(Struct, frozen=True):
    """One search over the buffer; `owners[i]` is the rule that group `i` belongs to."""

    pattern: re.Pattern[bytes]
    owners: list[Rule]
    any_case: bool


@cache
def read_table() -> Table:
    """The rules as written in `data/redact.toml`."""
    text = (Path(__file__).parent / "data" / "redact.toml").read_bytes()
    return msgspec.toml.decode(text, type=Table)


@cache
def _build_scans() -> list[_Scan]:
    table = read_table()
    groups: dict[tuple[str, bool], list[Rule]] = {}
    for rule in table.rule:
        for literal in rule.literals:
            groups.setdefault((literal, rule.any_case), []).append(rule)
    scans = []
    for (literal, any_case), rules in groups.items():
        parts = [rule.write_pattern(re.escape(literal)) for rule in rules]
        guard = table.guard.get(literal, "")
        whole = f"{re.escape(literal)}{guard}(?:{'|'.join(parts)})"
        owners = [rules[0]]
        for rule, part in zip(rules, parts, strict=True):
            owners += [rule] * _compile(part).groups
        scans.append(_Scan(_compile(whole), owners, any_case))
    return scans


@cache
def _build_lookalikes() -> dict[str, re.Pattern[bytes]]:
    rows = read_table().lookalike
    kinds = sorted({kind for row in rows for kind in row.kinds})
    flags = re.IGNORECASE | re.DOTALL
    return {
        kind: _compile("|".join(row.regex for row in rows if kind in row.kinds), flags)
        for kind in kinds
    }


def _compile(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), flags | re.VERBOSE)


def find_secrets(data: bytes) -> list[Secret]:
    """The secrets in `data`, in the order they stand, none overlapping another."""
    lowered = data.lower()
    lookalikes = _build_lookalikes()
    found = []
    for scan in _build_scans():
        for match in scan.pattern.finditer(lowered if scan.any_case else data):
            group = match.lastindex or 0
            rule = scan.owners[group]
            start = match.start(group)
            end = match.end(group) if rule.before is None else match.end()
            lookalike = lookalikes.get(match.lastgroup or "shape")
            if not lookalike or not lookalike.fullmatch(_undo_escapes(data[start:end])):
                found.append(Secret(rule.name, start, end))
    return _join_overlaps(found)


def redact(data: bytes, *, key: bytes) -> bytes:
    """The same bytes with each secret replaced by `[redacted:RULE:HASH]`.

    The hash is an HMAC of the plain secret, so the same secret can be told again in whatever
    escaping, and nobody without the key can try out guesses. Only the insides of JSON strings
    change; redacting twice changes nothing; clean data is returned as the same object.
    """
    pieces = []
    done = 0
    for secret in find_secrets(data):
        if secret.start >= done:
            start = data.rfind(b"\n", done, secret.start) + 1 or done
            end = data.find(b"\n", secret.end)
            end = len(data) if end < 0 else end
            pieces += [data[done:start], _redact_record(data[start:end], key=key)]
            done = end
    return b"".join([*pieces, data[done:]]) if pieces else data


def _redact_record(record: bytes, *, key: bytes) -> bytes:
    """One record without secrets: it is read until none is left, for one may have hidden another."""
    while secrets := find_secrets(record):
        pieces = []
        done = 0
        for secret in secrets:
            plain = _undo_escapes(record[secret.start : secret.end])
            digest = hmac.digest(key, plain, "sha256").hex()[:8]
            pieces += [record[done : secret.start], f"[redacted:{secret.rule}:{digest}]".encode()]
            done = secret.end
        record = b"".join([*pieces, record[done:]])
    return record


def redact_text(text: str, *, key: bytes) -> str:
    """The same text with each secret replaced, as `redact` does."""
    data = text.encode("utf-8", "surrogatepass")
    clean = redact(data, key=key)
    return text if clean is data else clean.decode("utf-8", "surrogatepass")


def _join_overlaps(found: list[Secret]) -> list[Secret]:
    """Where several rules saw the same bytes, the longest names them, then the first."""
    joined: list[Secret] = []
    for secret in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if joined and secret.start < joined[-1].end:
            last = joined.pop()
            secret = Secret(last.rule, last.start, max(last.end, secret.end))
        joined.append(secret)
    return joined


def _undo_escapes(raw: bytes) -> bytes:
    r"""The plain text of an escaped piece, however many levels deep.

    >>> _undo_escapes(rb'a\"b'), _undo_escapes(rb'a\\\"b'), _undo_escapes(rb'a\\u0022b')
    (b'a"b', b'a"b', b'a"b')
    """
    return _ESCAPE.sub(_undo_escape, raw) if b"\\" in raw else raw


def _undo_escape(match: re.Match[bytes]) -> bytes:
    if not match[1]:
        return b"\\"
    text: str = json.loads(b'"' + _BACKSLASHES.sub(rb"\\", match[1]) + b'"')
    return text.encode("utf-8", "surrogatepass")
