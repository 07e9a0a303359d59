"""Commands and code, run in processes of their own with limits on time and output."""

import shutil
import sys
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from relight.work.agent.results import Place, Result, tell
from relight.work.processes import Ended, run_process


class Terminal(Struct, frozen=True):
    """Run a shell command in the working folder."""

    command: Annotated[str, Meta(description="the command line, for bash")]
    timeout_seconds: Annotated[float | None, Meta(description="how long it may take")] = None


class ExecuteCode(Struct, frozen=True):
    """Run Python code in a new process in the working folder; print what you want to see."""

    code: Annotated[str, Meta(description="a whole Python program")]
    timeout_seconds: Annotated[float | None, Meta(description="how long it may take")] = None


def run_terminal(arguments: Terminal, place: Place) -> Result:
    shell = shutil.which("bash") or "/bin/sh"
    return _tell(run_limited([shell, "-c", arguments.command], place, arguments.timeout_seconds))


def run_code(arguments: ExecuteCode, place: Place) -> Result:
    command = [sys.executable, "-X", "utf8", "-"]
    return _tell(run_limited(command, place, arguments.timeout_seconds, told=arguments.code))


def _tell(done: Ended) -> Result:
    exit_code = 124 if done.timed_out else done.exit_code
    fields = {
        "output": done.output,
        "exit_code": exit_code,
        "timed_out": done.timed_out,
        "truncated": done.is_cut,
    }
    return tell(fields, exit_code=exit_code, timed_out=done.timed_out)


def run_limited(
    command: Sequence[str], place: Place, seconds: float | None = None, *, told: str | None = None
) -> Ended:
    """Run a command to its end, or end it with all its children when its time is over."""
    return run_process(
        command,
        folder=place.folder,
        seconds=place.limit_seconds(seconds),
        environment=place.environment,
        told=told,
        output_bytes=place.output_bytes,
        joins_errors=True,
        ending_seconds=0,
        ending_by=place.halt.ending_by,
    )
