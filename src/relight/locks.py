"""Files for their owner alone, files that one process at a time holds, objects renewed in forks."""

import os
from pathlib import Path
from typing import IO, Protocol
from weakref import WeakSet

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, each for the owner alone.

    `Path.mkdir(parents=True, mode=…)` gives the mode to the last folder only.
    """
    missing = [path]
    while not (parent := missing[-1].parent).exists():
        missing.append(parent)
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_private(path: Path, flags: int) -> int:
    """Return the descriptor of a file; if it is missing, make it for the owner alone."""
    return os.open(path, flags | os.O_CREAT, FILE_MODE)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that no reader sees a part of it or another user any."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        with open(open_private(beside, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(data)
        beside.replace(path)
    except BaseException:  # also on Ctrl-C: no partial file is left behind
        beside.unlink(missing_ok=True)
        raise


def open_lock(path: Path) -> IO[bytes]:
    """Return an open file to hold; nothing is written into it.

    A fork closes it: the lock would outlive this process in it.
    """
    file = os.fdopen(open_private(path, os.O_WRONLY), "wb")
    _locks.add(file)
    return file


def hold(file: int, *, waits: bool = True) -> bool:
    """Lock an open file until it is closed; False if another process has it.

    Windows has no such locks: there it always returns True, and the caller does without.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


class Renewable(Protocol):
    """An object with a lock or a connection that a fork must not share with its parent."""

    def renew(self) -> None: ...


_renewable: WeakSet[Renewable] = WeakSet()
_locks: WeakSet[IO[bytes]] = WeakSet()


def renew_in_forks(thing: Renewable) -> None:
    """Renew this object in each process that is forked off this one."""
    _renewable.add(thing)


def _renew_all() -> None:
    for thing in list(_renewable):
        thing.renew()
    for file in list(_locks):
        file.close()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_renew_all)
