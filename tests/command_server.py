"""A process that has loaded the libraries and forks the commands of tests: they start quickly.

Relight's own modules are not loaded before the fork: each command loads those that it needs, in its
own environment. A command is a real process, with its own streams, signals and exit code.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

# what commands load beside Relight's modules; a library missing here only makes them slower
LIBRARIES = (
    "backports.zstd calendar click concurrent.futures csv ctypes decimal difflib email.utils"
    " fractions glob gzip hashlib hmac html http.client http.server hyperscan importlib.metadata"
    " importlib.resources ipaddress locale logging msgspec.json msgspec.toml"
    " multiprocessing.connection platform queue random rich.box rich.console rich.markup"
    " rich.panel rich.table rich.text secrets shlex shutil sqlite3 ssl statistics tempfile"
    " termios textwrap tomllib unicodedata urllib.request uuid zipfile zoneinfo"
)
# what an interpreter reads when it starts
AT_START = ("PYTHON", "LC_", "LANG", "MALLOC_", "LD_")
PIECE_BYTES = 1 << 16


def can_fork(environment: Mapping[str, str]) -> bool:
    """True if an interpreter would start in an environment as it did in that of the tests."""

    def choose(variables: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in variables.items() if key.startswith(AT_START)}

    return choose(environment) == choose(os.environ)


def fork_command(
    environment: Mapping[str, str], words: Sequence[str], given: bytes | None
) -> tuple[int, bytes, bytes]:
    """Run `relight` in a forked process; return its exit code and what it wrote to both streams."""
    request, other = socket.socketpair()
    output, output_end = os.pipe()
    errors, errors_end = os.pipe()
    input_end, input = (0, None) if given is None else os.pipe()
    with request:
        with other:
            socket.send_fds(start_server(), [b"."], [other.fileno()])
        socket.send_fds(request, [b"."], [input_end, output_end, errors_end])
        for end in (output_end, errors_end, *([input_end] if given is not None else [])):
            os.close(end)
        state = {"words": words, "environment": dict(environment), "folder": str(Path.cwd())}
        umask = os.umask(0)
        os.umask(umask)
        request.sendall(json.dumps({**state, "umask": umask}).encode())
        request.shutdown(socket.SHUT_WR)
        found = communicate(input, given or b"", output, errors)
        return int(request.recv(PIECE_BYTES)), *found


def communicate(input: int | None, given: bytes, output: int, errors: int) -> tuple[bytes, bytes]:
    """Write all input and read both outputs to their ends, in any order; close the three."""
    written: dict[int, list[bytes]] = {output: [], errors: []}
    with selectors.DefaultSelector() as selector:
        for end in written:
            selector.register(end, selectors.EVENT_READ)
        if input is not None:
            os.set_blocking(input, False)
            selector.register(input, selectors.EVENT_WRITE)
        while selector.get_map():
            for key, _ in selector.select():
                if key.fd == input:
                    try:
                        given = given[os.write(key.fd, given[:PIECE_BYTES]) :]
                    except BrokenPipeError:
                        given = b""
                    is_done = not given
                else:
                    piece = os.read(key.fd, PIECE_BYTES)
                    written[key.fd].append(piece)
                    is_done = not piece
                if is_done:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return b"".join(written[output]), b"".join(written[errors])


@cache
def start_server() -> socket.socket:
    """The socket of a server that ends with this process."""
    own, other = socket.socketpair()
    # Python asks once what kind of file a stream is: pipes, as those that a command gets
    pipes: dict[str, int] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with other:
        command = [sys.executable, __file__, str(other.fileno())]
        server = subprocess.Popen(command, pass_fds=[other.fileno()], **pipes)  # type: ignore[call-overload]
    owner = os.getpid()

    def end() -> None:
        own.close()
        if os.getpid() == owner:
            sys.stderr.buffer.write(server.communicate()[1])

    atexit.register(end)
    return own


def serve(control: socket.socket) -> None:
    """Return in each forked process, when it has become a command; never in the server."""
    while True:
        message, ends, *_ = socket.recv_fds(control, 1, 1)
        if not message:
            os._exit(0)
        if not os.fork():
            control.close()
            attend(socket.socket(fileno=ends[0]))
            return
        os.close(ends[0])
        while reap():
            pass


def reap() -> bool:
    """True if an attendant has ended and is no longer listed."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def attend(request: socket.socket) -> None:
    """Fork the command, in which this returns; wait for its end, and say its exit code."""
    _, streams, *_ = socket.recv_fds(request, 1, 3)
    state = json.loads(b"".join(iter(lambda: request.recv(PIECE_BYTES), b"")))
    if child := os.fork():
        for end in (*streams, 0, 1, 2):
            os.close(end)
        _, status = os.waitpid(child, 0)
        request.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    request.close()
    for number, end in enumerate(streams):
        os.dup2(end, number)
        os.close(end)
    os.chdir(state["folder"])
    os.umask(state["umask"])
    os.environ.clear()
    os.environ.update(state["environment"])
    time.tzset()
    sys.argv = ["relight", *state["words"]]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    sys.path[0] = state["folder"]


if __name__ == "__main__":
    for library in LIBRARIES.split():
        import_module(library)
    gc.freeze()  # so that a fork shares these pages
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("relight", run_name="__main__", alter_sys=True)
