"""The errors that Relight reports to a person, and the checks of parameters that raise them."""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = 80
LARGEST = sys.float_info.max
_MENTION = re.compile(r"(?<![\w./-])(?<!-m )relight (?=[a-z\[-])")


class TypedCommand:
    """The command that hints name, as a person typed it, and the folder of its `--home` if any.

    The command line sets both.
    """

    name = "relight"
    home: str | None = None


def name_home(home: "str | Path | None" = None) -> None:
    """Let the commands in hints name this folder, so that they lead to the same store."""
    from pathlib import Path  # slow to load

    TypedCommand.home = quote_path(Path(home).expanduser().absolute()) if home else None


def quote_path(path: "str | Path") -> str:
    """Return a path as one word of a shell's command."""
    from shlex import quote

    return quote(str(path))


def as_typed(text: str) -> str:
    """Return a hint of ours whose commands begin as this program was started, with its `--home`."""
    command = (
        f"{TypedCommand.name} --home {TypedCommand.home}"
        if TypedCommand.home
        else TypedCommand.name
    )
    return _MENTION.sub(lambda _: f"{command} ", text)


class RelightError(Exception):
    """A problem in one sentence, with a hint what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = as_typed(hint) if hint else hint


class ParameterError(RelightError):
    """A bad value of a parameter; `names` are the parameters that the message names."""

    def __init__(self, message: str, hint: str | None = None, *, names: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.names = tuple(names)


class MissingError(RelightError):
    """Something requested by name does not exist."""


class StoreError(RelightError):
    """The database could not be used."""


class UnavailableError(StoreError):
    """The database could not be used, whatever was to be written: it may work later."""


class RefusedValueError(StoreError):
    """The database takes no row with such a value, today or later."""


class DamagedTapeError(StoreError):
    """Records on a tape are not those that were written."""


class RefusedError(RelightError):
    """A job's run was not started, so that nothing was spent."""


class ModelContextError(RefusedError, ValueError):
    """A model's context window is too small for unattended work."""


def refuse(name: str, problem: str, hint: str | None = None) -> ParameterError:
    """Return the error for a bad value of a parameter."""
    return ParameterError(f"{name} {problem}", hint, names=[name])


def check_text(name: str, value: object) -> str:
    """Return text without surrounding space; raise for NUL or half characters.

    >>> check_text("model", " haiku ")
    'haiku'
    """
    if not isinstance(value, str) or not value.strip():
        raise refuse(name, f"must be a text that is not empty, not {describe(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse(
            name, f"must be text that can be written as UTF-8, not {describe(value)}"
        ) from None
    if "\0" in value:
        raise refuse(name, f"must be text without NUL, not {describe(value)}")
    return value.strip()


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise refuse(name, f"cannot be {describe(value)}", f"it is one of {', '.join(choices)}")
    return value


def check_number(
    name: str,
    value: object,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return a number within its limits; raise for infinity or NaN.

    >>> check_number("share", 1, least=0, most=1)
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(name, f"must be a number, not {describe(value)}")
    # compared before conversion: the largest integers do not fit into a float
    is_good = abs(value) <= LARGEST
    is_good = is_good and (least is None or value >= least) and (most is None or value <= most)
    if not is_good or (below is not None and value >= below):
        limits = [
            f"{word} {limit:,}"
            for word, limit in (("at least", least), ("at most", most), ("below", below))
            if limit is not None
        ]
        allowed = " and ".join(limits) or "a finite number"
        raise refuse(name, f"must be {allowed}, not {describe(value)}")
    return float(value)


def check_count(
    name: str,
    value: object,
    *,
    least: int = 0,
    most: int | None = None,
    hint: str | None = None,
) -> int:
    """Return a whole number within its limits."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        why = f"must be a whole number from {least} up, not {describe(value)}"
        raise refuse(name, why, hint)
    if most is not None and value > most:
        raise refuse(name, f"must be {most:,} at most, not {describe(value)}")
    return value


def describe(value: object) -> str:
    """Return a value as an error shows it, shortened.

    >>> describe("yesterday")
    "'yesterday'"
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr must not hide the problem
        text = f"something that cannot be shown ({type(value).__name__})"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
