"""Holders of runs: each is a process that keeps a file locked as long as it lives.

The system releases the lock when the process and its workers have ended, however they ended. Unlike
a process id, a lock is never reused. A holder on another machine is known by its lease alone.
"""

import os
import platform
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from relight.locks import hold, make_folder, open_lock

FOLDER = "schedulers"
LEASE_MS = 90_000
HEARTBEAT_MS = 15_000


class Holder:
    """This process as a holder of runs; `name` is its name in the store."""

    def __init__(self, home: Path) -> None:
        self.name = f"{_host()}/{os.getpid()}-{secrets.token_hex(4)}"
        self._path = _find_file(home, self.name)
        make_folder(self._path.parent)
        _sweep(self._path.parent)
        self._file = self._open()

    def _open(self) -> IO[bytes]:
        """The locked file; opened again if another process swept it away meanwhile."""
        while True:
            file = open_lock(self._path)
            if hold(file.fileno(), waits=False):
                with suppress(FileNotFoundError):
                    if self._path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                        return file
            file.close()

    def fileno(self) -> int:
        """The descriptor of the lock; a process that inherits it holds the lock too."""
        return self._file.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink()
        self._file.close()


@contextmanager
def repeat_meanwhile(act: Callable[[threading.Event], object], *, seconds: float) -> Iterator[None]:
    """Call a function every so often in a thread; the event it gets is set when the block ends."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(seconds):
            act(is_over)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def is_alive(home: Path, name: str, *, lease_until: int | None, now: int) -> bool:
    """True if a holder is alive: by its lock on this machine, by its lease on another."""
    if name.partition("/")[0] == _host() and os.name == "posix":
        try:
            with _find_file(home, name).open("rb+") as file:
                return not hold(file.fileno(), waits=False)
        except FileNotFoundError:
            return False
    return lease_until is not None and lease_until > now


def find_alive(home: Path) -> list[str]:
    """The names of the live holders on this machine."""
    names = [path.stem.replace("+", "/") for path in sorted(_find_files(home / FOLDER))]
    return [name for name in names if is_alive(home, name, lease_until=None, now=0)]


def _sweep(folder: Path) -> None:
    """Remove the files of dead holders."""
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
    """The files of this machine's holders; a lock means nothing on another machine."""
    return [path for path in folder.glob("*.lock") if path.stem.split("+")[0] == _host()]
