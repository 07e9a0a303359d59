"""The context that tools run in, their results and errors."""

import math
import os
import re
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from relight.errors import RelightError
from relight.models.endpoints import encode_json
from relight.work.processes import ProcessEnd, run_process

LONGEST_SECONDS = 3600.0
# variables of such names are not passed to the commands of an agent
SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASS", re.IGNORECASE)


class ToolResult(Struct, frozen=True, kw_only=True):
    """A tool's result: the text for the model, and the facts for the record."""

    text: str
    is_error: bool = False
    exit_code: int | None = None
    timed_out: bool | None = None


class ToolError(Exception):
    """A tool's failure, in words that the model can act on."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def make_result(fields: dict[str, Any], **facts: Any) -> ToolResult:
    """Return a result whose text is a JSON object, since models and verdicts read fields best."""
    return ToolResult(text=bytes(encode_json("the result", fields)).decode(), **facts)


def fit_json(text: str, limit: int) -> str:
    """Return the longest beginning of a text that takes at most `limit` bytes in JSON.

    A control character takes six: a page of NULs would become six times as long.
    """

    def measure(length: int) -> int:
        return len(bytes(encode_json("the result", text[:length]))) - 2  # without its quotes

    if 6 * len(text) <= limit or measure(len(text)) <= limit:
        return text
    return text[: bisect_right(range(min(len(text), limit)), limit, key=measure) - 1]


def make_error_result(message: str, hint: str | None = None) -> ToolResult:
    """Return a result that reports an error to the model."""
    return make_result({"error": message, **({"hint": hint} if hint else {})}, is_error=True)


class Halt:
    """Ends running tools when a run ends, so that nothing waits for them."""

    def __init__(self) -> None:
        self._enders: list[Callable[[], None]] = []
        self.is_over = False
        self._lock = threading.Lock()

    @contextmanager
    def ending_by(self, end: Callable[[], None]) -> Iterator[None]:
        """A block of work that calling `end` ends."""
        with self._lock:
            self._enders.append(end)
            is_over = self.is_over
        try:
            if is_over:
                end()
            yield
        finally:
            with self._lock:
                self._enders.remove(end)

    def end_all(self) -> None:
        with self._lock:
            self.is_over = True
            enders = list(self._enders)
        for end in enders:
            end()


class ToolContext(Struct, frozen=True):
    """The tools' folder, and their limits of time and output."""

    folder: Path
    environment: dict[str, str]
    timeout_seconds: float = 120.0
    output_bytes: int = 200_000
    # when the whole run must end, by the monotonic clock
    deadline: float | None = None
    # whether pages may be fetched from this machine and its network
    allows_private: bool = False
    halt: Halt = field(default_factory=Halt)

    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def check_time(self) -> None:
        """Raise ToolError if the run has ended or its time is over."""
        if self.halt.is_over or self.is_late():
            raise ToolError("the time of the run is over")

    def limit_seconds(self, requested: float | None) -> float:
        """Return the time limit: as requested, at most what is left of the run."""
        limit = self.timeout_seconds if requested is None else requested
        if not math.isfinite(limit) or limit <= 0:
            raise ToolError(f"the time limit must be a number of seconds above 0, got {limit}")
        limit = min(limit, LONGEST_SECONDS)
        left = limit if self.deadline is None else self.deadline - time.monotonic()
        return max(min(limit, left), 0.1)

    def resolve(self, name: str) -> Path:
        """Return the path of a file, which must lie inside the folder after following links."""
        if "\0" in name:
            raise ToolError("a file name cannot contain NUL")
        path = Path(os.path.realpath(self.folder / name))
        if not path.is_relative_to(self.folder):
            raise ToolError(
                f"{name!r} is outside the working folder", f"name a file inside {self.folder}"
            )
        return path


def find_workdir(folder: str | Path) -> Path:
    """Return the working folder; raise if it does not exist."""
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise RelightError(f"there is no folder {path}", "name another with --workdir")
    return path


def choose_environment(
    *, secret_variables: Sequence[str], pass_variables: Sequence[str]
) -> dict[str, str]:
    """Return the environment of an agent's commands.

    It has no variable that is named like a secret, except `pass_variables`. The keys of the run's
    own models, `secret_variables`, are never passed.
    """
    for name in pass_variables:
        if name in secret_variables:
            raise RelightError(
                f"{name} holds the key of the run's own model", "commands get another variable"
            )
        if name not in os.environ:
            raise RelightError(f"the variable {name} is not set", f"export {name}=… before the run")
    return {
        name: value
        for name, value in os.environ.items()
        if name in pass_variables or (name not in secret_variables and not SECRET_NAME.search(name))
    }


def make_context(
    folder: str | Path,
    *,
    secret_variables: Sequence[str] = (),
    pass_variables: Sequence[str] = (),
    timeout_seconds: float = 120.0,
    deadline: float | None = None,
    allows_private: bool = False,
) -> ToolContext:
    """Return the context of a folder."""
    return ToolContext(
        find_workdir(folder),
        choose_environment(secret_variables=secret_variables, pass_variables=pass_variables),
        timeout_seconds,
        deadline=deadline,
        allows_private=allows_private,
    )


def run_limited(
    command: Sequence[str],
    context: ToolContext,
    seconds: float | None = None,
    *,
    standard_input: str | None = None,
) -> ProcessEnd:
    """Run a command to its end, or end it with all its children when its time is over."""
    return run_process(
        command,
        folder=context.folder,
        seconds=context.limit_seconds(seconds),
        environment=context.environment,
        standard_input=standard_input,
        output_bytes=context.output_bytes,
        joins_errors=True,
        ending_seconds=0,
        ending_by=context.halt.ending_by,
    )
