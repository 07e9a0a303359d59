"""A webhook on this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """A webhook that answers with the statuses it is given, then 200, and keeps what it got.

    A redirect leads to `leads_to`.
    """

    def __init__(self, *statuses: int, leads_to: str = "") -> None:
        self.got: list[dict[str, Any]] = []
        left = list(statuses)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                owner.got.append(json.loads(self.rfile.read(size)))
                self.send_response(left.pop(0) if left else 200)
                if leads_to:
                    self.send_header("Location", leads_to)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: what came is kept."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def to(self) -> str:
        return f"webhook:{self.url}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/secret/path"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
