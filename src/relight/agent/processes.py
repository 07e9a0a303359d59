"""Commands and code, run in processes of their own with limits on time and output."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Annotated

from msgspec import Meta, Struct

from relight.agent.results import Place, Result, tell

LINGER_SECONDS = 0.3


class Terminal(Struct, frozen=True):
    """Run a shell command in the working folder."""

    command: Annotated[str, Meta(description="the command line, for bash")]
    timeout_seconds: Annotated[float | None, Meta(description="how long it may take")] = None


class ExecuteCode(Struct, frozen=True):
    """Run Python code in a new process in the working folder; print what you want to see."""

    code: Annotated[str, Meta(description="a whole Python program")]
    timeout_seconds: Annotated[float | None, Meta(description="how long it may take")] = None


class Finished(Struct, frozen=True):
    """What a process printed, and how it ended."""

    output: str
    exit_code: int
    timed_out: bool
    truncated: bool


def run_terminal(arguments: Terminal, place: Place) -> Result:
    shell = shutil.which("bash") or "/bin/sh"
    return _tell(run_limited([shell, "-c", arguments.command], place, arguments.timeout_seconds))


def run_code(arguments: ExecuteCode, place: Place) -> Result:
    command = [sys.executable, "-X", "utf8", "-"]
    return _tell(run_limited(command, place, arguments.timeout_seconds, told=arguments.code))


def _tell(done: Finished) -> Result:
    fields = {
        "output": done.output,
        "exit_code": done.exit_code,
        "timed_out": done.timed_out,
        "truncated": done.truncated,
    }
    return tell(fields, exit_code=done.exit_code, timed_out=done.timed_out)


def run_limited(
    command: Sequence[str], place: Place, seconds: float | None = None, *, told: str = ""
) -> Finished:
    """Run a command to its end, or end it with all its children when its time is over.

    A child that goes on in the background does not hold up the result, and is ended too.
    """
    limit = place.limit_seconds(seconds)
    child = subprocess.Popen(
        command,
        cwd=place.folder,
        env=place.environment,
        stdin=subprocess.PIPE if told else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = _Output(place.output_bytes)
    assert child.stdout is not None
    reader = threading.Thread(target=output.read, args=(child.stdout,), daemon=True)
    reader.start()
    deadline = time.monotonic() + limit
    timed_out = False
    if child.stdin is not None:
        threading.Thread(target=_feed, args=(child.stdin, told), daemon=True).start()
    try:
        child.wait(max(deadline - time.monotonic(), 0))
        reader.join(LINGER_SECONDS)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _end_group(child)
        reader.join(LINGER_SECONDS)
        child.stdout.close() if not reader.is_alive() else None
    return Finished(output.text(), 124 if timed_out else child.returncode, timed_out, output.is_cut)


def _feed(stream: IO[bytes], text: str) -> None:
    with suppress(OSError), stream:
        stream.write(text.encode("utf-8", "replace"))


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:  # pragma: no cover - Windows has no groups of this kind
            child.kill()
    child.wait()


class _Output:
    """The first and the last of what comes, however much it is."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = b""
        self._tail = b""
        self._size = 0

    def read(self, stream: IO[bytes]) -> None:
        with suppress(OSError, ValueError):
            while piece := os.read(stream.fileno(), 65536):
                self._size += len(piece)
                room = self._half - len(self._head)
                self._head += piece[:room]
                self._tail = (self._tail + piece[room:])[-self._half :]

    @property
    def is_cut(self) -> bool:
        return self._size > len(self._head) + len(self._tail)

    def text(self) -> str:
        note = f"\n… [truncated, {self._size} bytes total]\n".encode() if self.is_cut else b""
        return (self._head + note + self._tail).decode("utf-8", "replace")
