"""Relight where the modules and calls of POSIX are missing, as on Windows."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import build
import relight.cli
from relight import locks

SOURCE = Path(relight.cli.__file__).parents[1]
MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
# what neither `os` nor `signal` has on Windows, as far as Python itself does not need it here
OF_OS = """
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC chown ctermid fchmod fchown fork forkpty
    getegid geteuid getgid getgroups getloadavg getpgid getpgrp getsid getuid killpg lchown mkfifo
    mknod nice openpty posix_fadvise pread pwrite register_at_fork sched_getaffinity sendfile
    setpgid setsid setuid statvfs sync ttyname uname wait wait3 wait4
"""
OF_SIGNAL = """
    ITIMER_PROF ITIMER_REAL SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGTSTP
    SIGUSR1 SIGUSR2 SIGWINCH alarm getitimer pause pthread_kill pthread_sigmask setitimer sigwait
"""
START = """
import importlib, os, pkgutil, signal, sys
import relight

def import_all(*without):
    for one in pkgutil.walk_packages(relight.__path__, "relight."):
        if not one.name.endswith("__main__") and one.name not in without:
            importlib.import_module(one.name)

# `auto` hooks itself into the imports of its process, which is for once
import_all("relight.auto")  # Python's and other packages' modules find the system as it is
for name in [one for one in sys.modules if one.partition(".")[0] == "relight"]:
    del sys.modules[name]
import test_systems
test_systems.take_away()
import relight
import_all()
from relight.cli import main
main(sys.argv[1:])
"""


def take_away() -> None:
    """Make this process like one on Windows; its locks are those of `FakeWindows`."""
    import signal

    sys.modules["msvcrt"] = FakeWindows()
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


class FakeWindows(ModuleType):
    """The lock of one byte, which belongs to an open file and ends with it."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        import fcntl

        self._flock, self._how = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB

    def locking(self, file: int, mode: int, count: int) -> None:
        place = os.lseek(file, 0, os.SEEK_CUR)
        assert (mode, count, place) == (self.LK_NBLCK, 1, locks.LOCKED_BYTE)
        try:
            self._flock(file, self._how)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None


def run_without(home: Path, *words: str) -> str:
    environment = {
        "HOME": str(home),
        "RELIGHT_HOME": str(home / "relight"),
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join((str(SOURCE.parent), str(Path(__file__).parent))),
    }
    done = subprocess.run(
        [sys.executable, "-c", START, *words],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_loads_and_sessions_are_read_without_posix(tmp_path: Path) -> None:
    build.open_home(tmp_path).close()
    build.write_claude(tmp_path, build.claude_session())
    assert "1 new" in run_without(tmp_path, "import")
    assert '"turns": ' in run_without(tmp_path, "report", "--since", "all", "--json")


def test_a_lock_of_windows_is_held_until_the_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "msvcrt", FakeWindows())
    monkeypatch.setitem(sys.modules, "fcntl", None)
    path = tmp_path / "lock"
    path.write_bytes(b"content")
    first, second = (os.open(path, os.O_RDWR) for _ in range(2))
    os.lseek(first, 3, os.SEEK_SET)
    assert locks.hold(first)
    assert os.lseek(first, 0, os.SEEK_CUR) == 3
    assert not locks.hold(second, waits=False)
    assert os.read(second, 7) == b"content"
    os.close(first)
    assert locks.hold(second)
    os.close(second)


@pytest.mark.parametrize("is_windows", [False, True])
def test_a_file_that_is_made_held_is_seen_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_windows: bool
) -> None:
    monkeypatch.setattr(locks, "IS_WINDOWS", is_windows)
    path = tmp_path / "backlog"
    file = locks.create_held(path, b"head\n")
    os.write(file, b"more\n")
    assert [one.name for one in tmp_path.iterdir()] == ["backlog"]
    other = os.open(path, os.O_RDWR)
    assert not locks.hold(other, waits=False)
    assert os.read(other, 20) == b"head\nmore\n"
    os.close(file)
    os.close(other)


def test_output_that_is_no_terminal_is_utf_8_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    monkeypatch.setattr(relight.cli, "IS_WINDOWS", True)
    relight.cli.set_up_streams()
    sys.stdout.write("Zażółć 漢字\n")
    sys.stdout.flush()
    assert written.getvalue().decode("utf-8").strip() == "Zażółć 漢字"


OPENED = re.compile(r"(?:\.(?:read|write)_text|\b(?:open|run|Popen|check_output))\(")
IS_TEXT = re.compile(r"""^\.(?:read|write)_text|["'][rwax]\+?["']|\btext=True|universal_newlines""")


def find_unnamed(code: str) -> list[str]:
    """The calls that open a text without the name of its encoding.

    >>> find_unnamed('path.read_text(), path.read_text("utf-8"), path.open("rb"), open(name, "w")')
    ['.read_text()', 'open(name, "w")']
    """
    found = []
    for match in OPENED.finditer(code):
        end, depth = match.end(), 1
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        call = code[match.start() : end]
        if IS_TEXT.search(call) and not re.search(r"encoding|utf-8|closefd|\.json", call):
            found.append(call)
    return found


def test_every_text_is_opened_with_its_encoding() -> None:
    """Windows would take the encoding of its country."""
    code = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert {str(path): calls for path, text in code.items() if (calls := find_unnamed(text))} == {}
