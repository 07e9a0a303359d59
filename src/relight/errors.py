"""The errors that Relight reports to a person, and the command that their hints name."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

TYPED = "RELIGHT_COMMAND"  # `./dev` sets it
_MENTION = re.compile(r"(?<![\w./-])(?<!-m )relight (?=[a-z\[-])")


@cache
def find_command() -> str:
    """Return the command that started this program, as it was typed: `relight`, `./dev run` …"""
    if typed := os.environ.get(TYPED):
        return typed
    script = Path(sys.argv[0] if sys.argv else "")
    if script.parts[-2:] == ("relight", "__main__.py"):
        return f"{shlex.quote(sys.orig_argv[0])} -m relight"
    if script.name == "relight" and shutil.which("relight") != str(script.absolute()):
        return shlex.quote(sys.argv[0])
    return "relight"


class _Named:
    """The folder that `--home` names; None if hints need not name it."""

    home: str | None = None


def name_home(home: str | Path | None = None) -> None:
    """Let the commands in hints name this folder, so that they lead to the same store."""
    _Named.home = shlex.quote(str(Path(home).expanduser().absolute())) if home else None


def as_typed(text: str) -> str:
    """Return a hint of ours whose commands begin as this program was started, with its `--home`."""
    command = f"{find_command()} --home {_Named.home}" if _Named.home else find_command()
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
