"""Removal of secrets from text.

Works on the raw bytes of records before they are parsed, so that import and rebuild see the same.
A scan names the places where a secret may begin (see secret_shapes.py); rules are tried there.
The work is linear in the length of the text, whatever the text: each expression has a greatest
width, and a record is searched a few times at most.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from relight.expressions import compile_later
from relight.names import hash_with_key
from relight.secret_shapes import SecretShape, Shapes, read_lookalike, read_shapes

# `MY_` and `x2_`, but not the end of a blob in base64.
_NAME = compile_later(
    rb"(?<![A-Za-z0-9_+-])(?>(?:(?:[A-Z]{1,24}+|[A-Z]?[a-z]{1,24}+)?[0-9]{0,3}+[_+-]++)+)\Z"
)
_NAME_REACH = 80

# The end of a command. A line break after a continuation is not one: escaped, it has the
# backslashes of a backslash before it, and their number is not a power of two.
_JOINT = compile_later(rb"\|[ ]|;[ ]|&&[ ]|\n(?<!\\\n)|\\(?<!\\\\)(?:n|\\n|\\{3}n|\\{7}n)")
# Where a program's name begins; a path before it ends in `bin/`.
_PROGRAM = compile_later(rb"(?<![A-Za-z0-9_.-])(?:(?<!/)|(?<=bin/))")
_REACH = 400
# words before an option that look like its program; where there are more, one of them counts
_MOST_PROGRAMS = 8

# What continues a secret that fills its rule's limit: the rest of a secret cut in two is one too.
_LONG = 512
_REST = compile_later(rb"[A-Za-z0-9_+/=.~%-]*+")

# A secret that was replaced may have hidden another, so text is searched again. What
# makes that go on, one secret after another, is replaced by whole strings, and then altogether.
_MOST_PASSES = 4
DENSE = "dense"
_STRING = compile_later(rb'"((?>(?:[^"\\]++|\\.)*))"', re.DOTALL)
_LINE = compile_later(rb"([^\n]+)")

# A secret that was found once is removed everywhere, if it cannot be a word or a path as well.
_SECRET_NAME = compile_later(
    r"(?i)(?:^|_)(?:api_?key|access_?key|key|token|secret|pass|password|passwd|passphrase|pwd"
    r"|credentials?)(?:_|$)"
)
_PLAIN_VALUE = compile_later(
    rb"[a-z]{1,11}|[0-9]{1,11}|[~.]?/.*|[a-z]+://.*|\[redacted.*", re.DOTALL
)
_MARKS = compile_later(rb'["\\\x00-\x20]')
_MOST_VALUES = 500


def _show(match: re.Match[bytes]) -> bytes:
    """The character behind backslashes; nothing for a colour or a character without width."""
    if match[1] == b"22":  # a quote stays escaped, as deep as it was
        marks = match[0][: -len(b"u0022")]
        return b"\\" * (2 * len(marks) - 1) + b'"' if len(marks) in (1, 2, 4) else match[0]
    return bytes.fromhex(match[1].decode()) if match[1] else match[2] or b""


# The disguises of secret_shapes.py with all that they hide, and what a reader sees there; a quote
# or a backslash must stay escaped. Each begins with a plain character, so that a search is quick.
_DISGUISES: tuple[tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], bytes] | bytes], ...] = (
    (
        compile_later(
            rb"\\\\*+(?:u00(2[0-9a-fA-F]|[346][0-9a-fA-F]|5[0-9abdefABDEF]|7[0-9a-eA-E])|(/)"
            rb"|u200[bcdBCD]|u001[bB]\[[0-9;]{0,9}m)"
        ),
        _show,
    ),
    (
        compile_later(rb"%(5[fF]|2[dD]|3[dD])(?=[A-Za-z0-9])"),
        lambda match: bytes.fromhex(match[1].decode()),
    ),
    (compile_later(rb"\xe2\x80[\x8b-\x8d]"), b""),
    (compile_later(rb"\x1b\[[0-9;]{0,9}m"), b""),
)

_ESCAPE = compile_later(rb'((?:\\+u[0-9a-fA-F]{4})+|\\+["/bfnrt])|\\+')


class Secret(Struct, frozen=True):
    """The rule that found a secret, the bytes it occupies, and where the text that shows it is."""

    rule: str
    start: int
    end: int
    shown_at: int


def find_secrets(
    data: bytes,
    shapes: Shapes | None = None,
    *,
    own_only: bool = False,
    places: Iterable[tuple[int, int]] | None = None,
) -> list[Secret]:
    """Return the secrets in `data` in order, none overlapping another.

    With `own_only`, those with their own shape, which need no text near them. `places` are those
    of a scan that was made already.
    """
    shapes = shapes or read_shapes()
    found = []
    done: dict[int, int] = {}  # by shape, the end of its last match: places inside are passed over
    rest = 0  # the end of the last long secret, which the matches inside it share
    for place, number in shapes.find_places(data) if places is None else places:
        shape = shapes.all[number]
        if not (match := shape.pattern.match(data, place)) or place <= done.get(number, -1):
            continue
        if own_only and not shape.rule.prefixes:
            continue
        done[number] = match.end()
        start, end = match.span(match.lastindex or 0)
        if shape.rule.prefixes:
            start, end = match.start(1), match.end()
        kind = "shape" if shape.rule.prefixes else (match.lastgroup or "shape")
        lookalike = read_lookalike(kind.rstrip("123456789"))
        if lookalike.fullmatch(_undo_escapes(data[start:end])):
            continue
        if not _fits(shape, data, start, place):
            continue
        if end - start >= _LONG:
            if end > rest and (more := _REST.match(data, end)):
                rest = more.end()
            end = max(end, rest)
        found.append((start, -end, number, min(start, place)))
    joined: list[Secret] = []
    # Where rules saw the same bytes, the longest match names them, then the first in the table.
    for start, end, number, shown in sorted(found):
        if joined and start < joined[-1].end:
            last = joined.pop()
            shown = min(last.shown_at, shown)
            joined.append(Secret(last.rule, last.start, max(last.end, -end), shown))
        else:
            joined.append(Secret(shapes.all[number].rule.name, start, -end, shown))
    return joined


def _fits(shape: SecretShape, data: bytes, start: int, place: int) -> bool:
    """True if the text before a match is what its rule requires."""
    if shape.rule.prefixes and data[max(0, start - 1) : start] in (b"_", b"-", b"+"):
        return bool(_NAME.search(data, max(0, start - _NAME_REACH), start))
    return not shape.rule.command or _is_command(shape, data[max(0, place - _REACH) : place])


def _is_command(shape: SecretShape, before: bytes) -> bool:
    before = before[max((joint.end() for joint in _JOINT.finditer(before)), default=0) :]
    found = shape.command.search(before)
    for _ in range(_MOST_PROGRAMS):
        if not found or _PROGRAM.match(before, found.start()):
            break
        found = shape.command.search(before, found.start() + 1)
    return bool(found)


def redact(data: bytes, *, key: bytes, known: Iterable[bytes] | None = None) -> bytes:
    """Return the bytes with each secret replaced by `[redacted:RULE:HASH]`.

    The hash is an HMAC of the plain secret: the same secret has the same hash in every escaping,
    and guesses cannot be checked without the key. Only the insides of JSON strings change.
    `known` are secrets to remove wherever they stand, by default those in the variables of this
    process. So is each secret that is found.
    """
    own = read_own_secrets() if known is None else known
    found: set[bytes] = set()
    for _ in range(_MOST_PASSES):
        rest = _redact_records(data, key=key, found=found)
        data = _redact_values(rest, {*own, *found}, key=key)
        if data is rest:
            break
    return data


def _redact_records(data: bytes, *, key: bytes, found: set[bytes]) -> bytes:
    """The bytes without the secrets that their shape or the text near them shows."""
    places, is_disguised = read_shapes().scan(data)
    clear = _undo_disguises(data) if is_disguised else data
    secrets = find_secrets(clear, places=places) if clear is data else find_secrets(clear)
    pieces = []
    done = 0
    for start, end in _find_records(clear, secrets):
        record = _redact_record(clear[start:end], key=key, found=found)
        pieces += [clear[done:start], record]
        done = end
    return b"".join([*pieces, clear[done:]]) if pieces else data


@cache
def read_own_secrets() -> frozenset[bytes]:
    """Return the secrets in the variables of this process."""
    return read_known_secrets(os.environ)


def find_secret_values(data: bytes) -> set[bytes]:
    """Return the secrets in `data` that are removed wherever else they stand."""
    found = (data[secret.start : secret.end] for secret in find_secrets(data))
    return {value for value in found if _is_secret_only(value)}


def read_known_secrets(environment: Mapping[str, str]) -> frozenset[bytes]:
    """Return the values of variables whose names say that they are secrets."""
    return frozenset(
        value.encode("utf-8", "surrogateescape")
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and _is_secret_only(value.encode("utf-8", "surrogateescape"))
    )


def _is_secret_only(value: bytes) -> bool:
    """True for a value that stands for nothing but the secret, wherever it is found."""
    return len(value) >= 8 and not _PLAIN_VALUE.fullmatch(value) and not _MARKS.search(value)


def _redact_values(data: bytes, values: Iterable[bytes], *, key: bytes) -> bytes:
    """The bytes without these values, the longest first; at most some hundred are looked for."""
    chosen = sorted(filter(_is_secret_only, values), key=lambda value: (-len(value), value))
    present = [value for value in chosen[:_MOST_VALUES] if value in data]
    if not present:
        return data
    # behind a backslash the first letter belongs to an escape
    pattern = re.compile(rb"(?<!\\)(?:" + b"|".join(map(re.escape, present)) + b")")

    def note(match: re.Match[bytes]) -> bytes:
        return _write_mark("value", _undo_escapes(match[0]), key=key)

    return pattern.sub(note, data)


def _undo_disguises(data: bytes) -> bytes:
    """The bytes with ASCII that is escaped without need written out, where that shows a secret.

    A parser reads `gh\\u0070_` as `ghp_`. Lines without such a secret stay unchanged.
    """
    lines = data.split(b"\n")
    is_changed = False
    for number, line in enumerate(lines):
        clear = line
        for disguise, show in _DISGUISES:
            clear = disguise.sub(show, clear)
        shown = find_secrets(clear) if clear is not line else []
        if shown and len(shown) > len(find_secrets(line)):
            lines[number] = clear
            is_changed = True
    return b"\n".join(lines) if is_changed else data


def _find_records(data: bytes, secrets: Iterable[Secret]) -> Iterator[tuple[int, int]]:
    """The lines that contain secrets and what shows them; in plain text these can be many."""
    start = end = 0
    for secret in secrets:
        # At `end` itself only a private key begins: with the line break after its heading.
        if secret.shown_at > end:
            if end:
                yield start, end
            start = data.rfind(b"\n", end, secret.shown_at) + 1 or end
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


def _redact_record(record: bytes, *, key: bytes, found: set[bytes]) -> bytes:
    """The record, searched again until no secret is left: one may have hidden another.

    The secrets are added to `found`.
    """
    for number in range(2 * _MOST_PASSES):
        if not (secrets := find_secrets(record)):
            return record
        found.update(record[secret.start : secret.end] for secret in secrets)
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
        pieces += [record[done:start], _write_mark(rule, plain, key=key)]
        done = end
    return b"".join([*pieces, record[done:]])


def _write_mark(rule: str, secret: bytes, *, key: bytes) -> bytes:
    """The text that stands for a secret: the same for the same secret in one store."""
    return f"[redacted:{rule}:{hash_with_key(key, secret).hex()[:8]}]".encode()


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


def redact_cell(text: str, *, key: bytes) -> str:
    """Return a text that was taken from redacted records without what only its parsing shows.

    Lines are joined in a cell, so only secrets with their own shape count.
    """
    data = text.encode("utf-8", "surrogatepass")
    return redact_text(text, key=key) if find_secrets(data, own_only=True) else text


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
