"""Removal of secrets from text.

Works on the raw bytes of records before they are parsed, so that import and rebuild see the same.
Each row of `data/redact.toml` describes one shape of secret. Rules are grouped by a literal that
they share: the search jumps from one literal to the next and tries the rules of the group only
there. At a frequent literal a guard comes first, a test of the two characters before it.
"""

import hmac
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property

from msgspec import Struct, toml

from relight.data import read_data

# Where a word begins, in text that may be escaped: the `n` of `\n` is not part of the word
# after it, nor are the digits of `\u001b`, `%3D` and of a terminal's `[32m`. After a lone backslash
# no word begins: the `r` of `\r8_` belongs to the escape. After an underscore one may begin, if a
# name precedes it.
_START = r"""(?: (?<![A-Za-z0-9+\\-]) | (?<=\\[nrtbf]) | (?<=\\u[0-9a-fA-F]{4})
               | (?<=%[0-9a-fA-F]{2}) | (?<=[\[;][0-9]m) | (?<=[\[;][0-9]{2}m) )"""

# `MY_` and `x2_`, but not the end of a blob in base64.
_NAME = re.compile(rb"(?<![A-Za-z0-9_-])(?>(?:[A-Za-z]*+[0-9]{0,3}+_++)+)\Z")
_NAME_REACH = 80

# The end of a command. A line break after a continuation is not one: escaped, it has the
# backslashes of a backslash before it, and their number is not a power of two.
_JOINT = re.compile(rb"\|[ ]|;[ ]|&&[ ]|\n(?<!\\\n)|\\(?<!\\\\)(?:n|\\n|\\{3}n|\\{7}n)")
# Where a program's name begins; a path before it ends in `bin/`.
_PROGRAM = re.compile(rb"(?<![A-Za-z0-9_.-])(?:(?<!/)|(?<=bin/))")
_REACH = 400
# words before an option that look like its program; where there are more, one of them counts
_MOST_PROGRAMS = 8

# One character of a prefix, and a prefix whose ending can be listed: `gl(?:pat|ptt)`, `gh[pousr]`.
_UNIT = re.compile(r"\[[^\]]+\]|[A-Za-z0-9_]")
_PREFIX = re.compile(rf"(?:{_UNIT.pattern})*(?:\(\?:((?:{_UNIT.pattern}|\|)+)\))?")

# What continues a secret that fills its rule's limit: the rest of a secret cut in two is one too.
_LONG = 512
_REST = re.compile(rb"[A-Za-z0-9_+/=.~%-]*+")

# A secret that was replaced may have hidden another, so a record is searched again. Text that
# makes that go on, one secret after another, is replaced by whole strings, and then altogether.
_MOST_PASSES = 4
DENSE = "dense"
_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_LINE = re.compile(rb"([^\n]+)")

_ESCAPE = re.compile(rb'((?:\\+u[0-9a-fA-F]{4})+|\\+["/bfnrt])|\\+')


class Secret(Struct, frozen=True):
    """The rule that found a secret and the bytes it occupies."""

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
    command: str = ""
    guard: dict[str, str] = {}
    note: str = ""

    def write_pattern(self, literal: str) -> str:
        """Return the expression after the literal, with a look behind it."""
        if self.before is None:
            return self.after
        # The prefix alone is tested first: it is cheap, and nearly always absent.
        return f"(?<={self.before}{literal})(?<=({_START}{self.before}){literal})(?:{self.after})"


