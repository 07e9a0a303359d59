"""The connection by which records leave this machine."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from relight.intake.http_line import HttpLine


class HastyServer(ThreadingHTTPServer):
    """A server that closes each connection after its first response, and does not announce it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.closed = threading.Semaphore(0)
        super().__init__(("127.0.0.1", 0), HastyHandler)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()


class HastyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


def test_a_connection_that_the_server_closed_in_a_pause_is_opened_again() -> None:
    with HastyServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        line = HttpLine(f"http://127.0.0.1:{server.server_port}")
        for body in (b"first", b"second" * 100_000):
            assert line.exchange("POST", "/", body, {}).body == body
            assert server.closed.acquire(timeout=60)
        line.close()
        server.shutdown()
