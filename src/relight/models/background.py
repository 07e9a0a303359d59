"""One event loop in a background thread, which makes all model calls.

Synchronous and asynchronous programs share one set of connections. A call that is no longer wanted
is cancelled, and that closes its connection.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient

T = TypeVar("T")
P = ParamSpec("P")

CONNECT_SECONDS = 15.0
# how long a caller waits for the end of what it cancelled
END_SECONDS = 5.0


class _DaemonExecutor(ThreadPoolExecutor):
    """A thread for each call, which the end of the program does not wait for.

    The loop looks up names in threads. A name server that does not answer takes half a minute,
    and a plain executor would hold the program up that long after its time limit.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - the caller gets it
                    future.set_exception(error)

        threading.Thread(target=work, name="relight-lookup", daemon=True).start()
        return future


class _Background:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_DaemonExecutor())
        self.thread = threading.Thread(target=self.loop.run_forever, name="relight", daemon=True)
        self.thread.start()
        # run in the loop before it ends
        self.closers: list[Callable[[], Coroutine[Any, Any, None]]] = []


_lock = threading.Lock()
_current: _Background | None = None
# A fork waits until a module is loaded: its child would keep the half of it for good.
_loading = threading.Lock()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(
        before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
    )
# keyed by the loop, and for clients that fetch pages by their proxy
_clients: dict[tuple[int, str | None], "AsyncClient"] = {}


def find_background() -> _Background:
    """Return this process's loop; a fork inherits no threads and gets a new one."""
    global _current
    with _lock:
        if _current is None or _current.process != os.getpid():
            if _current is None:
                atexit.register(stop_background)
            _current = _Background()
        return _current


def find_client() -> "AsyncClient":
    """Return the HTTP client of the background loop; call it only inside that loop."""
    return _find_client(None, keepalive=64)


def find_page_client(proxy: str = "") -> "AsyncClient":
    """Return the HTTP client of strangers' pages, which uses this proxy and no other, or none.

    It sends no passwords from the user's `.netrc`, and uses no connection twice: a page that is
    requested from an address must not get the connection that was made for another name.
    """
    return _find_client(proxy, keepalive=0)


def _find_client(proxy: str | None, *, keepalive: int) -> "AsyncClient":
    """Return a client, which is made when it is first needed; None uses the environment's proxy."""
    background = find_background()
    key = (id(background), proxy)
    if key not in _clients:
        with _loading:
            import anyio
            import httpx2

            anyio.CancelScope()  # loads the modules that the first request would load

        client = httpx2.AsyncClient(
            # each caller limits the time of its call as a whole
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=keepalive),
            verify=httpx2.create_ssl_context(),
            proxy=proxy or None,
            trust_env=proxy is None,
        )
        _clients[key] = client

        async def close() -> None:
            _clients.pop(key, None)
            await client.aclose()

        background.closers.append(close)
    return _clients[key]


def is_own_client(client: object) -> bool:
    """True for a client of this module, whose calls Relight records itself."""
    return any(client is one for one in _clients.values())


@lru_cache(maxsize=64)
def parse_url(text: str) -> "URL":
    """Return the parsed URL; cached, because the same few are used again and again."""
    with _loading:
        import httpx2

    return httpx2.URL(text)


class BackgroundTask(Generic[T]):
    """A coroutine running in the background loop; `result` is a future of its result."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.result: Future[T] = Future()
        self._loop = find_background().loop
        self._loop.call_soon_threadsafe(self._begin, coroutine)

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(coroutine)
        self._task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.result.cancel()
            self.result.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._task.cancel())

    def end(self) -> None:
        """Cancel it unless it is done, and wait: it may still have to record its outcome."""
        if not self.result.done():
            self.cancel()
            wait([self.result], timeout=END_SECONDS)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result; an early exit, such as Ctrl-C, cancels it."""
    task = BackgroundTask(coroutine)
    try:
        return task.result.result()
    finally:
        task.end()


async def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """`run_coroutine` for callers in another event loop."""
    task = BackgroundTask(coroutine)
    done = asyncio.wrap_future(task.result)
    try:
        # shielded: a future cancelled from here would not show when the task has ended
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([done], timeout=END_SECONDS)
        raise


def iterate(items: AsyncIterator[T]) -> Generator[T, None, None]:
    """Yield the items of a background iterator in a synchronous program; None ends it."""
    try:
        while (item := run_coroutine(_next(items))) is not None:
            yield item
    finally:
        run_coroutine(_close(items))


async def iterate_async(items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """`iterate` for callers in another event loop."""
    try:
        while (item := await run_async(_next(items))) is not None:
            yield item
    finally:
        # shielded: a cancelled caller must still close the connection
        await asyncio.shield(run_async(_close(items)))


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


def stop_background() -> None:
    """Close everything open in the loop, then end it."""
    global _current
    with _lock:
        current, _current = _current, None
    if current is None or current.process != os.getpid():
        return
    for closer in current.closers:
        with suppress(TimeoutError):  # a connection that does not close ends with the process
            asyncio.run_coroutine_threadsafe(closer(), current.loop).result(timeout=END_SECONDS)
    current.loop.call_soon_threadsafe(current.loop.stop)
    current.thread.join(timeout=END_SECONDS)
    if not current.thread.is_alive():
        current.loop.close()
