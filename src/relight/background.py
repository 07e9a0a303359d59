"""One event loop in a thread of its own, where all talk with models happens.

So that plain and asynchronous programs share one set of connections, and a call that is no longer
wanted is cancelled, which closes its connection, whoever was waiting for it.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


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


def submit(work: Coroutine[Any, Any, T]) -> "Future[T]":
    return asyncio.run_coroutine_threadsafe(work, find_background().loop)


def run(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine gives; leaving early, as by Ctrl-C, cancels it."""
    future = submit(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def run_async(work: Coroutine[Any, Any, T]) -> T:
    """The same for a coroutine in another loop."""
    return await asyncio.wrap_future(submit(work))


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
        asyncio.run_coroutine_threadsafe(closer(), current.loop).result(timeout=5)
    current.loop.call_soon_threadsafe(current.loop.stop)
    current.thread.join(timeout=5)
    if not current.thread.is_alive():
        current.loop.close()
