"""How many of Relight's modules a command runs through: code that a newcomer has to read.

A module counts if one of its functions is called, also while modules are imported. Module and class
bodies do not count.
"""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from bench.measure import ROOT, judge, print_rows, tree
from bench.model import serving

# what is traced: commands that prepare it, the command itself, and the limit
# FILE is the session file
COMMANDS: dict[str, tuple[list[list[str]], list[str], int]] = {
    "relight import, one Claude Code file": (
        [],
        ["import", "--source", "claude-code", "--from", "FILE"],
        45,
    ),
    "relight report --by model": ([["import"]], ["report", "--by", "model"], 14),
    "the same, without looking for news": (
        [["import"]],
        ["report", "--by", "model", "--no-import"],
        14,
    ),
    "relight job run, runner command": (
        [["job", "add", "hi", "--schedule", "daily 07:00", "--command", "echo hi"]],
        ["job", "run", "hi"],
        40,
    ),
}
# one turn of a mixture of agents, once its session is open
MIXTURE, TURN_LIMIT = "turn of a mixture", 40
# a command that takes longer than a blink is searched for a session: a busy machine is no finding
TRIES = 3


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench modules")
    parser.add_argument("--list", action="store_true", help="name the modules too")
    options = parser.parse_args(words)
    rows = [("what", "modules", "limit", "")]
    for name, (before, command, limit) in COMMANDS.items():
        found = min((trace_command(before, command) for _ in range(TRIES)), key=len)
        rows.append((name, str(len(found)), str(limit), judge(len(found), limit)))
        if options.list:
            print("\n".join(found))
    found = trace_mixture()
    rows.append((MIXTURE, str(len(found)), str(TURN_LIMIT), judge(len(found), TURN_LIMIT)))
    if options.list:
        print("\n".join(found))
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def trace_command(before: Sequence[Sequence[str]], command: Sequence[str]) -> list[str]:
    """The modules that a command runs through, in a fresh process and a fresh home."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HOME": folder, "RELIGHT_HOME": f"{folder}/home", "TZ": "UTC"}
        file = write_session(Path(folder) / ".claude" / "projects" / "one")
        for words in before:
            run_python(["-m", "relight", *words], environment)
        given = [str(file) if word == "FILE" else word for word in command]
        traced = run_python(["-m", "bench.modules", *given], environment)
    found: list[str] = json.loads(traced.splitlines()[-1])
    return found


def trace_mixture() -> list[str]:
    """The modules that one turn of a mixture runs through, with its client open and warm."""
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        traced = run_python(["-m", "bench.modules", MIXTURE, url], {"RELIGHT_HOME": folder})
    found: list[str] = json.loads(traced.splitlines()[-1])
    return found


def write_session(folder: Path) -> Path:
    """Write one Claude Code session file of today, which an import finds and others ignore."""
    source = min(tree(10).glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    text = re.sub(
        r"(?<=\")\d{4}-\d{2}-\d{2}(?=T)", datetime.now(UTC).date().isoformat(), source.read_text()
    )
    folder.mkdir(parents=True)
    file = folder / source.name
    file.write_text(text)
    return file


def run_python(words: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr[-500:]}")
    return done.stdout


def trace(words: list[str]) -> list[str]:
    """Run a command in this process; return the names of the modules whose functions it calls."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        # the code of modules and classes lacks this flag
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            called.add(frame.f_globals.get("__name__", ""))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from relight.cli import main as run_command

        run_command(words)
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(name for name in called if name.partition(".")[0] == "relight")


def trace_turn(url: str) -> list[str]:
    """Take two turns of a mixture in this process; return the modules that the second calls."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            called.add(frame.f_globals.get("__name__", ""))

    # before the thread that makes the model calls is started
    threading.setprofile(note)
    import relight

    preset = {
        "name": "bench",
        "references": [{"model": "slow-0", "base_url": url}] * 2,
        "aggregator": {"model": "slow-1", "base_url": url},
    }
    with relight.open_store() as store, relight.MoA(preset, store=store) as client:
        create = client.chat.completions.create
        create(messages=[{"role": "user", "content": "First"}])
        called.clear()
        sys.setprofile(note)
        create(messages=[{"role": "user", "content": "Second"}])
        sys.setprofile(None)
        found = set(called)
    threading.setprofile(None)
    return sorted(name for name in found if name.partition(".")[0] == "relight")


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(trace_turn(given[1]) if given[:1] == [MIXTURE] else trace(given)))
