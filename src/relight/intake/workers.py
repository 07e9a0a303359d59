"""Worker processes that turn messages into responses; a bad message costs itself alone.

Plain child processes with pipes: when the parent dies, however it dies, a child reads the end of
its input and goes too. A message that takes too much CPU time ends the child that handles it. The
kernel does that, also in code that never returns to Python.
"""

import gc
import math
import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, Self

from msgspec import Struct

from relight.errors import RelightError
from relight.expressions import keep_compiled

# messages for each worker: with it, and taken from the caller while that one is busy; and the
# responses that wait in memory
AHEAD = 2
STOCK = 8
MOST_RESPONSES = 4
# a pipe holds 64 KiB: a longer message waits until the child reads, or both would wait forever
AHEAD_BYTES = 32 << 10
OVER_TIME = getattr(signal, "SIGPROF", None)

# more processes wait for the one that writes
MOST_WORKERS = 8

Handle = Callable[[bytes], bytes]


def count_cores(
    control: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")
) -> int:
    """Return how many cores this process may use, its control group's limits included; 8 at most.

    Of the groups around the process the narrowest counts. Inside of a container its own group is
    often mounted as the root, whatever path the kernel names.
    """
    found = [float(MOST_WORKERS)]
    if hasattr(os, "sched_getaffinity"):
        found.append(len(os.sched_getaffinity(0)))
    else:
        found.append(os.cpu_count() or 1)
    for folder, names in _find_groups(control, groups):
        with suppress(OSError, ValueError, ZeroDivisionError):  # no limit, or no such file
            words = " ".join((folder / name).read_text("utf-8") for name in names).split()
            quota, period = map(int, words)
            if quota > 0:
                found.append(quota / period)
    return max(math.ceil(min(found)), 1)


