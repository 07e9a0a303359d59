"""One event loop in a thread of its own, where all talk with models happens.

So that plain and asynchronous programs share one set of connections, and a call that is no longer
wanted is cancelled, which closes its connection, whoever was waiting for it.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# how long whoever leaves waits for what it has cancelled
END_SECONDS = 5.0


class _Background:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="relight", daemon=True)
        self.thread.start()
        # what must be closed in the loop before it ends
        self.closers: list[Callable[[], Coroutine[Any, Any, None]]] = []


_lock = threading.Lock()
_current: _Background | None = None


def find_background() -> _Background:
    """The loop of this process; a fork has no threads, so it gets one of its own."""
    global _current
    with _lock:
        if _current is None or _current.process != os.getpid():
            if _current is None:
                atexit.register(stop)
            _current = _Background()
        return _current


class Work(Generic[T]):
    """A coroutine at work in the background; `over` has what it gave, when it is over."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.over: Future[T] = Future()
        self._loop = find_background().loop
        self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.over.cancel()
            self.over.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.over.set_exception(error)
        else:
            self.over.set_result(task.result())

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._task.cancel())

    def end(self) -> None:
        """Cancel it, unless it is over, and see it end: it may have to record how it did."""
        if not self.over.done():
            self.cancel()
            wait([self.over], timeout=END_SECONDS)


def run(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine gives; leaving early, as by Ctrl-C, cancels it."""
    begun = Work(work)
    try:
        return begun.over.result()
    finally:
        begun.end()


async def run_async(work: Coroutine[Any, Any, T]) -> T:
    """The same for a coroutine in another loop."""
    begun = Work(work)
    over = asyncio.wrap_future(begun.over)
    try:
        # shielded: a future that was cancelled from here would not tell when the work has ended
        return await asyncio.shield(over)
    except asyncio.CancelledError:
        begun.cancel()
        await asyncio.wait([over], timeout=END_SECONDS)
        raise


def iterate(items: AsyncIterator[T]) -> Generator[T, None, None]:
    """The items of an asynchronous iterator in a plain program; None among them is the end."""
    try:
        while (item := run(_next(items))) is not None:
            yield item
    finally:
        run(_close(items))


async def iterate_async(items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """The items of an iterator that lives in the background, in another loop."""
    try:
        while (item := await run_async(_next(items))) is not None:
            yield item
    finally:
        # shielded: whoever leaves because it was cancelled must still close the connection
        await asyncio.shield(run_async(_close(items)))


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


def stop() -> None:
    """End the loop, with all that is open in it closed."""
    global _current
    with _lock:
        current, _current = _current, None
    if current is None or current.process != os.getpid():
        return
    for closer in current.closers:
        with suppress(TimeoutError):  # a connection that cannot be closed goes with the process
            asyncio.run_coroutine_threadsafe(closer(), current.loop).result(timeout=END_SECONDS)
    current.loop.call_soon_threadsafe(current.loop.stop)
    current.thread.join(timeout=END_SECONDS)
    if not current.thread.is_alive():
        current.loop.close()
