"""Programs with limits on time and output, ended together with all their children.

Each program leads a new process group. At its time limit it gets SIGTERM, so that an agent can save
its record and end its tools. After a moment the rest is killed, including children that moved to
other groups. A program that ended by itself leaves nothing behind either: children that left both
its group and their parents carry its mark in their environment. Where a process owns all of its
children (`own_children`), even those are found that have dropped the mark.
"""

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO

from msgspec import Struct

from relight.work.kernel import adopt_orphans

LINGER_SECONDS = 0.3
# how often a watched program is looked at: more rarely if a look takes long
LOOK_SECONDS = (1.0, 2.0)
LOOK_SHARE = 0.05
ENDING_SECONDS = 2.0
OUTPUT_BYTES = 4 << 20
# the variables that name the run and the home of a process
MARKS = ("RELIGHT_HOME", "RELIGHT_RUN_ID")
# the variable that names the programs that a process descends from, the innermost last
COMMANDS = "RELIGHT_COMMANDS"
# how often strays are looked for: each may have started another meanwhile
ROUNDS, ROUND_SECONDS = 50, 0.02
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


_lock = threading.Lock()
_running = 0
_owns_children = False


def own_children() -> None:
    """Declare that all children of this process are programs of `run_process`, and adopt orphans.

    When the last program has ended, whatever this process still has for children is killed.
    """
    global _owns_children
    _owns_children = adopt_orphans()


class ProcessEnd(Struct, frozen=True, kw_only=True):
    """Output and end of a program."""

    output: str
    errors: str
    exit_code: int
    timed_out: bool
    # the output was too long, and its middle is left out
    is_cut: bool
    seconds: float
    # its watch ended it
    is_stopped: bool = False


def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    standard_input: str | None = None,
    output_bytes: int = OUTPUT_BYTES,
    joins_errors: bool = False,
    ending_seconds: float = ENDING_SECONDS,
    ending_by: Callable[[Callable[[], None]], AbstractContextManager[object]] = nullcontext,
    watch: Callable[[Callable[[], str]], bool] | None = None,
) -> ProcessEnd:
    """Run a program to its end; end it at its time limit or if this thread is interrupted.

    With `joins_errors` its errors are part of its output. Processes that it leaves in the
    background do not delay the result, and are ended too. `ending_by` gets a function that another
    thread may call to end the program. `watch` is called every second or two with a function that
    returns the output so far; if it returns True, the program is ended as at its time limit. A
    missing program raises OSError.
    """
    started = time.monotonic()
    child: subprocess.Popen[bytes] | None = None
    streams: list[_Stream] = []
    exit_code, timed_out, is_stopped = 0, False, False
    mark = secrets.token_hex(8)
    inherited = os.environ if environment is None else environment
    _count_start()
    try:
        with _undisturbed():
            child = subprocess.Popen(
                list(command),
                cwd=folder,
                env={**inherited, COMMANDS: f"{inherited.get(COMMANDS, '')}/{mark}"},
                stdin=subprocess.DEVNULL if standard_input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if joins_errors else subprocess.PIPE,
                start_new_session=True,
            )
            streams = [_Stream(one, output_bytes) for one in (child.stdout, child.stderr) if one]
        if child.stdin is not None:
            threading.Thread(target=_feed, args=(child.stdin, standard_input), daemon=True).start()
        with ending_by(partial(_kill_family, child.pid)):
            is_stopped = _wait(child, max(seconds, 0), watch and partial(watch, streams[0].text))
        streams[0].linger()
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        if child is not None:
            exit_code = _end(child, ending_seconds=ending_seconds)
            # the processes that descend from this program
            kill_while_found(partial(_find_by_environment, lambda found: mark.encode() in found))
        _count_end()
        for one in streams:
            one.close()
    return ProcessEnd(
        output=streams[0].text(),
        errors="".join(one.text() for one in streams[1:]),
        exit_code=exit_code,
        timed_out=timed_out,
        is_cut=any(one.is_cut for one in streams),
        seconds=time.monotonic() - started,
        is_stopped=is_stopped,
    )