def _find_groups(control: Path, groups: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the folders of the process's control groups, and the files with their limits."""
    newer, older = ("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    lines = ["0::/", "1:cpu:/"]
    with suppress(OSError, UnicodeDecodeError):
        lines += groups.read_text("utf-8").splitlines()
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        top, names = (control, newer) if number == "0" else (control / "cpu", older)
        place = PurePosixPath(path.strip("/"))
        for one in (place, *place.parents):
            yield top / one, names


class Lost(Struct, frozen=True):
    """A message whose worker was ended by a signal while it handled it."""

    message: bytes
    signal: int

    @property
    def is_over_time(self) -> bool:
        """True if it took more CPU time than a message may."""
        return self.signal == OVER_TIME

    def describe(self, message_seconds: float) -> str:
        """Return why it cannot be read."""
        if self.is_over_time:
            return f"it takes more than {message_seconds:g} s of CPU time"
        return f"each worker process that reads it {describe_exit(-self.signal)}"


def describe_exit(code: int) -> str:
    """The end of a process in words.

    >>> describe_exit(3), describe_exit(-9)
    ('ended with code 3', 'was ended by SIGKILL')
    """
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def explain_end(code: int) -> RelightError:
    """The error of a worker process that ended with this code, and what to do."""
    hint = "try again: nothing that was read before is lost"
    if code == -getattr(signal, "SIGKILL", 9):  # as the kernel does when memory is full
        hint = f"the machine may be short of memory; free some, and {hint}"
    return RelightError(f"a worker process {describe_exit(code)} before its work was done", hint)


class Child(Protocol):
    """A worker process, and the pipes to it."""

    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    def kill(self) -> None: ...
    def wait(self) -> int: ...


class Workers:
    """Some processes running `module:function`, each handling one message after another.

    A thread for each reads its responses from the pipe and gives it the next message, so that no
    worker waits while the parent is busy with an earlier response. A worker that was ended by a
    signal is replaced.
    """

    def __init__(self, count: int, target: str, *, message_seconds: float) -> None:
        self.count, self.message_seconds = count, message_seconds
        self.is_forked = can_fork_here()  # a fork has loaded everything, and shares it
        start = fork_child if self.is_forked else spawn_child
        self._start = partial(start, target, message_seconds)
        self._children: list[Child | None] = [None] * count
        self._readers: dict[int, threading.Thread] = {}
        # what is handed out: the threads share it
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._open = 0  # messages whose response the caller does not have
        self._sent: list[deque[bytes]] = [deque() for _ in range(count)]
        most = count * MOST_RESPONSES
        self._responses: queue.Queue[tuple[int, bytes | None]] = queue.Queue(maxsize=most)
        if not self.is_forked:
            self._start_children()

    def submit(self, message: bytes) -> None:
        self._waiting.append(message)
        self._open += 1

    def responses(self, messages: Iterable[bytes] = ()) -> Iterator[bytes | Lost]:
        """Yield responses as they come, until all messages have one; more may be submitted.

        Messages are taken in the thread of the caller, a few before a worker has room for them.
        """
        more = iter(messages)
        while True:
            while len(self._waiting) < self.count * STOCK:
                if (message := next(more, None)) is None:
                    break
                self.submit(message)
            if self._waiting and None in self._children:
                self._start_children()
            with self._lock:
                for number in sorted(range(self.count), key=lambda one: len(self._sent[one])):
                    self._hand_out(number)
            if not self._open:
                return
            number, found = self._responses.get()
            response = self._end_child(number) if found is None else found
            if response is not None:
                self._open -= 1
                yield response

    def finish(self) -> None:
        """End the workers when all responses are there: they go while the caller does the rest."""
        for child in self._children:
            if child is not None and child.stdin is not None:
                with suppress(BrokenPipeError):
                    child.stdin.close()

    def _hand_out(self, number: int) -> None:
        """Give a worker what it has room for."""
        sent, child = self._sent[number], self._children[number]
        if child is None:
            return
        assert child.stdin is not None
        while self._waiting and len(sent) < AHEAD:
            if sent and len(self._waiting[0]) >= AHEAD_BYTES:
                break
            sent.append(self._waiting.popleft())
            # the end of its responses shows that it is gone; closed if the parent leaves
            with suppress(BrokenPipeError, ValueError):
                write_message(child.stdin, sent[-1])

    def _start_children(self) -> None:
        """Start every worker that is missing, and then their threads: a fork must not have any."""
        missing = [number for number, child in enumerate(self._children) if child is None]
        for number in missing:
            self._children[number] = self._start([one for one in self._children if one])
        for number in missing:
            words = (number, self._children[number])
            reader = threading.Thread(target=self._read_responses, args=words, daemon=True)
            self._readers[number] = reader
            reader.start()

    def _end_child(self, number: int) -> Lost | None:
        """Take leave of a worker that has ended; return the message that it was at, if any.

        What it had not begun is handed out again.
        """
        child, sent = self._children[number], self._sent[number]
        assert child is not None
        self._children[number] = None
        code = self._close(number, child)
        if not sent:
            return None
        if code >= 0:
            raise explain_end(code)
        message = sent.popleft()
        with self._lock:
            self._waiting.extendleft(reversed(sent))
        sent.clear()
        return Lost(message, -code)

    def _read_responses(self, number: int, child: Child) -> None:
        stream = child.stdout
        assert stream is not None
        response: bytes | None = b""
        while response is not None:
            try:
                response = read_frame(stream)
            except (OSError, ValueError):  # closed under our hands: the parent leaves
                response = None
            if response is not None:
                with self._lock:
                    self._sent[number].popleft()
                    self._hand_out(number)
            self._responses.put((number, response))

    def _close(self, number: int, child: Child) -> int:
        """Wait for a worker and for its thread; return its exit code."""
        if child.stdin is not None:
            with suppress(BrokenPipeError):
                child.stdin.close()
        code = child.wait()
        self._readers[number].join()
        if child.stdout is not None:
            child.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        children = [(n, child) for n, child in enumerate(self._children) if child is not None]
        if kind is not None:
            for _, child in children:
                child.kill()
            while any(self._readers[number].is_alive() for number, _ in children):
                with suppress(queue.Empty):  # a thread may wait for room
                    self._responses.get(timeout=0.01)
        for number, child in children:
            self._close(number, child)


def spawn_child(target: str, message_seconds: float, _: Iterable[Child] = ()) -> Child:
    """Start a new interpreter that handles messages."""
    # imported here: the workers load this module too, and start no process
    from subprocess import PIPE, Popen

    module, function = target.split(":")
    code = (
        "from relight.intake.workers import serve_messages;"
        f" from {module} import {function} as f; serve_messages(f, {message_seconds!r})"
    )
    # with paths as they are here, even when Relight is not installed but only on sys.path
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return Popen([sys.executable, "-S", "-c", code], stdin=PIPE, stdout=PIPE, env=environment)


def can_fork_here() -> bool:
    """True if no other thread could hold a lock that a fork would never see released."""
    return hasattr(os, "fork") and threading.active_count() == 1


class ForkedChild:
    """A copy of this process that handles messages; it starts in a millisecond."""

    def __init__(self, handle: Handle, message_seconds: float, others: Iterable[int]) -> None:
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            # The parent's ends, also to earlier forks: with them open, its death would neither end
            # the input nor break the output, and a child would wait for ever.
            for number in (our_output, our_input, *others):
                os.close(number)
            _serve_in_fork(handle, message_seconds, their_input, their_output)
        os.close(their_input)
        os.close(their_output)
        self.stdin: IO[bytes] | None = os.fdopen(our_output, "wb")
        self.stdout: IO[bytes] | None = os.fdopen(our_input, "rb")
        self._code: int | None = None

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


def fork_child(target: str, message_seconds: float, beside: Iterable[Child] = ()) -> Child:
    """Start a copy of this process that handles messages; a new interpreter if that is unsafe.

    `beside` are the workers whose pipes the copy must not keep open.
    """
    from importlib import import_module

    if not can_fork_here():
        return spawn_child(target, message_seconds)
    module, function = target.split(":")
    pipes = [pipe for one in beside for pipe in (one.stdin, one.stdout)]
    others = [pipe.fileno() for pipe in pipes if pipe is not None]
    return ForkedChild(getattr(import_module(module), function), message_seconds, others)


def _serve_in_fork(handle: Handle, message_seconds: float, source: int, target: int) -> None:
    """Handle messages as a new interpreter would, and never return into the parent's code."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        streams = os.fdopen(source, "rb"), os.fdopen(target, "wb")
        serve_messages(handle, message_seconds, streams)
    except BaseException:  # noqa: BLE001 - it must not go on as a second parent
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def serve_messages(
    function: Handle, message_seconds: float, streams: tuple[IO[bytes], IO[bytes]] | None = None
) -> None:
    """Handle messages from standard input on standard output, until the input ends."""
    gc.disable()  # values are frozen and form no reference cycles
    source, target = streams or (sys.stdin.buffer, sys.stdout.buffer)
    with suppress(BrokenPipeError, KeyboardInterrupt):
        while (message := read_frame(source)) is not None:
            limit_cpu(message_seconds)
            response = function(message)
            limit_cpu(0)
            write_message(target, response)
        keep_compiled()
    os._exit(0)  # at once: freeing what was loaded would keep the parent waiting


def limit_cpu(seconds: float) -> None:
    """End this process after so many seconds of CPU time, unless the limit is set again; 0: never.

    Without a handler the signal ends the process at once, whatever code is running. Windows has no
    such timer: there nothing is limited.
    """
    if OVER_TIME is None:
        return
    if seconds:
        signal.signal(OVER_TIME, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {OVER_TIME})
    signal.setitimer(signal.ITIMER_PROF, seconds)


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next message; None at the end, also if it comes within a message."""
    head = stream.read(8)
    size = int.from_bytes(head, "big")
    message = stream.read(size) if len(head) == 8 else b""
    return message if len(head) == 8 and len(message) == size else None


def write_message(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "big"))
    stream.write(message)
    stream.flush()
