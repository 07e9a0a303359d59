"""Regular expressions that their first use compiles, and the first bytes of their matches.

To compile one takes a tenth of a millisecond. Modules and tables have hundreds, and most imports
are small and use few.

The first two bytes that a match can have come from the expression as Python parses it. What is
too hard to follow (references to groups, most conditions on the text around) counts as possible,
so that nothing is left out.
"""

import re
from collections.abc import Iterable
from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import Any, AnyStr, cast

from msgspec import Struct

# Python's own reader of expressions; type checkers do not know it
_parser: Any = import_module("re._parser")

_CATEGORIES = {"DIGIT": rb"\d", "SPACE": rb"\s", "WORD": rb"\w"}
_ALL = (1 << 256) - 1
_CAPITALS = sum(1 << byte for byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SMALL = _CAPITALS << 32


def compile_later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an expression that the first use of one of its methods compiles; a faulty one raises.

    >>> compile_later("a+").findall("aaba")
    ['aa', 'a']
    """
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))


class _Later:
    """An expression; its methods become attributes once used, and are found without a step more."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # no public name of an expression does
            raise AttributeError(name)
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)
        return found


class Beginnings(Struct, frozen=True):
    """The possible first two bytes of a match.

    A set of bytes is an integer: bit N stands for byte N.
    `pairs` are sets of first and of second bytes. `single` are the bytes that can be a whole match.
    """

    pairs: frozenset[tuple[int, int]] = frozenset()
    single: int = 0
    can_be_empty: bool = False

    @property
    def is_certain(self) -> bool:
        """True if every match has two bytes at least."""
        return not self.single and not self.can_be_empty

    def fit(self, text: bytes) -> bool:
        """True if a match can begin with these bytes; fewer than two fit a match of that length."""
        if not self.is_certain:
            return True
        return len(text) > 1 and any(
            first >> text[0] & 1 and second >> text[1] & 1 for first, second in self.pairs
        )

    def __or__(self, other: "Beginnings") -> "Beginnings":
        can_be_empty = self.can_be_empty or other.can_be_empty
        return Beginnings(self.pairs | other.pairs, self.single | other.single, can_be_empty)

    def __add__(self, other: "Beginnings") -> "Beginnings":
        """Return the beginnings of this expression followed by the other."""
        pairs = self.pairs
        if self.single and other._first:
            pairs |= {(self.single, other._first)}
        found = Beginnings(pairs, self.single if other.can_be_empty else 0)
        return found | other if self.can_be_empty else found

    def ignore_case(self) -> "Beginnings":
        """Return these with each letter in both cases."""
        pairs = frozenset((_add_case(first), _add_case(second)) for first, second in self.pairs)
        return Beginnings(pairs, _add_case(self.single), self.can_be_empty)

    def write_expression(self) -> str:
        """Return the first two bytes as an expression."""
        both = (_write_class(first) + _write_class(second) for first, second in sorted(self.pairs))
        return f"(?:{'|'.join(both)})"

    @property
    def _first(self) -> int:
        return reduce(or_, (first for first, _ in self.pairs), self.single)


_NOTHING = Beginnings(can_be_empty=True)
ANYTHING = Beginnings(frozenset({(_ALL, _ALL)}), _ALL, can_be_empty=True)


def read_beginnings(expression: bytes) -> Beginnings:
    r"""Return the beginnings of a verbose expression.

    >>> found = read_beginnings(rb"s?(?: = | :[ ])[xy]")
    >>> print(found.write_expression())
    (?:[\x3a][\x20]|[\x3d][\x78\x79]|[\x73][\x3a\x3d])
    >>> found.fit(b"=x"), found.fit(b"==")
    (True, False)
    """
    return _read(_parser.parse(expression, re.VERBOSE))


def _read(parsed: Iterable[tuple[Any, Any]]) -> Beginnings:
    found = _NOTHING
    for operation, value in parsed:
        found += _read_part(str(operation), value)
        if found.is_certain:
            break
    return found


def _read_part(operation: str, value: Any) -> Beginnings:
    match operation:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            return Beginnings(single=_find_bytes(operation, value))
        case "BRANCH":
            found = _read(value[1][0])
            for one in value[1][1:]:
                found |= _read(one)
            return found
        case "SUBPATTERN":
            return _read(value[-1])
        case "ATOMIC_GROUP":
            return _read(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            once = _read(inner)
            found = once if most < 2 else once + once if least > 1 else once | (once + once)
            return found if least else found | _NOTHING
        case "ASSERT":
            # the text after a place begins as it must; one byte of it would be counted twice
            ahead = _read(value[1]) if value[0] > 0 else _NOTHING
            return ahead if ahead.is_certain else _NOTHING
        case "ASSERT_NOT" | "AT":
            return _NOTHING
    return ANYTHING  # a reference to a group


def _find_bytes(operation: str, value: Any) -> int:
    match operation:
        case "LITERAL":
            return 1 << int(value)
        case "NOT_LITERAL":
            return _ALL & ~(1 << int(value))
        case "RANGE":
            return (1 << int(value[1]) + 1) - (1 << int(value[0]))
        case "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            pattern = re.compile(_CATEGORIES[name.removeprefix("NOT_")])
            found = sum(1 << byte for byte in range(256) if pattern.match(bytes([byte])))
            return _ALL & ~found if name.startswith("NOT_") else found
        case "IN":
            found = 0
            for inner, one in value:
                found |= _find_bytes(str(inner), one) if str(inner) != "NEGATE" else 0
            return _ALL & ~found if str(value[0][0]) == "NEGATE" else found
    return _ALL


def _add_case(found: int) -> int:
    """The set with each letter in both cases."""
    return found | (found & _CAPITALS) << 32 | (found & _SMALL) >> 32


@cache
def _write_class(found: int) -> str:
    return "[" + "".join(f"\\x{byte:02x}" for byte in range(256) if found >> byte & 1) + "]"
