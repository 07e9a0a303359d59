"""A job's script: run before the agent, which is told its output, or not woken at all.

Only files in the home's own `scripts` folder are run, whatever a job's text says and wherever a
link points.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.work.processes import run_process

FOLDER = "scripts"
OUTPUT_BYTES = 64 << 10


class ScriptResult(Struct, frozen=True, kw_only=True):
    """What a job's script printed, and how it ended."""

    name: str
    output: str = ""
    errors: str = ""
    exit_code: int = 0
    timed_out: bool = False
    wakes_agent: bool = True

    @property
    def failure(self) -> str | None:
        """Why it failed, in words; None if it did not.

        >>> ScriptResult(name="look.sh", exit_code=3, errors="no disk\\n").failure
        'look.sh ended with exit code 3: no disk'
        """
        if self.timed_out:
            return f"{self.name} took too long and was ended"
        if self.exit_code == 0:
            return None
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        why = f": {lines[-1][:300]}" if lines else ""
        return f"{self.name} ended with exit code {self.exit_code}{why}"


def find_script(home: Path, name: str) -> Path:
    """The script of that name, if it really lies in the home's `scripts` folder."""
    folder = (home / FOLDER).resolve()
    try:
        path = (folder / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        hint = f"put it into {folder}"
        raise RelightError(f"there is no script {name!r}", hint) from error
    if not path.is_relative_to(folder) or path == folder:
        raise RelightError(
            f"the script {name!r} lies outside of {folder}", "copy it there: links are followed"
        )
    if not path.is_file():
        raise RelightError(f"the script {name!r} is no file", f"put one into {folder}")
    return path


def run_script(
    home: Path,
    name: str,
    *,
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> ScriptResult:
    """Run a job's script to its end, or until its time is over; that it fails is a result."""
    path = find_script(home, name)
    try:
        ended = run_process(
            find_interpreter(path),
            folder=folder,
            seconds=seconds,
            environment=environment,
            output_bytes=OUTPUT_BYTES,
        )
    except OSError as error:
        return ScriptResult(name=name, exit_code=126, errors=f"it cannot be run: {error}")
    return ScriptResult(
        name=name,
        output=ended.output,
        errors=ended.errors,
        exit_code=ended.exit_code,
        timed_out=ended.timed_out,
        wakes_agent=read_wake(ended.output),
    )


def find_interpreter(path: Path) -> Sequence[str]:
    """The command that runs a script: itself where it says how, else by the ending of its name."""
    with path.open("rb") as file:
        says_how = file.read(2) == b"#!"
    if os.access(path, os.X_OK) and (says_how or path.suffix not in (".sh", ".bash", ".py")):
        return [str(path)]
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    if path.suffix in (".sh", ".bash"):
        return [shutil.which("bash") or "/bin/sh", str(path)]
    raise RelightError(
        f"nobody knows how to run {path.name}", f"chmod +x {path}, or name it .sh or .py"
    )


def read_wake(output: str) -> bool:
    """Whether the agent is to be woken: a script says no on the last line it prints.

    >>> read_wake('nothing new\\n{"wakeAgent": false}\\n')
    False
    >>> read_wake('{"wakeAgent": false}\\nbut this is new')
    True
    """
    line = output.rstrip().rpartition("\n")[2].strip()
    if not line.startswith("{"):
        return True
    try:
        told = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return not (isinstance(told, dict) and told.get("wakeAgent") is False)
