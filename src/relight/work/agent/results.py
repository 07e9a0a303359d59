"""What a tool gives back, and the folder it works in."""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from relight.errors import RelightError
from relight.models.endpoints import encode

LONGEST_SECONDS = 3600.0


class Result(Struct, frozen=True, kw_only=True):
    """A tool's answer: the text for the model, and what the record should know beside it."""

    text: str
    is_error: bool = False
    exit_code: int | None = None
    timed_out: bool | None = None


class ToolError(Exception):
    """What a tool cannot do, in words the model can act on."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def tell(fields: dict[str, Any], **facts: Any) -> Result:
    """A result as a JSON object, since models and verdicts read fields best."""
    return Result(text=bytes(encode("the result", fields)).decode(), **facts)


def tell_error(message: str, hint: str | None = None) -> Result:
    return tell({"error": message, **({"hint": hint} if hint else {})}, is_error=True)


class Halt:
    """Ends what tools have under way when a run is left, so that nobody waits for it."""

    def __init__(self) -> None:
        self._enders: list[Callable[[], None]] = []
        self._is_over = False
        self._lock = threading.Lock()

    @contextmanager
    def ending_by(self, end: Callable[[], None]) -> Iterator[None]:
        """What is done inside ends when `end` is called."""
        with self._lock:
            self._enders.append(end)
            is_over = self._is_over
        try:
            if is_over:
                end()
            yield
        finally:
            with self._lock:
                self._enders.remove(end)

    def end_all(self) -> None:
        with self._lock:
            self._is_over = True
            enders = list(self._enders)
        for end in enders:
            end()


class Place(Struct, frozen=True):
    """Where tools work, for how long, and how much they may say."""

    folder: Path
    environment: dict[str, str]
    timeout_seconds: float = 120.0
    output_bytes: int = 200_000
    # the moment, by the steady clock, when the whole run must be over
    deadline: float | None = None
    # whether pages may be fetched from this machine and its network
    allows_private: bool = False
    halt: Halt = field(default_factory=Halt)

    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def limit_seconds(self, asked: float | None) -> float:
        """How long something may take: as asked for, and no longer than there is time."""
        limit = self.timeout_seconds if asked is None else asked
        if not math.isfinite(limit) or limit <= 0:
            raise ToolError(f"{limit} is no time that something may take", "give seconds above 0")
        limit = min(limit, LONGEST_SECONDS)
        left = limit if self.deadline is None else self.deadline - time.monotonic()
        return max(min(limit, left), 0.1)

    def resolve(self, name: str) -> Path:
        """The file of that name, which must lie inside the folder wherever links lead."""
        if "\0" in name:
            raise ToolError("a file name cannot hold a NUL")
        path = Path(os.path.realpath(self.folder / name))
        if not path.is_relative_to(self.folder):
            raise ToolError(
                f"{name!r} is outside of the working folder", f"name a file below {self.folder}"
            )
        return path


def find_folder(folder: str | Path) -> Path:
    """The working folder, which must be there."""
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise RelightError(f"there is no folder {path}", "name another with --workdir")
    return path


def make_place(
    folder: str | Path,
    *,
    secret_variables: tuple[str, ...] = (),
    timeout_seconds: float = 120.0,
    deadline: float | None = None,
    allows_private: bool = False,
) -> Place:
    """A folder to work in; commands there do not see the variables that hold keys."""
    environment = {k: v for k, v in os.environ.items() if k not in secret_variables}
    return Place(
        find_folder(folder),
        environment,
        timeout_seconds,
        deadline=deadline,
        allows_private=allows_private,
    )
