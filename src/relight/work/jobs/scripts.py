"""A job's script: runs before the agent, and gives it its output or skips it.

Only files in the home's `scripts` folder run; a link must not lead out of it.
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
    """Output and end of a job's script."""

    name: str
    output: str = ""
    errors: str = ""
    exit_code: int = 0
    timed_out: bool = False
    wakes_agent: bool = True

    @property
    def failure(self) -> str | None:
        """The reason of its failure; None if it succeeded.

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
    """Return the script of that name; raise if it is not in the home's `scripts` folder."""
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
        raise RelightError(f"the script {name!r} is not a file", f"put one into {folder}")
    return path


def run_script(
    home: Path,
    name: str,
    *,
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> ScriptResult:
    """Run a job's script to its end or time limit; a failure is a result."""
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
    """The command that runs a script: the script itself, or an interpreter by its suffix."""
    with path.open("rb") as file:
        has_shebang = file.read(2) == b"#!"
    if os.access(path, os.X_OK) and (has_shebang or path.suffix not in (".sh", ".bash", ".py")):
        return [str(path)]
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    if path.suffix in (".sh", ".bash"):
        return [shutil.which("bash") or "/bin/sh", str(path)]
    raise RelightError(
        f"there is no known way to run {path.name}", f"chmod +x {path}, or name it .sh or .py"
    )


def read_wake(output: str) -> bool:
    """False if the last line of a script's output says that the agent is not needed.

    >>> read_wake('nothing new\\n{"wakeAgent": false}\\n')
    False
    >>> read_wake('{"wakeAgent": false}\\nbut this is new')
    True
    """
    line = output.rstrip().rpartition("\n")[2].strip()
    if not line.startswith("{"):
        return True
    try:
        said = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return not (isinstance(said, dict) and said.get("wakeAgent") is False)
