"""What a tool gives back, and the folder it works in."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

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
    return Result(text=msgspec.json.encode(fields).decode(), **facts)


def tell_error(message: str, hint: str | None = None) -> Result:
    return tell({"error": message, **({"hint": hint} if hint else {})}, is_error=True)


class Place(Struct, frozen=True):
    """Where tools work, for how long, and how much they may say."""

    folder: Path
    environment: dict[str, str]
    timeout_seconds: float = 120.0
    output_bytes: int = 200_000
    # the moment, by the steady clock, when the whole run must be over
    deadline: float | None = None

    def limit_seconds(self, asked: float | None) -> float:
        """How long something may take: as asked for, and no longer than there is time."""
        limit = min(max(asked or self.timeout_seconds, 0.1), LONGEST_SECONDS)
        left = limit if self.deadline is None else self.deadline - time.monotonic()
        return max(min(limit, left), 0.1)

    def resolve(self, name: str) -> Path:
        """The file of that name, which must lie inside the folder wherever links lead."""
        if "\0" in name:
            raise ToolError("a file name cannot hold a NUL")
        root = self.folder
        path = Path(os.path.realpath(root / name))
        if path != root and root not in path.parents:
            raise ToolError(
                f"{name!r} is outside of the working folder", f"name a file below {root}"
            )
        return path


def make_place(
    folder: str | Path,
    *,
    secret_variables: tuple[str, ...] = (),
    timeout_seconds: float = 120.0,
    run_seconds: float | None = None,
) -> Place:
    """A folder to work in; commands there do not see the variables that hold keys."""
    environment = {k: v for k, v in os.environ.items() if k not in secret_variables}
    return Place(
        Path(folder).expanduser().resolve(),
        environment,
        timeout_seconds,
        deadline=None if run_seconds is None else time.monotonic() + run_seconds,
    )
