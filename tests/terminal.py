"""The real command in a separate process, as a person or a script runs it."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import build
from command_server import can_fork, fork_command

Run = subprocess.CompletedProcess[str]


def run_relight(environment: Mapping[str, str], *words: str, given: str | None = None) -> Run:
    """Run a command in a process that is forked, if an interpreter would start there as here."""
    if can_fork(environment):
        found = fork_command(environment, words, None if given is None else given.encode())
        code, *written = found
        output, errors = (text.decode().replace("\r\n", "\n") for text in written)
        return Run(words, code, output, errors)
    return subprocess.run(
        [sys.executable, "-m", "relight", *words],
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


class Cli:
    """`relight` with a separate home, whose days are UTC."""

    def __init__(self, home: Path) -> None:
        self.home = home
        store = home / "relight"
        store.mkdir()
        (store / "config.toml").write_text('timezone = "UTC"\n')
        own = {"HOME": str(home), "RELIGHT_HOME": str(store), "COLUMNS": "80"}
        self.environment = {**os.environ, **own}
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME"):
            self.environment.pop(name, None)

    def run(self, *words: str, given: str | None = None) -> Run:
        return run_relight(self.environment, *words, given=given)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Screen:
    """A program in a terminal of its own; `shown` is everything that it printed."""

    # makes the terminal the program's own, as a shell's is
    START = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        " os.execvp(sys.argv[1], sys.argv[1:])"
    )

    def __init__(self, words: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.shown = ""
        self.child = subprocess.Popen(
            [sys.executable, "-c", self.START, *words],
            stdin=other,
            stdout=other,
            stderr=other,
            env={"TERM": "xterm-256color", **environment},
            cwd=folder,
        )
        os.close(other)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the program has ended
            while piece := os.read(self._own, 65536):
                self.shown += piece.decode("utf-8", "replace")
                # where the cursor is, which full-screen programs wait for
                for _ in range(piece.count(b"\x1b[6n")):
                    os.write(self._own, b"\x1b[1;1R")

    def press(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def has(self, text: str) -> bool:
        return text in self.shown

    def settle(self, seconds: float = 2.0) -> None:
        """Wait until nothing new is shown for some seconds."""
        seen, since = -1, time.monotonic()
        until = since + 60
        while time.monotonic() < min(since + seconds, until):
            if len(self.shown) != seen:
                seen, since = len(self.shown), time.monotonic()
            time.sleep(0.05)

    def wait_for(self, test: Callable[[], object]) -> None:
        try:
            build.wait_for(test, seconds=60)
        except AssertionError:
            raise AssertionError(self.shown[-3000:]) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.kill()
        self.child.wait()
        self._reader.join(10)
        os.close(self._own)
