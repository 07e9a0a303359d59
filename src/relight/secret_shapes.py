"""The shapes of secrets, from `data/redact.toml`, and the places in a text where one may be.

A row has expressions for the text that a secret begins with (`prefixes`) or that stands before it
(`near`). One scan for all of them names the places; the rest of a row is tried only there. A place
counts only if the rest can begin with the next two bytes: `token` stands in every count of tokens,
and only an `s` follows it there.
Hyperscan scans in one pass, however many rows there are. Where it is not installed, Python's own
expressions name the same places.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.data import read_data, read_table
from relight.expressions import ANYTHING, Beginnings, compile_kept, read_beginnings
from relight.locks import write_private
from relight.names import blake2b

# Python's own reader of expressions; type checkers do not know it
_parser: Any = import_module("re._parser")

# Where a word begins, in text that may be escaped: the `n` of `\n` is not part of the word
# after it, nor are the digits of `\u001b`, `%3D` and of a terminal's `[32m`. After a lone backslash
# no word begins: the `r` of `\r8_` belongs to the escape. After an underscore, a hyphen or a plus
# one may begin, if a name precedes it.
_START = r"""(?: (?<![A-Za-z0-9\\]) | (?<=\\[nrtbf]) | (?<=\\u[0-9a-fA-F]{4})
               | (?<=%[0-9a-fA-F]{2}) | (?<=[\[;][0-9]m) | (?<=[\[;][0-9]{2}m) )"""


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
    def beginnings(self) -> Beginnings:
        """The first bytes after a place.

        For prefixes they are not looked at: these are rare in clean text, and it takes time.
        """
        if self.prefixes:
            return ANYTHING
        found = read_beginnings(self.after.encode())
        return found.ignore_case() if self.any_case else found

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

    Hyperscan looks at two bytes after a place that rules share, a common word such as `token`: it
    is much faster than a call of Python. For the others, rare words, that would take longer to
    compile and save next to nothing.
    """

    place: str
    any_case: bool
    shapes: list[SecretShape]

    @cached_property
    def _beginnings(self) -> Beginnings:
        return reduce(or_, (shape.rule.beginnings for shape in self.shapes))

    @cached_property
    def more(self) -> int:
        """The number of bytes after the place that are part of the expression."""
        return 2 if len(self.shapes) > 1 and self._beginnings.is_certain else 0

    @cached_property
    def _fitting(self) -> dict[bytes, list[int]]:
        return {}

    def find_fitting(self, begins: bytes) -> list[int]:
        """Return the numbers of the shapes that can go on with these two bytes."""
        if (found := self._fitting.get(begins)) is None:
            found = [one.number for one in self.shapes if one.rule.beginnings.fit(begins)]
            self._fitting[begins] = found
        return found

    @property
    def expression(self) -> bytes:
        after = self._beginnings.write_expression() if self.more else ""
        return f"(?:{self.place}){after}".encode()


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
            place = end - group.more
            for shape in group.find_fitting(data[place : place + 2]):
                found.add((place, shape))
        return sorted(found), is_disguised

    @cached_property
    def _disguises(self) -> list[re.Pattern[bytes]]:
        return [compile_kept(one) for one in DISGUISES]

    @cached_property
    def _groups(self) -> list[PlaceGroup]:
        """The shapes by place and whether its case matters."""
        found: dict[tuple[str, bool], list[SecretShape]] = {}
        for shape in self.all:
            found.setdefault((shape.place, shape.rule.any_case), []).append(shape)
        return [PlaceGroup(*key, shapes) for key, shapes in found.items()]

    def load_scan(self, path: Path) -> bool:
        """Take the compiled scan from a file; False if it must be compiled.

        To compile takes 60 ms of CPU, which a small import would feel. A file of another version
        of the table or of this code is not taken, nor is one that Hyperscan refuses: it is for
        another version of it, or another processor.
        """
        try:
            import hyperscan

            version = _name_version()
        except (ImportError, OSError):
            return True
        with suppress(OSError, hyperscan.error):
            data = path.read_bytes()
            if data.startswith(version):
                block = hyperscan.HS_MODE_BLOCK
                self._compiled = hyperscan.loadb(data.removeprefix(version), mode=block)
                return True
        return False

    def start_scan(self, path: Path) -> threading.Thread:
        """Begin to compile the scan into a file, in a thread that leaves Python to others."""

        def compile_and_write() -> None:
            import hyperscan

            with suppress(OSError):
                write_private(path, _name_version() + hyperscan.dumpb(self._compiled))

        assert self._expressions
        thread = threading.Thread(target=compile_and_write)
        thread.start()
        return thread

    @cached_property
    def _expressions(self) -> list[bytes]:
        return [*(group.expression for group in self._groups), *DISGUISES]

    @cached_property
    def _compiled(self) -> Any:
        """Hyperscan's database of all places and disguises."""
        import hyperscan

        flags = [hyperscan.HS_FLAG_CASELESS if one.any_case else 0 for one in self._groups]
        flags += [hyperscan.HS_FLAG_SINGLEMATCH for _ in DISGUISES]
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=self._expressions,
            ids=list(range(len(self._expressions))),
            elements=len(self._expressions),
            flags=flags,
        )
        return database

    @cached_property
    def _fast(self) -> Callable[[bytes, Any], object] | None:
        """Hyperscan's scan for all places and disguises; None where it is not installed."""
        try:
            import hyperscan
        except ImportError:
            return None
        database = self._compiled
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
                        if self.all[number].rule.beginnings.fit(data[end : end + 2]):
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


def _name_version() -> bytes:
    """A hash of everything that the expressions of the scan come from."""
    modules = [sys.modules[name] for name in (__name__, Beginnings.__module__)]
    code = [Path(module.__file__ or "").read_bytes() for module in modules]
    words = [sys.version.encode(), read_data("redact.toml").encode(), *code]
    return blake2b(b"\0".join(words), digest_size=16).digest()


@cache
def read_secret_table() -> SecretTable:
    """Return the rules of `data/redact.toml`."""
    return read_table("redact.toml", SecretTable)


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
    return compile_kept(pattern.encode(), flags | re.VERBOSE)