def _wait(
    child: "subprocess.Popen[bytes]", seconds: float, is_over: Callable[[], bool] | None
) -> bool:
    """Wait until the program has ended; True if it must be ended, as `is_over` says."""
    end, pause = time.monotonic() + seconds, LOOK_SECONDS[0]
    while is_over is not None and end - time.monotonic() > pause:
        with suppress(subprocess.TimeoutExpired):
            child.wait(pause)
            return False
        began = time.monotonic()
        if is_over():
            return True
        pause = min(max((time.monotonic() - began) / LOOK_SHARE, LOOK_SECONDS[0]), LOOK_SECONDS[1])
    child.wait(max(end - time.monotonic(), 0))
    return False


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay signals: an interrupt between start and wait would leave the program running."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
        # ignored signals stay ignored, since the program inherits them
        before = {one: signal.signal(one, handle) for one, now in handlers.items() if callable(now)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in received:
            signal.raise_signal(one)


def _feed(stream: IO[bytes], text: str) -> None:
    with suppress(OSError), stream:
        stream.write(text.encode("utf-8", "replace"))


def _count_start() -> None:
    global _running
    with _lock:
        _running += 1


def _count_end() -> None:
    """Kill every child that is left, if this process owns them and no other program runs."""
    global _running
    with _lock:
        _running -= 1
        if _owns_children and not _running:
            kill_while_found(partial(find_descendants, os.getpid()))


def kill_while_found(find: Callable[[], set[int]]) -> None:
    """Kill the processes that are found, until none is left."""
    for _ in range(ROUNDS):
        found = find()
        if not found:
            return
        kill_all(found)
        for process in found:
            with suppress(ChildProcessError):  # most are not children of this process
                os.waitpid(process, os.WNOHANG)
        time.sleep(ROUND_SECONDS)


def _end(child: "subprocess.Popen[bytes]", *, ending_seconds: float) -> int:
    """End a program and its children; return its exit code. A program that ended gets no time."""
    strays = set[int]()
    if child.poll() is None:
        strays = find_descendants(child.pid)
        if ending_seconds:
            _signal_group(child.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(ending_seconds)
        strays |= find_descendants(child.pid)
    _signal_group(child.pid, KILL)
    kill_all(strays)
    return child.wait()


def _kill_family(leader: int) -> None:
    strays = find_descendants(leader)
    _signal_group(leader, KILL)
    kill_all(strays)


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(leader, number)
        else:  # pragma: no cover - Windows has no groups of this kind
            os.kill(leader, number)


def kill_all(processes: Iterable[int]) -> None:
    """Kill processes at once; those that are gone are ignored."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, KILL)


def run_variables(home: Path, key: str) -> dict[str, str]:
    """The environment variables by which every process of a run can be found."""
    return dict(zip(MARKS, (str(home.resolve()), key), strict=True))


def find_marked(environment: Mapping[str, str]) -> set[int]:
    """The processes with the same `MARKS` in their environment, also without a parent.

    A service that a program starts loses its parent but keeps its environment. Only Linux shows it.
    """
    marks = {os.fsencode(f"{name}={environment.get(name)}") for name in MARKS}
    if any(name not in environment for name in MARKS):
        return set()
    return _find_by_environment(lambda variables: marks <= set(variables.split(b"\0")))


def _find_by_environment(is_such: Callable[[bytes], bool]) -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if is_such(entry.read_bytes()):
                found.add(int(entry.parent.name))
    return found - {os.getpid()}


def find_descendants(process: int) -> set[int]:
    """The children of a process and their children, in any group; empty if unknown."""
    parents: dict[int, int] = {}
    if Path("/proc/self/stat").exists():
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    # the name before the parent's id is in parentheses, with any characters
                    fields = (
                        (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                    )
                    parents[int(entry.name)] = int(fields[1])
    else:
        with suppress(OSError, subprocess.SubprocessError, ValueError):
            listed = subprocess.run(
                ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, encoding="utf-8", timeout=5
            )
            for line in listed.stdout.splitlines():
                own, parent = line.split()
                parents[int(own)] = int(parent)
    found, front = set[int](), {process}
    while front:
        front = {own for own, parent in parents.items() if parent in front} - found
        found |= front
    return found


class _Stream:
    """The beginning and the end of a stream of any length, read in a thread."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._half = limit // 2
        self._head, self._tail, self._size = bytearray(), bytearray(), 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            while piece := os.read(self._stream.fileno(), 65536):
                self._size += len(piece)
                room = self._half - len(self._head)
                self._head += piece[:room]
                self._tail += piece[room:]
                if len(self._tail) > 2 * self._half:
                    del self._tail[: -self._half]

    def linger(self) -> None:
        """Wait a moment for the end; an escaped child may keep the other end open forever."""
        self._reader.join(LINGER_SECONDS)

    def close(self) -> None:
        self.linger()
        if not self._reader.is_alive():
            self._stream.close()

    @property
    def is_cut(self) -> bool:
        return self._size > len(self._head) + min(len(self._tail), self._half)

    def text(self) -> str:
        tail = self._tail[-self._half :]
        note = f"\n… [truncated, {self._size} bytes total]\n".encode() if self.is_cut else b""
        return (bytes(self._head) + note + bytes(tail)).decode("utf-8", "replace")