class Lookalike(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table: values that are not secrets although they stand where one could."""

    name: str
    kinds: list[str]
    regex: str
    like: list[str]
    note: str = ""


class SecretTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `data/redact.toml`."""

    rule: list[Rule]
    lookalike: list[Lookalike]


class Scan(Struct, frozen=True, dict=True):
    """One search over the buffer, for all rules that share a literal."""

    pattern: re.Pattern[bytes]
    rules: list[Rule]
    parts: list[str]
    any_case: bool

    @cached_property
    def owners(self) -> list[Rule]:
        """The rule of each group, computed lazily: most scans never find anything."""
        counts = [_compile(part).groups for part in self.parts]
        return [rule for rule, n in zip(self.rules, counts, strict=True) for _ in range(n)]


@cache
def read_secret_table() -> SecretTable:
    """Return the rules of `data/redact.toml`."""
    return toml.decode(read_data("redact.toml"), type=SecretTable)


@cache
def _read_scans() -> list[Scan]:
    return build_scans(read_secret_table().rule)


def build_scans(rules: Iterable[Rule]) -> list[Scan]:
    """Return one search for each literal of the rules."""
    groups: dict[tuple[str, bool], list[Rule]] = {}
    for rule in rules:
        for literal in rule.literals:
            groups.setdefault((literal, rule.any_case), []).append(rule)
    scans = []
    for (literal, any_case), group in groups.items():
        escaped = re.escape(literal)
        parts = [rule.write_pattern(escaped) for rule in group]
        whole = f"{escaped}{_write_guard(literal, group)}(?:{'|'.join(parts)})"
        scans.append(Scan(_compile(whole), group, parts, any_case))
    return scans


def _write_guard(literal: str, rules: Sequence[Rule]) -> str:
    """A cheap test that holds wherever one of the rules matches; empty if a rule has none.

    It is the rule's `guard` for the literal, or else a test of the last two characters of `before`.
    """
    guards = {rule.guard[literal] for rule in rules if literal in rule.guard}
    endings: set[str] = set()
    for rule in rules:
        if literal not in rule.guard:
            found = _list_endings(rule.before or "")
            if not found:
                return ""
            endings |= found
    if endings:
        units = [_UNIT.findall(ending) for ending in endings]
        first, second = (
            "".join(unit.strip("[]") for unit in place) for place in zip(*units, strict=True)
        )
        pairs = "|".join(sorted(endings))
        escaped = re.escape(literal)
        guards.add(f"(?<=[{first}][{second}]{escaped})(?<=(?:{pairs}){escaped})")
    return f"(?:{'|'.join(sorted(guards))})"


def _list_endings(before: str) -> set[str]:
    """The expressions of the last two characters of `before`; empty if it is not plain enough.

    >>> sorted(_list_endings("gl(?:pat|cbt)")), sorted(_list_endings("gh[pousr]"))
    (['at', 'bt'], ['h[pousr]'])
    """
    if not (found := _PREFIX.fullmatch(before)):
        return set()
    branches = [_UNIT.findall(branch)[-2:] for branch in (found[1] or before).split("|")]
    return {"".join(units) for units in branches} if min(map(len, branches)) == 2 else set()


@cache
def _build_lookalike(kind: str) -> re.Pattern[bytes]:
    rows = [row.regex for row in read_secret_table().lookalike if kind in row.kinds]
    return _compile("|".join(rows) or "(?!)", re.IGNORECASE | re.DOTALL)


@cache
def _build_command(command: str) -> re.Pattern[bytes]:
    return _compile(rf"(?:{command})\Z", re.DOTALL)


def _compile(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), flags | re.VERBOSE)


def find_secrets(data: bytes, scans: Sequence[Scan] | None = None) -> list[Secret]:
    """Return the secrets in `data` in order, none overlapping another."""
    lowered = data.lower()
    found = []
    for scan in _read_scans() if scans is None else scans:
        rest = 0  # the end of the long secret before, which the matches inside it share
        for match in scan.pattern.finditer(lowered if scan.any_case else data):
            group = match.lastindex or 0
            rule = scan.owners[group - 1]
            start = match.start(group)
            end = match.end(group) if rule.before is None else match.end()
            lookalike = _build_lookalike((match.lastgroup or "shape").rstrip("123456789"))
            if lookalike.fullmatch(_undo_escapes(data[start:end])):
                continue
            if _fits(rule, data, match.start() if rule.before is None else start):
                if end - start >= _LONG and end > rest and (more := _REST.match(data, end)):
                    rest = more.end()
                found.append(
                    Secret(rule.name, start, max(end, rest) if end - start >= _LONG else end)
                )
    joined: list[Secret] = []
    # Where rules saw the same bytes, the longest match names them, then the first in the table.
    for secret in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if joined and secret.start < joined[-1].end:
            last = joined.pop()
            secret = Secret(last.rule, last.start, max(last.end, secret.end))
        joined.append(secret)
    return joined


def _fits(rule: Rule, data: bytes, start: int) -> bool:
    """True if the text before a match is what its rule requires."""
    if rule.before is not None and data[start - 1 : start] == b"_":
        return bool(_NAME.search(data, max(0, start - _NAME_REACH), start))
    return not rule.command or _is_command(rule.command, data[max(0, start - _REACH) : start])


