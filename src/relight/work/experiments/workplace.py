"""The folder of a run: a fresh copy of the task's, so that no arm finds the other's work."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from relight.errors import RelightError
from relight.locks import hold
from relight.work.experiments.plan import TrialTask
from relight.work.processes import ProcessEnd, run_process

COMMAND_SECONDS = 1800.0
PREFIX, LOCK = "relight-experiment-", "held"
# exit codes of a shell for a command that may not be run, or does not exist
NOT_RUN = (126, 127)


@contextmanager
def open_scratch() -> Iterator[Path]:
    """Yield a temporary folder for a run.

    It is locked as long as this process lives, so that the folders of killed ones can be removed.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (left / LOCK).open("rb+") as file:
            if hold(file.fileno(), waits=False):
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        made, new = Path(name), Path(name, f"{LOCK}.new")
        with new.open("wb") as file:
            hold(file.fileno())
            new.replace(made / LOCK)  # the lock is visible only when it is held
            yield made


def make_workplace(task: TrialTask, scratch: Path, *, in_place: bool) -> Path:
    """Return the folder of a run: a copy of the task's, or with `in_place` that one."""
    if in_place:
        return Path(task.workdir or ".").resolve()
    folder = scratch / "copy" / (Path(task.workdir).name if task.workdir else "work")
    if task.workdir is None:
        folder.mkdir(parents=True)
        return folder
    try:
        shutil.copytree(task.workdir, folder, symlinks=True, ignore=_ignore_special)
    except (OSError, shutil.Error) as error:
        raise RelightError(
            f"{task.workdir} cannot be copied: {error}", "or use --in-place"
        ) from error
    return folder


def _ignore_special(folder: str, names: list[str]) -> set[str]:
    """Sockets, pipes and devices, which have no content to copy."""
    return {
        name
        for name in names
        if not (path := Path(folder, name)).is_symlink()
        and not path.is_dir()
        and not path.is_file()
    }


def run_line(
    line: str | list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> ProcessEnd:
    """Run a task's setup or check in the folder: a shell line, or a list of words.

    Raise if it could not be run to its end.
    """
    words = ["/bin/sh", "-c", line] if isinstance(line, str) else line
    try:
        ended = run_process(
            words,
            folder=folder,
            seconds=COMMAND_SECONDS,
            environment=os.environ if environment is None else environment,
        )
    except OSError as error:
        raise RelightError(f"{words[0]} cannot be run: {error.strerror or error}") from error
    if ended.timed_out:
        raise RelightError(f"it took longer than {COMMAND_SECONDS:.0f} seconds")
    if isinstance(line, str) and ended.exit_code in NOT_RUN:
        raise RelightError(f"it cannot be run: {format_end(ended)}")
    return ended


def format_end(ended: ProcessEnd) -> str:
    """Return the exit code of a command, with its last line of output."""
    lines = (ended.errors.strip() or ended.output.strip()).splitlines()
    last = f": {lines[-1].strip()[:300]}" if lines else ""
    return f"exit code {ended.exit_code}{last}"
