"""Who holds a run: a process that keeps a file locked for as long as it lives.

The system lets go of the lock when the process and its workers have ended, however they ended, and
no process id that was given to another can be taken for it. What another machine holds is told by
its lease alone.
"""

import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from relight.locks import hold

FOLDER = "schedulers"
LEASE_MS = 90_000
HEARTBEAT_MS = 15_000


class Holder:
    """This process as one that runs jobs, known to the others by `name`."""

    def __init__(self, home: Path) -> None:
        self.name = f"{_host()}/{os.getpid()}-{secrets.token_hex(4)}"
        self._path = _find_file(home, self.name)
        self._path.parent.mkdir(exist_ok=True, mode=0o700)
        _sweep(self._path.parent)
        self._file = self._open()

    def _open(self) -> IO[bytes]:
        """The file, locked, and still there: another's sweep may have come in between."""
        while True:
            file = self._path.open("wb")
            if hold(file.fileno(), waits=False):
                with suppress(FileNotFoundError):
                    if self._path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                        return file
            file.close()

    def fileno(self) -> int:
        """The lock: whoever is given it holds it too."""
        return self._file.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink()
        self._file.close()


def is_alive(home: Path, name: str, *, lease_until: int | None, now: int) -> bool:
    """Whether a holder still is at work; of one on this machine the lock tells it for certain."""
    if name.partition("/")[0] == _host() and os.name == "posix":
        try:
            with _find_file(home, name).open("rb+") as file:
                return not hold(file.fileno(), waits=False)
        except FileNotFoundError:
            return False
    return lease_until is not None and lease_until > now


def find_alive(home: Path) -> list[str]:
    """The processes on this machine that run jobs now."""
    names = [path.stem.replace("+", "/") for path in sorted(_find_files(home / FOLDER))]
    return [name for name in names if is_alive(home, name, lease_until=None, now=0)]


def _sweep(folder: Path) -> None:
    """Take away what holders left that died."""
    if os.name == "posix":
        for path in _find_files(folder):
            with suppress(OSError), path.open("rb+") as file:
                if hold(file.fileno(), waits=False):
                    path.unlink()


def _host() -> str:
    return platform.node().replace("/", "-").replace("+", "-") or "unknown"


def _find_file(home: Path, name: str) -> Path:
    return home / FOLDER / f"{name.replace('/', '+')}.lock"


def _find_files(folder: Path) -> list[Path]:
    """The files of this machine's holders: of another's the lock tells nothing here."""
    return [path for path in folder.glob("*.lock") if path.stem.split("+")[0] == _host()]
