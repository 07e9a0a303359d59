"""A scripted model behind a real OpenAI-compatible server on loopback; its log is the truth."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass
class Reply:
    """What the model answers, or what the server does instead."""

    content: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    usage: Mapping[str, Any] | None = field(default_factory=lambda: dict(USAGE))
    finish_reason: str | None = None
    delay_seconds: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    # sent as it is, in place of an answer
    body: bytes | None = None
    # a stream: how many bytes go out at once, and after how many chunks it breaks off
    piece_bytes: int | None = None
    breaks_after: int | None = None
    never_ends: bool = False


@dataclass
class Logged:
    """A request as the server received it."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @cached_property
    def body(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.raw)
        return decoded


def call(name: str, call_id: str = "call_1", /, **arguments: Any) -> dict[str, Any]:
    """A tool call as a model writes it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def has_results(body: Mapping[str, Any]) -> bool:
    """Whether tools have answered since a user last spoke: then it is time to finish."""
    roles = [message["role"] for message in body["messages"]]
    last_user = max((n for n, role in enumerate(roles) if role == "user"), default=-1)
    return "tool" in roles[last_user + 1 :]


class Server:
    """Answers each chat request with what `script` says; one thread a connection."""

    def __init__(
        self,
        script: Callable[[dict[str, Any]], Reply] | Sequence[Reply],
        *,
        models: Sequence[Mapping[str, Any]] | None = None,
        pages: Mapping[str, Reply] | None = None,
    ) -> None:
        self.requests: list[Logged] = []
        # how many streams the other side left before their end
        self.left = 0
        self._replies = None if callable(script) else iter(script)
        self._script = script if callable(script) else self._next
        self._models = models
        self._pages = pages or {}
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        owner = self

        class Handler(_Handler):
            server_owner = owner

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def page(self, path: str) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}{path}"

    @property
    def chats(self) -> list[Logged]:
        with self._lock:
            return [one for one in self.requests if one.path.endswith("/chat/completions")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closing.set()
        self._http.shutdown()
        self._http.server_close()

    def _next(self, _: dict[str, Any]) -> Reply:
        assert self._replies is not None
        with self._lock:
            return next(self._replies)

    def take(self, logged: Logged) -> Reply:
        with self._lock:
            self.requests.append(logged)
        if logged.path == "/v1/models" and self._models is not None:
            return Reply(body=json.dumps({"data": list(self._models)}).encode())
        if logged.path in self._pages:
            return self._pages[logged.path]
        # clients probe for other kinds of servers, and take any answer for one of those
        if not logged.path.endswith("/chat/completions"):
            return Reply(status=404, body=b'{"error": {"message": "nothing here"}}')
        return self._script(logged.body)

    def wait(self, seconds: float) -> None:
        self._is_closing.wait(seconds)


class _Quiet(ThreadingHTTPServer):
    request_queue_size = 64
    _used: ClassVar[set[int]] = set()

    def server_bind(self) -> None:
        """Take a port that no server of this process had: its prices may still be remembered."""
        super().server_bind()
        while self.server_port in self._used:
            self.socket.close()
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.server_address = ("127.0.0.1", 0)
            super().server_bind()
        self._used.add(self.server_port)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that is gone is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_owner: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log is a list."""

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, raw: bytes) -> None:
        logged = Logged(self.command, self.path, dict(self.headers), raw)
        reply = self.server_owner.take(logged)
        if reply.delay_seconds:
            self.server_owner.wait(reply.delay_seconds)
        try:
            if reply.status != 200 or reply.body is not None:
                self._send(reply, reply.body or b"")
            elif logged.body.get("stream"):
                self._stream(reply, logged.body)
            else:
                self._send(reply, json.dumps(completion(reply, logged.body)).encode())
        except (BrokenPipeError, ConnectionResetError):
            self.server_owner.left += 1
            self.close_connection = True

    def _send(self, reply: Reply, body: bytes) -> None:
        self.send_response(reply.status)
        headers = {"Content-Type": "application/json", **reply.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        if reply.piece_bytes:
            self._send_pieces(reply, body)
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _send_pieces(self, reply: Reply, body: bytes) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        assert reply.piece_bytes is not None
        for start in range(0, reply.breaks_after or len(body), reply.piece_bytes):
            self._piece(body[start : start + reply.piece_bytes])
        if reply.breaks_after is not None:
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _stream(self, reply: Reply, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = list(chunks(reply, body))
        if reply.breaks_after is not None:
            events = events[: reply.breaks_after]
        data = b"".join(b"data: " + event + b"\n\n" for event in events)
        size = reply.piece_bytes or max(len(data), 1)
        for start in range(0, len(data), size):
            self._piece(data[start : start + size])
        while reply.never_ends and not self.server_owner._is_closing.is_set():
            self._piece(b": still here\n\n")
            self.server_owner.wait(0.05)
        if reply.breaks_after is not None:
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def completion(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = list(reply.tool_calls)
    told = {"index": 0, "message": message, "finish_reason": _reason(reply), "logprobs": None}
    shown: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_794_700_800,
        "model": body.get("model"),
        "choices": [told],
    }
    return shown | ({"usage": reply.usage} if reply.usage else {})


def chunks(reply: Reply, body: Mapping[str, Any]) -> Iterator[bytes]:
    """The same answer in small pieces, with the usage in a last chunk without choices."""
    base = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_794_700_800,
        "model": body.get("model"),
    }

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return json.dumps({**base, "choices": [choice]}, ensure_ascii=False).encode()

    yield chunk({"role": "assistant", "content": "" if reply.content is not None else None})
    text = reply.content or ""
    for start in range(0, len(text), 7):
        yield chunk({"content": text[start : start + 7]})
    for place, one in enumerate(reply.tool_calls):
        arguments = one["function"]["arguments"]
        head = {**one, "index": place, "function": {**one["function"], "arguments": ""}}
        yield chunk({"tool_calls": [head]})
        for start in range(0, len(arguments), 9):
            part = {"index": place, "function": {"arguments": arguments[start : start + 9]}}
            yield chunk({"tool_calls": [part]})
    if not reply.never_ends:
        yield chunk({}, _reason(reply))
        if reply.usage and (body.get("stream_options") or {}).get("include_usage"):
            yield json.dumps({**base, "choices": [], "usage": reply.usage}).encode()
        yield b"[DONE]"


def _reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
