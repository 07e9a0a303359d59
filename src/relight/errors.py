"""The errors that Relight reports to a person, and the command that their hints name."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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
