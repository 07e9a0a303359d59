"""The shapes of secrets, from `data/redact.toml`, and the places in a text where one may be.

A row has expressions for the text that a secret begins with (`prefixes`) or that stands before it
(`near`). One scan for all of them names the places; the rest of a row is tried only there. A place
counts only if the next byte is one that the rest can begin with: `token` stands in every count of
tokens, and only an `s` follows it there.
Hyperscan scans in one pass, however many rows there are. Where it is not installed, Python's own
expressions name the same places.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from msgspec import Struct, toml

from relight.data import read_data

# Python's own reader of expressions; type checkers do not know it
_parser: Any = import_module("re._parser")

# Where a word begins, in text that may be escaped: the `n` of `\n` is not part of the word
# after it, nor are the digits of `\u001b`, `%3D` and of a terminal's `[32m`. After a lone backslash
# no word begins: the `r` of `\r8_` belongs to the escape. After an underscore, a hyphen or a plus
# one may begin, if a name precedes it.
_START = r"""(?: (?<![A-Za-z0-9\\]) | (?<=\\[nrtbf]) | (?<=\\u[0-9a-fA-F]{4})
               | (?<=%[0-9a-fA-F]{2}) | (?<=[\[;][0-9]m) | (?<=[\[;][0-9]{2}m) )"""


_ALL_BYTES = frozenset(range(256))
_ANYTHING = frozenset({b"", *(bytes([byte]) for byte in _ALL_BYTES)})


class Rule(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A row of the table: the shape of one kind of secret."""

    name: str
    after: str
    hit: list[str]
    miss: list[str]
    prefixes: list[str] = []
    near: list[str] = []
    any_case: bool = False
    command: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if bool(self.prefixes) == bool(self.near):
            raise ValueError(f"the rule {self.name!r} needs `prefixes` or `near`")

    @cached_property
    def following(self) -> frozenset[bytes]:
        """The bytes that can follow a place, one by one; empty bytes are the end of the text.

        For prefixes that is not looked at: they are rare in clean text, and finding it takes time.
        """
        if self.prefixes:
            return _ANYTHING
        found, can_be_empty = find_first(_parser.parse(self.after.encode(), re.VERBOSE))
        if can_be_empty:
            return _ANYTHING
        single = {bytes([byte]) for byte in found}
        return frozenset(single | {byte.swapcase() for byte in single} if self.any_case else single)

    def write_pattern(self, place: str) -> str:
        """Return the expression after a place; a prefix is looked back at and is its group 1."""
        return f"(?<=({_START}{place}))(?:{self.after})" if self.prefixes else self.after


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


class SecretShape(Struct, frozen=True, dict=True):
    """A rule at one of its places; `place` is the expression that the scan looks for."""

    number: int
    rule: Rule
    place: str

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The expression tried after the place, compiled when it is first needed."""
        flags = re.IGNORECASE if self.rule.any_case else re.NOFLAG
        return compile_bytes(self.rule.write_pattern(self.place), flags)

    @cached_property
    def command(self) -> re.Pattern[bytes]:
        """The program of the rule and what may stand between it and the end of the place."""
        return compile_bytes(rf"(?:{self.rule.command})(?:{self.place})\Z", re.DOTALL)


class PlaceGroup(Struct, frozen=True, dict=True):
    """The shapes with the same place.

    Where no shape may end the text, Hyperscan looks at the byte after the place as well: it is
    much faster than a call of Python.
    """

    place: str
    any_case: bool
    shapes: list[SecretShape]

    @cached_property
    def by_following(self) -> dict[bytes, list[int]]:
        """The numbers of the shapes by what can follow their place."""
        found: dict[bytes, list[int]] = {}
        for shape in self.shapes:
            for byte in shape.rule.following:
                found.setdefault(byte, []).append(shape.number)
        return found

    @cached_property
    def is_followed(self) -> bool:
        return b"" not in self.by_following

    @property
    def expression(self) -> bytes:
        if not self.is_followed:
            return self.place.encode()
        codes = "".join(f"\\x{byte[0]:02x}" for byte in sorted(self.by_following))
        return f"(?:{self.place})[{codes}]".encode()


# What hides a secret from a search and from no reader: ASCII that JSON need not escape (`\u0070`,
# `\/`), `%5F`, characters without width, colours. Each begins with a plain character: so Python
# finds each ten times as fast as all of them in one expression.
DISGUISES = (
    rb"\\(?:u00[2-7]|u001[bB]|u200|/)",
    rb"%(?:5[fF]|2[dD]|3[dD])",
    rb"\xe2\x80[\x8b-\x8d]",
    rb"\x1b\[",
)


class Shapes:
    """All shapes, and the scan that finds their places."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        pairs = [(rule, place) for rule in rules for place in rule.prefixes or rule.near]
        self.all = [SecretShape(number, *pair) for number, pair in enumerate(pairs)]

    def find_places(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end of a place, number of a shape) in order."""
        return self.scan(data)[0]

    def scan(self, data: bytes) -> tuple[list[tuple[int, int]], bool]:
        """Return the places, and True if a disguise is in the text."""
        if self._fast is None:
            is_disguised = any(hint.search(data) for hint in self._disguises)
            return sorted(set(self.find_slowly(data))), is_disguised
        ends: list[tuple[int, int]] = []

        def note(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends.append((end, number))

        self._fast(data, note)
        groups = self._groups
        is_disguised = False
        found: set[tuple[int, int]] = set()
        for end, number in ends:
            if number >= len(groups):
                is_disguised = True
                continue
            group = groups[number]
            place = end - group.is_followed
            for shape in group.by_following.get(data[place : place + 1], ()):
                found.add((place, shape))
        return sorted(found), is_disguised

    @cached_property
    def _disguises(self) -> list[re.Pattern[bytes]]:
        return [re.compile(one) for one in DISGUISES]

    @cached_property
    def _groups(self) -> list[PlaceGroup]:
        """The shapes by place and whether its case matters."""
        found: dict[tuple[str, bool], list[SecretShape]] = {}
        for shape in self.all:
            found.setdefault((shape.place, shape.rule.any_case), []).append(shape)
        return [PlaceGroup(*key, shapes) for key, shapes in found.items()]

    @cached_property
    def _fast(self) -> Callable[[bytes, Any], object] | None:
        """Hyperscan's scan for all places and disguises; None where it is not installed."""
        try:
            import hyperscan
        except ImportError:
            return None
        expressions = [*(group.expression for group in self._groups), *DISGUISES]
        flags = [hyperscan.HS_FLAG_CASELESS if one.any_case else 0 for one in self._groups]
        flags += [hyperscan.HS_FLAG_SINGLEMATCH for _ in DISGUISES]
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=expressions,
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=flags,
        )
        # two threads must not scan with the same scratch space
        local = threading.local()

        def scan(data: bytes, note: Any) -> None:
            if not hasattr(local, "scratch"):
                local.scratch = hyperscan.Scratch(database)
            database.scan(data, match_event_handler=note, scratch=local.scratch)

        return scan

    def find_slowly(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield what `find_places` returns, by Python's own expressions, in no order."""
        lowered = data.lower()
        for search, any_case, anchors in self._slow:
            for found in search.finditer(lowered if any_case else data):
                for number, width, pattern in anchors:
                    if match := pattern.match(data, found.start() - width):
                        end = match.end()
                        if data[end : end + 1] in self.all[number].rule.following:
                            yield end, number

    @cached_property
    def _slow(
        self,
    ) -> list[tuple[re.Pattern[bytes], bool, list[tuple[int, int, re.Pattern[bytes]]]]]:
        """For each letter by which places are found, its search and those places."""
        anchored: dict[tuple[str, bool], list[Anchor]] = {}
        for shape in self.all:
            anchor = find_anchor(shape)
            anchored.setdefault((anchor.letter, shape.rule.any_case), []).append(anchor)
        return [
            (
                compile_bytes(write_search(letter, anchors)),
                any_case,
                [(one.number, one.width, one.pattern) for one in anchors],
            )
            for (letter, any_case), anchors in anchored.items()
        ]


class Anchor(Struct, frozen=True):
    """The letter of a place that Python looks for, and the place before and after it."""

    number: int
    letter: str
    before: str
    after: str
    width: int
    pattern: re.Pattern[bytes]


# one part of a place: a class of characters, alternatives or a character, perhaps repeated
_PART = re.compile(r"(?:\[[^\]]+\]|\(\?:[^)]+\)|\\x..|\\.|.)(?:\{[0-9]+\}|\?)?")
# The letters to look for, the best first: few that are rare, so that the text is read few times.
_LETTERS = "_-.kwzJAKZ:@vybgfhpmdl210/usrcinoate"


def find_anchor(shape: SecretShape) -> Anchor:
    """Return the letter by which Python finds a place.

    >>> rule = Rule("x", "[a-z]", [], [], prefixes=["gh[pousr]_v1"])
    >>> found = find_anchor(SecretShape(0, rule, "gh[pousr]_v1"))
    >>> found.letter, found.before, found.after, found.width
    ('_', 'gh[pousr]', 'v1', 3)
    """
    parts, choices = _PART.findall(shape.place), []
    for index, part in enumerate(parts):
        before = "".join(parts[:index])
        least, most = _parser.parse(before, re.VERBOSE).getwidth()
        letter = part.removeprefix("\\")
        if least == most and len(letter) == 1:
            after = "".join(parts[index + 1 :])
            choices.append((f"{_LETTERS}{letter}".index(letter), letter, before, after, least))
    if not choices:
        raise ValueError(f"the place {shape.place!r} has no letter that can be looked for")
    _, letter, before, after, width = min(choices)
    flags = re.IGNORECASE if shape.rule.any_case else re.NOFLAG
    return Anchor(
        number=shape.number,
        letter=re.escape(letter),
        before=before,
        after=after,
        width=width,
        pattern=compile_bytes(shape.place, flags),
    )


def write_search(letter: str, anchors: Iterable[Anchor]) -> str:
    """Return the expression for a letter where one of the places is."""
    around = {f"(?<={one.before}{letter})(?={one.after})" for one in anchors}
    return f"{letter}(?:{'|'.join(sorted(around))})"


_CATEGORIES = {"DIGIT": rb"\d", "SPACE": rb"\s", "WORD": rb"\w"}


def find_first(parsed: Iterable[tuple[Any, Any]]) -> tuple[set[int], bool]:
    """Return the bytes that a match of a parsed expression begins with, and if it can be empty.

    >>> found, can_be_empty = find_first(_parser.parse(rb"s?(?:=|: )x"))
    >>> bytes(sorted(found)), can_be_empty
    (b':=s', False)
    """
    found: set[int] = set()
    for operation, value in parsed:
        first, can_be_empty = _find_first_of(str(operation), value)
        found |= first
        if not can_be_empty:
            return found, False
    return found, True


def _find_first_of(operation: str, value: Any) -> tuple[set[int], bool]:
    match operation:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            return _list_bytes(operation, value), False
        case "BRANCH":
            branches = [find_first(one) for one in value[1]]
            return {byte for first, _ in branches for byte in first}, any(e for _, e in branches)
        case "SUBPATTERN":
            return find_first(value[-1])
        case "ATOMIC_GROUP":
            return find_first(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            first, can_be_empty = find_first(value[2])
            return first, can_be_empty or value[0] == 0
        case "ASSERT" | "ASSERT_NOT" | "AT":
            return set(), True
    return set(_ALL_BYTES), True  # a reference to a group


def _list_bytes(operation: str, value: Any) -> set[int]:
    match operation:
        case "LITERAL":
            return {value}
        case "NOT_LITERAL":
            return {*_ALL_BYTES} - {value}
        case "RANGE":
            return {*range(value[0], value[1] + 1)}
        case "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            pattern = re.compile(_CATEGORIES[name.removeprefix("NOT_")])
            return {
                byte
                for byte in _ALL_BYTES
                if bool(pattern.match(bytes([byte]))) != name.startswith("NOT_")
            }
        case "IN":
            found = {
                byte
                for inner, one in value
                if str(inner) != "NEGATE"
                for byte in _list_bytes(str(inner), one)
            }
            return {*_ALL_BYTES} - found if str(value[0][0]) == "NEGATE" else found
    return {*_ALL_BYTES}


@cache
def read_secret_table() -> SecretTable:
    """Return the rules of `data/redact.toml`."""
    return toml.decode(read_data("redact.toml"), type=SecretTable)


@cache
def read_shapes() -> Shapes:
    """Return the shapes of `data/redact.toml`."""
    return Shapes(read_secret_table().rule)


@cache
def read_lookalike(kind: str) -> re.Pattern[bytes]:
    """Return the expression of values that are not secrets, for one kind of evidence."""
    rows = [row.regex for row in read_secret_table().lookalike if kind in row.kinds]
    return compile_bytes("|".join(rows) or "(?!)", re.IGNORECASE | re.DOTALL)


def compile_bytes(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[bytes]:
    """Return a verbose expression for bytes."""
    return re.compile(pattern.encode(), flags | re.VERBOSE)
