"""Files for their owner alone, files that one process at a time holds, objects renewed in forks."""

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol
from weakref import WeakSet

from relight.errors import RelightError, quote_path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
# the last byte that every version of Windows can lock
LOCKED_BYTE = 2**31 - 2
WAIT_SECONDS = 0.05
IS_WINDOWS = os.name == "nt"
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, each for the owner alone.

    `Path.mkdir(parents=True, mode=…)` gives the mode to the last folder only.
    """
    for folder in reversed(list_missing(path) or [path]):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def check_place(home: Path, file: Path) -> None:
    """Raise if others could replace a file of a folder, or if it is a link to another place."""
    if os.name == "posix" and home.stat().st_mode & stat.S_IWOTH:
        raise RelightError(
            f"every user of this machine may write in {home}",
            f"run: chmod go-w {quote_path(home)}",
        )
    if file.is_symlink():
        raise RelightError(
            f"{file} is a link",
            "move the file it leads to here, or name that file's folder with --home",
        )


def list_missing(path: Path) -> list[Path]:
    """Return the folders that `make_folder` would make, the innermost first."""
    return [one for one in (path, *path.parents) if not one.exists()]


def open_private(path: Path, flags: int) -> int:
    """Return the descriptor of a file; if it is missing, make it for the owner alone."""
    # without this flag Windows would write each newline as two bytes
    binary = getattr(os, "O_BINARY", 0)
    return os.open(path, flags | os.O_CREAT | binary, FILE_MODE)


def write_private(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file in one step, so that no reader sees a part of it.

    No other user sees any, unless `mode` lets them: the file has it from the beginning.
    """
    with replace_when_whole(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replace_when_whole(
    path: Path, *, may_exist: bool = True, mode: int | None = None
) -> Iterator[BinaryIO]:
    """Yield a file for the owner alone, which takes the place of `path` when the block ends.

    If the block raises or the process dies, `path` stays as it was. Without `may_exist`, a file
    of that name raises FileExistsError, also if it was made in the meantime.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        with open(open_private(beside, os.O_WRONLY | os.O_EXCL), "wb") as file:
            yield file
        if mode is not None:
            beside.chmod(mode)
        if may_exist or not _claim(path, beside):
            beside.replace(path)
    except BaseException:  # also on Ctrl-C: no partial file is left behind
        beside.unlink(missing_ok=True)
        raise


def _claim(path: Path, beside: Path) -> bool:
    """Give a file a name that nothing has; False if the file system has no links for that."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(path) from None
        return False
    beside.unlink()
    return True


def append_whole(file: int, data: bytes) -> None:
    """Append all of the data or nothing: half a line would spoil the next."""
    size = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def read_secret(path: Path) -> str:
    """Return the secret in a file; raise if other users may read it.

    A secret is no option of the command: every user can read the list of processes.
    """
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise RelightError(f"cannot read the token in {path}: {error}") from error
    if mode & 0o077 and os.name == "posix":
        raise RelightError(f"other users may open {path}", f"run: chmod 600 {quote_path(path)}")
    if not text.strip():
        raise RelightError(f"{path} is empty", "write a long secret into it")
    return text.strip()


def open_lock(path: Path) -> IO[bytes]:
    """Return an open file to hold; nothing is written into it.

    A fork closes it: the lock would outlive this process in it.
    """
    file = os.fdopen(open_private(path, os.O_WRONLY), "wb")
    _locks.add(file)
    return file


def create_held(path: Path, head: bytes = b"") -> int:
    """Return the descriptor of a new file, to append to, that has its name only when it is held.

    Windows renames no open file: there it has its name a moment before.
    """
    new = path if IS_WINDOWS else path.with_name(f"{path.name}.new")
    file = open_private(new, os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    try:
        hold(file)
        while head:
            head = head[os.write(file, head) :]
        if new != path:
            new.replace(path)
    except OSError:
        os.close(file)
        new.unlink(missing_ok=True)
        raise
    return file


def hold(file: int, *, waits: bool = True) -> bool:
    """Lock an open file until it is closed; False if another process has it."""
    try:
        import fcntl
    except ImportError:
        return _hold_byte(file, waits=waits)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _hold_byte(file: int, *, waits: bool) -> bool:
    """Lock as Windows does: a byte, which others cannot read or write, so one behind the content.

    Its own wait ends with an error after ten seconds.
    """
    windows: Any = import_module("msvcrt")
    place = os.lseek(file, 0, os.SEEK_CUR)
    try:
        while True:
            os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
            try:
                windows.locking(file, windows.LK_NBLCK, 1)
            except PermissionError:
                if not waits:
                    return False
                time.sleep(WAIT_SECONDS)
            else:
                return True
    finally:
        os.lseek(file, place, os.SEEK_SET)


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


def expand_path(setting: str, text: str, *, environment: Mapping[str, str] | None = None) -> Path:
    """Return a path with `~`, `$NAME` and `${NAME}` replaced; raise for a variable that is not set.

    >>> expand_path("moa.trace_dir", "$DATA/x", environment={"DATA": "/data"}).as_posix()
    '/data/x'
    """
    known = os.environ if environment is None else environment

    def read_variable(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not known.get(name):
            raise RelightError(
                f"{setting} = {text!r}: the variable {name} is not set",
                f"set {name}, or write the folder without it",
            )
        return known[name]

    return Path(_VARIABLE.sub(read_variable, text)).expanduser()
