"""Regular expressions that their first use compiles, and the first bytes of their matches.

To compile one takes a fifth of a millisecond. Modules and tables have hundreds, and most imports
are small and use few. What an import compiles is kept beside Python's own bytecode of this module,
and later processes take it from there. Those who can write there can change the program anyway.

The first two bytes that a match can have come from the expression as Python parses it. What is
too hard to follow (references to groups, most conditions on the text around) counts as possible,
so that nothing is left out.
"""

import re
import sys
from array import array
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, reduce
from importlib import import_module
from importlib.util import cache_from_source
from operator import or_
from pathlib import Path
from typing import Any, AnyStr, TypeAlias, cast

from msgspec import Struct

# Python's own reader and compiler of expressions; type checkers do not know them
_parser: Any = import_module("re._parser")
_compiler: Any = import_module("re._compiler")
_sre: Any = import_module("_sre")
# an expression and its flags, and what Python's compiler makes of them: flags, code, the number of
# groups and their names
_Source: TypeAlias = tuple[str | bytes, int]
_Code: TypeAlias = tuple[int, bytes, int, dict[str, int], tuple[str | None, ...]]
# more are of earlier versions of the tables
MOST_KEPT = 1000

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
        found = getattr(compile_kept(*self._source), name)
        setattr(self, name, found)
        return found


def compile_kept(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an expression, made of the code that an earlier process kept if there is any."""
    source = pattern, int(flags)
    with suppress(AttributeError, TypeError, ValueError, RuntimeError):  # another Python's compiler
        code = _read_kept().get(source)
        if code is None:
            code = _new[source] = _compile(*source)
        numbers = array("I")
        numbers.frombytes(code[1])
        return cast(
            "re.Pattern[AnyStr]", _sre.compile(pattern, code[0], numbers.tolist(), *code[2:])
        )
    return re.compile(pattern, flags)


def _compile(pattern: str | bytes, flags: int) -> _Code:
    parsed = _parser.parse(pattern, flags)
    names = parsed.state.groupdict
    by_number: list[str | None] = [None] * parsed.state.groups
    for name, number in names.items():
        by_number[number] = name
    code = array("I", _compiler._code(parsed, flags)).tobytes()
    return flags | parsed.state.flags, code, parsed.state.groups - 1, names, tuple(by_number)


# what this process has compiled
_new: dict[_Source, _Code] = {}


@cache
def _read_kept() -> dict[_Source, _Code]:
    """Return what earlier processes kept; nothing if there is none or it cannot be read."""
    import marshal

    try:
        found = marshal.loads(find_kept().read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        found = None
    return found if isinstance(found, dict) else {}


def find_kept() -> Path:
    """The file beside Python's bytecode for code of this very compiler."""
    return Path(cache_from_source(__file__)).with_suffix(f".{_sre.MAGIC}.expressions")


def keep_compiled() -> None:
    """Keep what this process has compiled for later ones, where Python may keep its bytecode."""
    if not _new or sys.dont_write_bytecode:
        return
    import marshal

    from relight.locks import write_private

    _read_kept.cache_clear()  # a process beside this one may have kept more
    kept = {**_read_kept(), **_new}
    some = kept if len(kept) <= MOST_KEPT else _new
    # a file that others may write, as some umasks have it, would let them choose what is a secret
    with suppress(OSError, NotImplementedError):
        write_private(find_kept(), marshal.dumps(some))
    _new.clear()


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
