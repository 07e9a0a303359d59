"""Worker processes that turn messages into responses, so that all cores work.

Plain child processes with pipes: when the parent dies, however it dies, a child reads the end of
its input and goes too.
"""

import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from relight.errors import RelightError

AHEAD = 3
# a pipe holds 64 KiB: a longer message waits until the child reads, or both would wait forever
AHEAD_BYTES = 32 << 10


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


def _make_error(code: int) -> RelightError:
    hint = "try again: nothing that was read before is lost"
    if code == -getattr(signal, "SIGKILL", 9):  # as the kernel does when memory is full
        hint = f"the machine may be short of memory; free some, and {hint}"
    return RelightError(f"a worker process {describe_exit(code)} before its work was done", hint)


class Workers:
    """Some processes running `module:function`, each handling one message after another.

    A thread for each reads its responses from the pipe, so that no worker waits while the parent
    is busy with an earlier one.
    """

    def __init__(self, count: int, target: str) -> None:
        # imported here: the workers load this module too, and start no process
        from subprocess import PIPE, Popen

        module, function = target.split(":")
        # values are frozen and never refer to one another in a circle: nothing to collect
        code = (
            "import gc; gc.disable(); from relight.intake.workers import serve_messages;"
            f" from {module} import {function} as f; serve_messages(f)"
        )
        # with paths as they are here, even when Relight is not installed but only on sys.path
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._children = [
            Popen([sys.executable, "-S", "-c", code], stdin=PIPE, stdout=PIPE, env=environment)
            for _ in range(count)
        ]
        self._waiting: deque[bytes] = deque()
        self._pending = [0] * count
        self._responses: queue.Queue[tuple[int, bytes | None]] = queue.Queue(maxsize=count * AHEAD)
        for number in range(count):
            threading.Thread(target=self._read_responses, args=(number,), daemon=True).start()

    def submit(self, message: bytes) -> None:
        self._waiting.append(message)

    def responses(self, messages: Iterable[bytes] = ()) -> Iterator[bytes]:
        """Yield responses as they come, until all messages have one; more may be submitted.

        Messages are taken only when a worker has room for them.
        """
        more = iter(messages)
        while True:
            self._hand_out(more)
            if not any(self._pending):
                return
            number, response = self._responses.get()
            if response is None:
                raise _make_error(self._children[number].wait())
            self._pending[number] -= 1
            yield response

    def _hand_out(self, more: Iterator[bytes]) -> None:
        for number in sorted(range(len(self._pending)), key=self._pending.__getitem__):
            while self._pending[number] < AHEAD:
                if not self._waiting and (message := next(more, None)) is not None:
                    self._waiting.append(message)
                if not self._waiting or not self._has_room(number, len(self._waiting[0])):
                    break
                stream = self._children[number].stdin
                assert stream is not None
                self._pending[number] += 1
                with suppress(BrokenPipeError):  # the end of its responses shows that it is gone
                    write_message(stream, self._waiting.popleft())

    def _has_room(self, number: int, size: int) -> bool:
        return self._pending[number] == 0 or size < AHEAD_BYTES

    def _read_responses(self, number: int) -> None:
        stream = self._children[number].stdout
        assert stream is not None
        response: bytes | None = b""
        while response is not None:
            try:
                response = read_message(stream)
            except (OSError, ValueError):  # closed under our hands: the parent leaves
                response = None
            self._responses.put((number, response))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children:
            if kind is not None:
                child.kill()
            if child.stdin is not None:
                with suppress(BrokenPipeError):
                    child.stdin.close()
            child.wait()
        for child in self._children:
            if child.stdout is not None:
                child.stdout.close()


def serve_messages(function: Callable[[bytes], bytes]) -> None:
    """Handle messages from standard input on standard output, until the input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    with suppress(BrokenPipeError, KeyboardInterrupt):
        while (message := read_message(source)) is not None:
            write_message(target, function(message))
    os._exit(0)  # at once: freeing what was loaded would keep the parent waiting


def read_message(stream: IO[bytes]) -> bytes | None:
    size = stream.read(8)
    return stream.read(int.from_bytes(size, "big")) if len(size) == 8 else None


def write_message(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "big"))
    stream.write(message)
    stream.flush()
