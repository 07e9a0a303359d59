"""`relight top` in a terminal while twenty sessions grow: its share of a core."""

import argparse
import json
import os
import pty
import subprocess
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import judge, print_rows, relight, tree_of

SESSIONS = 20
LIMIT = 0.03
WARM_SECONDS = 10.0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench top")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two turns")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        files = [Growing(home, number) for number in range(SESSIONS)]
        for one in files:
            for _ in range(40):
                one.grow()
        share = measure_share(home, files, seconds=options.seconds, every=options.every)
    name = f"relight top, {SESSIONS} sessions with a turn each {options.every:g} s"
    rows = [("what", "figure", "limit", "")]
    rows.append((name, f"{share:.1%} of a core", f"{LIMIT:.0%}", judge(share, LIMIT)))
    print_rows(rows)
    return int(share > LIMIT)


class Growing:
    """A transcript of Claude Code that grows by a prompt's result, a turn and a call."""

    def __init__(self, home: Path, number: int) -> None:
        self.session = f"{number:08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
        self.path = home / ".claude" / "projects" / "-home-dev-shop" / f"{self.session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.turns = 0
        self._write(self._line("user", {"role": "user", "content": "Fix the rounding"}))

    def grow(self) -> None:
        self.turns += 1
        name = f"{self.session[:8]}-{self.turns}"
        call = {"type": "tool_use", "id": f"t{name}", "name": "Bash"}
        usage = {
            "input_tokens": 4,
            "cache_read_input_tokens": 900 * self.turns,
            "cache_creation_input_tokens": 900,
            "output_tokens": 200,
        }
        answer = {
            "id": f"m{name}",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": [call | {"input": {"command": f"sed -n {self.turns}p app.py"}}],
            "stop_reason": "tool_use",
            "usage": usage,
        }
        result = {"type": "tool_result", "tool_use_id": f"t{name}", "content": "total = 3\n" * 40}
        self._write(
            self._line("assistant", answer),
            self._line("user", {"role": "user", "content": [result]}),
        )

    def _line(self, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "type": kind,
            "sessionId": self.session,
            "uuid": os.urandom(8).hex(),
            "timestamp": at,
            "cwd": "/home/dev/shop",
            "version": "2.1.325",
            "isSidechain": False,
            "message": message,
        }

    def _write(self, *lines: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))


def measure_share(home: Path, files: list[Growing], *, seconds: float, every: float) -> float:
    """The CPU time of `relight top` and its workers, for each second that passes."""
    environment = {**os.environ, "HOME": str(home), "RELIGHT_HOME": str(home / "relight")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        relight("top"), env=environment, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    done = threading.Event()

    def drain() -> None:
        try:
            while os.read(leader, 65536):
                pass
        except OSError:
            return

    def grow() -> None:
        while not done.wait(every / len(files)):
            files[0].grow()
            files.append(files.pop(0))

    threads = [threading.Thread(target=action, daemon=True) for action in (drain, grow)]
    for one in threads:
        one.start()
    try:
        time.sleep(WARM_SECONDS)
        began, spent = time.monotonic(), cpu_seconds(child.pid)
        time.sleep(seconds)
        return (cpu_seconds(child.pid) - spent) / (time.monotonic() - began)
    finally:
        done.set()
        child.terminate()
        child.wait()
        os.close(leader)


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process, of its running children, and of those it waited for."""
    ticks = 0
    for one in tree_of(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
