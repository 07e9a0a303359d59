"""The Model Context Protocol on two pipes: JSON-RPC, one message a line.

The thread that reads answers all but the calls of tools. These run one after the other in a second
thread, so that a ping is answered and a call can be cancelled meanwhile.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Queue
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from relight.chat.messages import decode_mended
from relight.cli.mcp import messages
from relight.errors import RelightError
from relight.text import clean_lines

# A client may ask for any of them. One that asks for another version gets the newest, and decides.
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LONGEST_LINE = 1 << 20
# calls that wait; then the client's pipe fills, and it waits too
MOST_WAITING = 64
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMETERS = -32700, -32600, -32601, -32602

Message = dict[str, Any]


class ProtocolError(RelightError):
    """A request that cannot be answered, with the code that JSON-RPC has for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Toolbox(Struct, frozen=True):
    """The offer of a server: tools as the protocol describes them, and the function that calls one.

    `call` returns the text of a result, or raises a `RelightError`, which the model gets to read.
    """

    name: str
    version: str
    instructions: str
    tools: Sequence[messages.ToolOffer]
    call: Callable[[str, Mapping[str, Any]], str]


def read_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a file that are not empty; None for one that is too long to be read."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            yield None
        elif line.strip():
            yield line


class ProtocolServer:
    """Answers a client's messages until its input ends; what was asked before is answered."""

    def __init__(self, toolbox: Toolbox, output: BinaryIO) -> None:
        self._toolbox = toolbox
        self._output = output
        self._writing = threading.Lock()
        self._calls: Queue[Message | None] = Queue(MOST_WAITING)
        # the ids of calls that wait or run, and those of them that were cancelled
        self._open: set[object] = set()
        self._cancelled: set[object] = set()

    def serve(self, file: BinaryIO) -> None:
        worker = threading.Thread(target=self._run_calls, daemon=True)
        worker.start()
        for line in read_lines(file):
            self._take(line)
        self._calls.put(None)
        worker.join()

    def _take(self, line: bytes | None) -> None:
        if line is None:
            problem = f"a message has at most {LONGEST_LINE:,} bytes"
            self._send(_refuse(None, INVALID_REQUEST, problem))
            return
        try:
            message = decode_mended(msgspec.json.decode, line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._send(_refuse(None, PARSE_ERROR, f"the message is not valid JSON: {error}"))
            return
        if isinstance(message, list) and message:  # a batch, which one version allows
            answers = [one for one in map(self.answer, message) if one]
            self._send(answers or None)
        elif isinstance(message, dict) and message.get("method") == "tools/call":
            if _is_id(message.get("id")):
                self._open.add(message["id"])
            self._calls.put(message)
        else:
            self._send(self.answer(message))

    def _run_calls(self) -> None:
        while (message := self._calls.get()) is not None:
            request_id = message.get("id") if _is_id(message.get("id")) else None
            answer = None if request_id in self._cancelled else self.answer(message)
            if request_id not in self._cancelled:
                self._send(answer)
            self._open.discard(request_id)
            self._cancelled.discard(request_id)

    def answer(self, message: object) -> messages.RpcResponse | None:
        """Return the response to a message; None for a notification and for a response."""
        if not isinstance(message, dict):
            return _refuse(None, INVALID_REQUEST, "a message is a JSON object")
        method, parameters = message.get("method"), message.get("params", {})
        if method is None and ("result" in message or "error" in message):
            return None
        if "id" not in message:
            if method == "notifications/cancelled" and isinstance(parameters, dict):
                self._cancel(parameters.get("requestId"))
            return None
        request_id = message["id"]
        if not _is_id(request_id) or not isinstance(method, str):
            return _refuse(None, INVALID_REQUEST, "a request has an id and a method")
        try:
            if not isinstance(parameters, dict):
                raise ProtocolError(INVALID_PARAMETERS, "params must be an object")
            return messages.RpcResponse(id=request_id, result=self._do(method, parameters))
        except ProtocolError as error:
            return _refuse(request_id, error.code, error.message)

    def _cancel(self, request_id: object) -> None:
        if _is_id(request_id) and request_id in self._open:
            self._cancelled.add(request_id)

    def _do(self, method: str, parameters: Mapping[str, Any]) -> Struct:
        match method:
            case "initialize":
                return self._initialize(parameters)
            case "ping":
                return messages.Nothing()
            case "tools/list":
                return messages.ToolOffers(self._toolbox.tools)
            case "tools/call":
                return self._call(parameters.get("name"), parameters.get("arguments"))
        raise ProtocolError(UNKNOWN_METHOD, f"there is no method {method[:80]!r}")

    def _initialize(self, parameters: Mapping[str, Any]) -> messages.Welcome:
        asked = parameters.get("protocolVersion")
        version = asked if asked in VERSIONS else VERSIONS[-1]
        offered = self._toolbox
        name = messages.ServerName(offered.name, offered.version)
        return messages.Welcome(version, messages.Capabilities(), name, offered.instructions)

    def _call(self, name: object, arguments: object) -> messages.CallAnswer:
        if name not in [one.name for one in self._toolbox.tools]:
            raise ProtocolError(INVALID_PARAMETERS, f"there is no tool {str(name)[:80]!r}")
        arguments = {} if arguments is None else arguments
        try:
            if not isinstance(arguments, dict):
                raise RelightError("arguments must be an object")
            return _show(self._toolbox.call(str(name), arguments))
        except RelightError as error:
            lines = filter(None, [error.message, error.hint and f"hint: {error.hint}"])
            return _show("\n".join(lines), is_error=True)
        except Exception as error:  # noqa: BLE001 - the next call may be answered
            problem = clean_lines(f"{type(error).__name__}: {error}")
            sys.stderr.write(f"{name}: {problem}\n")
            return _show(f"the call failed: {problem[:500]}", is_error=True)

    def _send(self, message: object) -> None:
        """Write a response; a client that is gone gets none, and its input ends soon."""
        if message is None:
            return
        with self._writing, suppress(OSError, ValueError):
            self._output.write(msgspec.json.encode(message) + b"\n")
            self._output.flush()


def _is_id(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _show(text: str, *, is_error: bool = False) -> messages.CallAnswer:
    return messages.CallAnswer(
        [messages.TextBlock(clean_lines(text) if is_error else text)], is_error
    )


def _refuse(request_id: object, code: int, message: str) -> messages.RpcResponse:
    return messages.RpcResponse(
        id=request_id, error=messages.ProtocolProblem(code, clean_lines(message))
    )
