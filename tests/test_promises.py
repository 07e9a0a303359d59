"""Two promises of the README: nothing leaves the machine, and agents' files are only read."""

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import serving
from relight.cli.demo import write_demo
from relight.intake.importing import import_all
from relight.store import open_store
from terminal import run_relight

# notes every attempt to reach an address or to look one up, in every process
WATCH = """
import os, sys

def note(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["ASKED"], "a") as file:
            file.write(f"{event} {arguments!r}\\n")

sys.addaudithook(note)
"""
QUIET = [
    ["import"],
    ["report", "--by", "model,project"],
    ["sessions"],
    ["show", "last", "--full"],
    ["search", "rounding"],
    ["failures"],
    ["skills", "compare", "ticket-triage"],
    ["template", "list"],
    ["template", "auto", "--dry-run"],
    ["warm", "Fix the rounding of invoices"],
    ["experiment", "report"],
    ["job", "list"],
    ["job", "history"],
    ["limits"],
    ["budget"],
    ["cache"],
    ["moa", "traces"],
    ["doctor"],
    ["rebuild", "--prices"],
    ["config"],
    [],
]


def test_no_command_that_reads_or_derives_reaches_for_an_address(tmp_path: Path) -> None:
    modules, asked = tmp_path / "modules", tmp_path / "asked"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(WATCH)
    home = serving.make_home(tmp_path)
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "agents"),
        "RELIGHT_HOME": str(home),
        "PYTHONPATH": str(modules),
        "ASKED": str(asked),
    }
    for words in QUIET:
        done = run_relight(environment, *words)
        assert done.returncode == 0, (words, done.stderr)
    assert not asked.exists(), asked.read_text()
    # the watch sees what it is meant to see
    run_relight(environment, "run", "Hello", "--model", "x", "--base-url", "http://127.0.0.1:9/v1")
    assert "socket.connect" in asked.read_text()


def read_tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of change of every file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(one): (one.read_bytes(), one.stat().st_mtime_ns) for one in files}


def test_an_import_leaves_the_agents_files_as_they_are(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    environment = write_demo(agents, now=datetime(2026, 11, 18, 14, tzinfo=UTC))
    state = agents / ".hermes" / "state.db"
    with closing(sqlite3.connect(state)) as hermes:  # at work, with a log beside the database
        hermes.execute("pragma journal_mode = wal")
        hermes.execute("update sessions set title = title")
        hermes.commit()
        before = read_tree(agents)
        with open_store(tmp_path / "relight") as store:
            import_all(store, environment=environment, workers=1)
        after = read_tree(agents)
    assert [Path(name).name for name in before.keys() ^ after.keys()] == []
    # readers of a database with a log take turns by a file beside it, which is not the agent's data
    changed = {name for name in before if before[name] != after[name]}
    assert {Path(name).name for name in changed} <= {"state.db-shm"}
