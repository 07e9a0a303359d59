"""Commands and pages that an agent's tools meet: what outlives them, swells, hangs or leaks."""

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.campaign.hostile import repeat
from bench.campaign.score import Clock, Score
from relight.work.agent.context import ToolContext, ToolResult, make_context
from relight.work.agent.tools import TOOLS, execute_call

# the limit that tools are given, and what they may take beyond it on a loaded machine
SECONDS = 2.0
GRACE_SECONDS = 20.0
TEXT_LIMIT = 3_000_000
PAGES = ("<a", "<!--", "</", "<script>", "<p>", "&#", "<a href='", "\x00", "<![CDATA[", "<<<", "x")
# what leaves a process behind; {mark} is a time to sleep that no other process has
LEAVERS = (
    "sleep {mark} & echo ok",
    "setsid sleep {mark} >/dev/null 2>&1 & echo ok",
    "nohup sleep {mark} >/dev/null 2>&1 & disown; echo ok",
    "(setsid sleep {mark} >/dev/null 2>&1 &); echo ok",
    "(setsid sleep {mark} >/dev/null 2>&1 &); sleep 60",
    "trap '' TERM INT HUP; sleep {mark}",
    "setsid bash -c 'trap \"\" TERM; (sleep {mark} &) ; sleep {mark}' & sleep 60",
)
OUTPUTS = (
    "yes | head -c 200000000",
    "head -c 50000000 /dev/zero",
    "yes $'\\x1b[31m' | head -c 20000000",
    "printf '%5000000s' x",
    "yes 1>&2 | head -c 1",
    "cat /dev/urandom | head -c 5000000",
)
SECRETS = {
    "CAMPAIGN_API_KEY": "value-of-the-key-4711",
    "CAMPAIGN_TOKEN": "value-of-the-token-4711",
    "DB_PASSWORD": "value-of-the-password-4711",
    "CAMPAIGN_SECRET": "value-of-the-secret-4711",
}
LOOKS = ("env", "printenv", "tr '\\0' '\\n' < /proc/$PPID/environ", "cat /proc/self/environ", "set")
OUTSIDE = (
    "../outside.txt",
    "link",
    "up/outside.txt",
    "/etc/passwd",
    "./../in/../outside.txt",
    "..",
)


def run(folder: Path, dice: random.Random, clock: Clock) -> Score:
    score = Score("tools", "hung", "leaked")
    (folder / "in").mkdir()
    context = make_tool_context(folder / "in", allows_private=True)
    check_environment(score, context)
    check_files(score, folder, context)
    check_addresses(score, make_tool_context(folder / "in", allows_private=False))
    pieces = [(PAGES[0], 1_000_000), *((piece, 1_000_000) for piece in PAGES[1:])]
    with serving() as (port, bodies):
        for number in clock.rounds():
            match number % 3:
                case 0:
                    leave_children(score, context, dice)
                case 1:
                    call(score, context, "terminal", command=dice.choice(OUTPUTS))
                case _:
                    piece, size = dice.choice(pieces)
                    bodies["/page"] = repeat(piece, dice.randrange(size)).encode()
                    call(score, context, "web_fetch", url=f"http://127.0.0.1:{port}/page")
    return score


def make_tool_context(folder: Path, *, allows_private: bool) -> ToolContext:
    """A context made while the process has variables that are named like secrets."""
    os.environ.update(SECRETS)
    try:
        return make_context(folder, timeout_seconds=SECONDS, allows_private=allows_private)
    finally:
        for name in SECRETS:
            del os.environ[name]


def call(score: Score, context: ToolContext, tool: str, **arguments: object) -> ToolResult:
    """Call a tool; its time and the length of its text are bounded."""
    score.counts["tried"] += 1
    with score.within(SECONDS + GRACE_SECONDS, f"{tool} {arguments}"):
        result = execute_call(TOOLS, tool, arguments, context=context)
    if len(result.text) > TEXT_LIMIT:
        score.add("leaked", f"{tool} {arguments} gives {len(result.text)} characters")
    return result


def leave_children(score: Score, context: ToolContext, dice: random.Random) -> None:
    """A command that leaves processes behind; they end with it."""
    mark = f"97{dice.randrange(10**6, 10**7)}.{dice.randrange(1000)}"
    command = dice.choice(LEAVERS).replace("{mark}", mark)
    call(score, context, "terminal", command=command)
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := find_sleepers(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    score.add("hung", f"{command!r} leaves processes running", len(left))
    for process in left:
        os.kill(process, 9)


def find_sleepers(mark: str) -> list[int]:
    """The processes `sleep MARK`, which only this module starts."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", mark.encode()]:
            found.append(int(place.parent.name))
    return found


def check_environment(score: Score, context: ToolContext) -> None:
    for look in LOOKS:
        text = call(score, context, "terminal", command=look).text
        shown = [name for name, value in SECRETS.items() if value in text]
        score.add("leaked", f"{look!r} shows {', '.join(shown)}", len(shown))


def check_files(score: Score, folder: Path, context: ToolContext) -> None:
    """Files outside the folder are neither read nor written; large ones are refused."""
    (folder / "outside.txt").write_text("outside")
    (folder / "in" / "link").symlink_to("../outside.txt")
    (folder / "in" / "up").symlink_to("..")
    for name in OUTSIDE:
        read = call(score, context, "read_file", path=name)
        written = call(score, context, "write_file", path=name, content="x")
        if not (read.is_error and written.is_error):
            score.add("leaked", f"{name!r} is outside and was used")
    with (folder / "in" / "huge").open("wb") as file:
        file.truncate(3 << 30)
    for tool, rest in (("read_file", {}), ("patch", {"old_string": "a", "new_string": "b"})):
        call(score, context, tool, path="huge", **rest)
    (folder / "in" / "huge").unlink()


def check_addresses(score: Score, context: ToolContext) -> None:
    """No spelling of this machine's address is fetched."""
    names = ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0", "[::1]", "[::]")
    more = ("[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "user@127.0.0.1", "127。0。0。1", "intranet")
    with serving() as (port, bodies):
        bodies["/"] = b"inside"
        for name in (*names, *more, "metadata.google.internal"):
            result = call(score, context, "web_fetch", url=f"http://{name}:{port}/")
            if "inside" in re.sub(r'"(?:error|hint)":"[^"]*"', "", result.text):
                score.add("leaked", f"{name} is fetched")


@contextmanager
def serving() -> Iterator[tuple[int, dict[str, bytes]]]:
    """A server of pages on this machine: its port, and the pages by their path."""
    bodies: dict[str, bytes] = {}

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(self.path, b"")
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        log_message: Callable[..., None] = lambda *_: None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, bodies
    finally:
        server.shutdown()
        server.server_close()