def _is_command(command: str, before: bytes) -> bool:
    before = before[max((joint.end() for joint in _JOINT.finditer(before)), default=0) :]
    pattern = _build_command(command)
    found = pattern.search(before)
    for _ in range(_MOST_PROGRAMS):
        if not found or _PROGRAM.match(before, found.start()):
            break
        found = pattern.search(before, found.start() + 1)
    return bool(found)


def redact(data: bytes, *, key: bytes) -> bytes:
    """Return the bytes with each secret replaced by `[redacted:RULE:HASH]`.

    The hash is an HMAC of the plain secret: the same secret has the same hash in every escaping,
    and guesses cannot be checked without the key. Only the insides of JSON strings change.
    """
    pieces = []
    done = 0
    for start, end in _find_records(data):
        pieces += [data[done:start], _redact_record(data[start:end], key=key)]
        done = end
    return b"".join([*pieces, data[done:]]) if pieces else data


def _find_records(data: bytes) -> Iterator[tuple[int, int]]:
    """The lines that contain secrets; in plain text a secret can span many."""
    start = end = 0
    for secret in find_secrets(data):
        # At `end` itself only a private key begins: with the line break after its heading.
        if secret.start > end:
            if end:
                yield start, end
            start = data.rfind(b"\n", end, secret.start) + 1 or end
            while start > end and data[start - 2 : start] == b"\\\n":
                start = data.rfind(b"\n", end, start - 1) + 1 or end
        if secret.end > end:
            end = _find_end(data, secret.end)
    if end:
        yield start, end


def _find_end(data: bytes, start: int) -> int:
    """The end of the line, with the lines that continue it."""
    end = data.find(b"\n", start)
    while end > 0 and data[end - 1] == 0x5C:
        end = data.find(b"\n", end + 1)
    return len(data) if end < 0 else end


def _redact_record(record: bytes, *, key: bytes) -> bytes:
    """The record, searched again until no secret is left: one may have hidden another."""
    for number in range(2 * _MOST_PASSES):
        if not (secrets := find_secrets(record)):
            return record
        if number < _MOST_PASSES:
            spans = [(secret.start, secret.end, secret.rule) for secret in secrets]
        else:
            spans = [(start, end, DENSE) for start, end in _widen(record, secrets)]
        record = _replace(record, spans, key=key)
    if find_secrets(record):
        record = _replace(record, [(*span, DENSE) for span in _list_texts(record)], key=key)
    return record


def _replace(record: bytes, spans: Iterable[tuple[int, int, str]], *, key: bytes) -> bytes:
    pieces = []
    done = 0
    for start, end, rule in spans:
        plain = _undo_escapes(record[start:end])
        digest = hmac.digest(key, plain, "sha256").hex()[:8]
        pieces += [record[done:start], f"[redacted:{rule}:{digest}]".encode()]
        done = end
    return b"".join([*pieces, record[done:]])


def _widen(record: bytes, secrets: Sequence[Secret]) -> Iterator[tuple[int, int]]:
    """The whole strings, or lines of plain text, that the secrets are in."""
    waiting = iter(secrets)
    secret = next(waiting, None)
    for start, end in _list_texts(record):
        while secret and secret.end <= start:
            secret = next(waiting, None)
        if secret and secret.start < end:
            yield start, end


def _list_texts(record: bytes) -> list[tuple[int, int]]:
    """The insides of the strings of a JSON record; the lines of plain text."""
    try:
        json.loads(record)
    except (ValueError, RecursionError):
        pattern = _LINE
    else:
        pattern = _STRING
    return [found.span(1) for found in pattern.finditer(record) if found[1]]


def redact_text(text: str, *, key: bytes) -> str:
    """Return the text with each secret replaced, as `redact` does."""
    data = text.encode("utf-8", "surrogatepass")
    clean = redact(data, key=key)
    return text if clean is data else clean.decode("utf-8", "surrogatepass")


def _undo_escapes(raw: bytes) -> bytes:
    r"""The plain text of an escaped piece, however many levels deep.

    >>> _undo_escapes(rb'a\"b'), _undo_escapes(rb'a\\\"b'), _undo_escapes(rb'a\\u0022b')
    (b'a"b', b'a"b', b'a"b')
    """

    def undo(match: re.Match[bytes]) -> bytes:
        text = json.loads(b'"' + re.sub(rb"\\+", rb"\\", match[1]) + b'"') if match[1] else "\\"
        return str(text).encode("utf-8", "surrogatepass")

    return _ESCAPE.sub(undo, raw)
