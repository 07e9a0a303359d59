"""Helper processes that turn messages into answers, so that both cores work.

Plain child processes with pipes: when the parent dies, however it dies, a child reads the end of
its input and goes too.
"""

import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

AHEAD = 3
# a pipe holds 64 KiB: a longer message waits until the child reads, or both would wait forever
AHEAD_BYTES = 32 << 10


class Workers:
    """Some processes running `module:function`, each answering one message after another.

    A thread for each takes its answers off the pipe, so that no child waits while the parent is
    busy with an earlier one.
    """

    def __init__(self, count: int, target: str) -> None:
        # here, since the children load this module as well and start no one
        from subprocess import PIPE, Popen

        module, function = target.split(":")
        # values are frozen and hold no circles: looking for circles in them would find nothing
        code = (
            "import gc; gc.disable(); from relight.intake.workers import serve;"
            f" from {module} import {function} as f; serve(f)"
        )
        # with paths as they are here, even when Relight is not installed but only on sys.path
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._children = [
            Popen([sys.executable, "-S", "-c", code], stdin=PIPE, stdout=PIPE, env=environment)
            for _ in range(count)
        ]
        self._waiting: deque[bytes] = deque()
        self._asked = [0] * count
        self._answers: queue.Queue[tuple[int, bytes | None]] = queue.Queue(maxsize=count * AHEAD)
        for number in range(count):
            threading.Thread(target=self._take_answers, args=(number,), daemon=True).start()

    def ask(self, message: bytes) -> None:
        self._waiting.append(message)

    def answers(self, messages: Iterable[bytes] = ()) -> Iterator[bytes]:
        """Answers as they come, until nothing asked is left; more may be asked meanwhile.

        Messages are taken only when a worker has room for them.
        """
        more = iter(messages)
        while True:
            self._hand_out(more)
            if not any(self._asked):
                return
            number, answer = self._answers.get()
            if answer is None:
                raise ChildProcessError("a worker process ended before its work was done")
            self._asked[number] -= 1
            yield answer

    def _hand_out(self, more: Iterator[bytes]) -> None:
        for number in sorted(range(len(self._asked)), key=self._asked.__getitem__):
            while self._asked[number] < AHEAD:
                if not self._waiting and (message := next(more, None)) is not None:
                    self._waiting.append(message)
                if not self._waiting or not self._has_room(number, len(self._waiting[0])):
                    break
                stream = self._children[number].stdin
                assert stream is not None
                self._asked[number] += 1
                with suppress(BrokenPipeError):  # the end of its answers shows that it is gone
                    write_message(stream, self._waiting.popleft())

    def _has_room(self, number: int, size: int) -> bool:
        return self._asked[number] == 0 or size < AHEAD_BYTES

    def _take_answers(self, number: int) -> None:
        stream = self._children[number].stdout
        assert stream is not None
        answer: bytes | None = b""
        while answer is not None:
            try:
                answer = read_message(stream)
            except (OSError, ValueError):  # closed under our hands: the parent leaves
                answer = None
            self._answers.put((number, answer))

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


def serve(function: Callable[[bytes], bytes]) -> None:
    """Answer messages from standard input on standard output, until the input ends."""
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
