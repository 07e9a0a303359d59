"""Watch the requests of httpx, httpx2 and aiohttp, through which all SDKs talk to models.

A response that is read at once is left as it is. One that is read piece by piece gets a stream that
passes the same pieces on; everything else about it, and every error, stays the library's own.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import finalize

import msgspec

from relight.intake.auto.calls import ObservedCall, Pieces, begin_call, ignoring_errors

# True while a request is sent: httpx may send it through aiohttp, and it is one call
_is_sending: ContextVar[bool] = ContextVar("relight_is_sending", default=False)


def watch_httpx(library: ModuleType) -> None:
    """Watch the clients of httpx or httpx2."""
    streams = _Streams(library)
    library.Client.send = _watch_send(library.Client.send, streams)
    library.AsyncClient.send = _watch_async_send(library.AsyncClient.send, streams)


class _Streams:
    """The stream types of a library, which its responses insist on."""

    def __init__(self, library: Any) -> None:
        self._response = library.Response
        self.sync = type("RecordedStream", (_SyncTee, library.SyncByteStream), {})
        self.asynchronous = type("RecordedAsyncStream", (_AsyncTee, library.AsyncByteStream), {})
        self._replay = type("Replay", (_Replay, library.SyncByteStream), {})

    def take(self, call: ObservedCall, response: Any, *, is_async: bool) -> None:
        """Let a call have the response: its content now, or each piece as it passes."""
        with ignoring_errors():
            call.begin_answer(response.status_code, response.headers)
            if response.is_closed:
                call.add(response.content)
                call.end()
                return
            encoding = response.headers.get("content-encoding")
            if encoding:
                call.decode = lambda pieces: self._decode(encoding, pieces)
            tee = self.asynchronous if is_async else self.sync
            response.stream = tee(response.stream, call)

    def _decode(self, encoding: str, pieces: Pieces) -> Pieces:
        """Decompress the pieces as the library does, each with the time of its last byte."""
        replay = self._replay(pieces)
        made = self._response(200, headers={"content-encoding": encoding}, stream=replay)
        times, decoded = [], []
        for data in made.iter_bytes():
            times.append(replay.at)
            decoded.append(data)
        return times, decoded


class _Replay:
    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self.at = 0.0

    def __iter__(self) -> Iterator[bytes]:
        for at, piece in zip(*self._pieces, strict=True):
            self.at = at
            yield piece


class _Tee:
    """A stream that shows its pieces to a call; other attributes are the stream's own."""

    def __init__(self, stream: Any, call: ObservedCall) -> None:
        self._stream = stream
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _SyncTee(_Tee):
    def __iter__(self) -> Iterator[bytes]:
        add = self._call.add
        try:
            for piece in self._stream:
                add(piece)
                yield piece
        except BaseException as error:  # it is noted, and goes on to the program
            self._call.end(error)
            raise
        self._call.end()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._call.end(GeneratorExit())


class _AsyncTee(_Tee):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        add = self._call.add
        pieces = self._stream.__aiter__()
        try:
            async for piece in pieces:
                add(piece)
                yield piece
        except BaseException as error:  # it is noted, and goes on to the program
            self._call.end(error)
            raise
        finally:
            # left early, it must not wait for the garbage collector
            if hasattr(pieces, "aclose"):
                await pieces.aclose()
        self._call.end()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._call.end(GeneratorExit())


class _Sending:
    """A block in which a request is sent; an error in it ends the call."""

    def __init__(self, call: ObservedCall) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._token = _is_sending.set(True)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _is_sending.reset(self._token)
        if error is not None:
            self._call.end(error)


def _watch_send(send: Callable[..., Any], streams: _Streams) -> Callable[..., Any]:
    @wraps(send)
    def watched(client: Any, request: Any, *args: Any, **options: Any) -> Any:
        call = _begin_httpx(client, request)
        if call is None:
            return send(client, request, *args, **options)
        with _Sending(call):
            response = send(client, request, *args, **options)
        streams.take(call, response, is_async=False)
        return response

    return watched


def _watch_async_send(send: Callable[..., Any], streams: _Streams) -> Callable[..., Any]:
    @wraps(send)
    async def watched(client: Any, request: Any, *args: Any, **options: Any) -> Any:
        call = _begin_httpx(client, request)
        if call is None:
            return await send(client, request, *args, **options)
        with _Sending(call):
            response = await send(client, request, *args, **options)
        streams.take(call, response, is_async=True)
        return response

    return watched


def _begin_httpx(client: Any, request: Any) -> ObservedCall | None:
    """Return a call if a request is one to a model that nobody else records."""
    with ignoring_errors():
        if request.method == "POST" and not _is_sending.get():
            return begin_call(str(request.url), lambda: request.content, client=client)
    return None


def watch_aiohttp(library: ModuleType) -> None:
    """Watch the sessions of aiohttp.

    Its readers cannot be wrapped, but they can change their class to one with the same layout.
    """
    session: Any = library.ClientSession
    reader: Any = library.StreamReader
    watched = type(reader.__name__, (_Reader, reader), {"__slots__": ()})
    send = session._request

    @wraps(send)
    async def request(owner: Any, method: Any, url: Any, **options: Any) -> Any:
        call = _begin_aiohttp(method, url, options)
        if call is None:
            return await send(owner, method, url, **options)
        with _Sending(call):
            response = await send(owner, method, url, **options)
        with ignoring_errors():
            call.begin_answer(response.status, response.headers)
            if type(response.content) is reader:
                key = id(response.content)
                _readers[key] = call
                response.content.__class__ = watched
                # a response that nobody reads ends without a word
                finalize(response, _end_reader, key, GeneratorExit()).atexit = False
        return response

    session._request = request


def _begin_aiohttp(method: Any, url: Any, options: dict[str, Any]) -> ObservedCall | None:
    with ignoring_errors():
        if str(method).upper() == "POST" and not _is_sending.get():
            return begin_call(str(url), lambda: _read_body(options))
    return None


def _read_body(options: dict[str, Any]) -> bytes:
    body = options.get("data")
    if body is None:
        return msgspec.json.encode(options.get("json"))
    return body.encode() if isinstance(body, str) else bytes(body)


# the calls of readers that have no room for one
_readers: dict[int, ObservedCall] = {}


class _Reader:
    """The methods through which all bytes of a response go to the program, and its end."""

    __slots__ = ()

    def _read_nowait_chunk(self: Any, size: int) -> bytes:
        piece: bytes = super()._read_nowait_chunk(size)  # type: ignore[misc]
        call = _readers.get(id(self))
        if call is not None:
            call.add(piece)
            if self.at_eof():
                _end_reader(id(self))
        return piece

    def feed_eof(self: Any) -> None:
        super().feed_eof()  # type: ignore[misc]
        if self.at_eof():
            _end_reader(id(self))

    def set_exception(self: Any, error: Any, *args: Any) -> None:
        super().set_exception(error, *args)  # type: ignore[misc]
        with ignoring_errors():
            raised = error if isinstance(error, BaseException) else error()
            # what aiohttp says if the program itself closes the response
            is_left = str(raised) == "Connection closed"
            _end_reader(id(self), GeneratorExit() if is_left else raised)


def _end_reader(key: int, error: BaseException | None = None) -> None:
    if call := _readers.pop(key, None):
        call.end(error)
