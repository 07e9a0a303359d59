"""The dashboard reads the agents' folders by itself, and says whether it does."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import build
import build_lessons
import serving
from relight.intake.importing import hold_import
from relight.intake.watching import WatchReport
from relight.reports.lessons import list_lessons
from relight.store import Store, open_store
from relight.store.queries.filters import Filter
from relight.web import watch
from relight.web.watch import LessonReader, WatchProcess


@pytest.fixture
def home(tmp_path: Path) -> Path:
    build.open_home(tmp_path).close()
    return tmp_path / "relight"


def read(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
        return json.load(answer)


def find_children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def is_running(process: int) -> bool:
    with suppress(OSError):
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    return False


def test_what_an_agent_writes_is_served_without_an_import(home: Path, tmp_path: Path) -> None:
    with serving.serve(home, HOME=str(tmp_path)) as (address, _):
        assert read(address, "api/sessions?since=all")["sessions"] == []
        path = build.write_claude(tmp_path, build.claude_session())
        build.wait_for(lambda: read(address, "api/sessions?since=all")["sessions"])
        with path.open("ab") as file:
            file.write(build.as_lines([build.claude_answer("m9", at=9)]))
        build.wait_for(lambda: read(address, "api/sessions?since=all")["sessions"][0]["turns"] == 4)
        build.wait_for(lambda: read(address, "api/live")["state"] == "live")
        assert read(address, "api/live")["read_seconds"] is not None


def test_without_a_watch_nothing_is_read_and_it_says_so(home: Path, tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with serving.serve(home, "--no-watch", HOME=str(tmp_path)) as (address, server):
        live = read(address, "api/live")
        assert (live["state"], live["read_seconds"]) == ("off", None)
        assert live["words"].startswith("not watching")
        assert find_children(server) == []


@pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc")
def test_a_watch_that_ends_is_reported_and_ends_nothing_else(home: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with serving.serve(home, errors=errors, HOME=str(tmp_path)) as (address, server):
        build.wait_for(lambda: read(address, "api/live")["read_seconds"] is not None)
        (child,) = find_children(server)
        os.kill(child, signal.SIGKILL)
        build.wait_for(lambda: read(address, "api/live")["state"] == "failing")
        assert read(address, "api/live")["words"] == "not live: the watch was ended by SIGKILL"
        assert errors.read_text() == "warning: the watch was ended by SIGKILL\n"


@pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc")
def test_the_watch_ends_with_a_server_that_is_killed(home: Path, tmp_path: Path) -> None:
    with serving.serve(home, HOME=str(tmp_path)) as (address, server):
        build.wait_for(lambda: read(address, "api/live")["read_seconds"] is not None)
        (child,) = find_children(server)
        os.kill(server, signal.SIGKILL)
        build.wait_for(lambda: not is_running(child))


def test_an_import_of_another_process_is_named(home: Path, tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with (
        open_store(home) as store,
        hold_import(store),
        serving.serve(home, HOME=str(tmp_path)) as (address, _),
    ):
        build.wait_for(lambda: read(address, "api/live")["state"] == "waiting")
        assert read(address, "api/live")["words"] == "another import is reading"


@pytest.fixture
def process(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchProcess]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(watch, "RESTART_SECONDS", 0.1)
    found = WatchProcess(home)
    yield found
    found.close()


def test_a_watch_that_ended_is_started_again(process: WatchProcess) -> None:
    others = set(find_children(os.getpid()))  # of the tests before
    process.start()
    build.wait_for(lambda: process.read().read_seconds is not None)
    (child,) = set(find_children(os.getpid())) - others
    os.kill(child, signal.SIGKILL)
    build.wait_for(lambda: set(find_children(os.getpid())) - others - {child})
    build.wait_for(lambda: process.read().state == "live")


def test_the_words_of_each_state(tmp_path: Path) -> None:
    now = 1000.0
    process = WatchProcess(tmp_path, clock=lambda: now)

    def say(*reports: WatchReport) -> tuple[str, str, float | None]:
        for report in reports:
            process.take(report)
        found = process.read()
        return found.state, found.words, found.read_seconds

    process.take(WatchReport("live"))
    now += 3
    assert say() == ("live", "live", 3.0)
    assert say(WatchReport("reading")) == ("live", "live", 3.0)
    now += 2
    part = WatchReport("reading", done_bytes=1_000_000, total_bytes=5_000_000)
    assert say(part) == ("reading", "reading what is new, 4 MB left", 5.0)
    waiting = ("waiting", "another import is reading", 5.0)
    assert say(WatchReport("waiting")) == waiting
    assert say(WatchReport("reading")) == waiting  # until it turns out that it can read
    broken = ("failing", "not live: no\ufffd space", 5.0)
    assert say(WatchReport("failing", "no\x07 space")) == broken
    process.take(WatchReport("live"))
    now += 12
    assert say() == ("failing", "not live: the watch does not answer", 12.0)


def test_a_process_beside_the_server_ends_with_it_where_pipes_cannot_be_waited_for() -> None:
    """As on Windows, whose Python has no fork: a thread reads the standard input."""
    code = """
import os, sys, time
del os.fork
from relight.web.watch import end_with_server
wait = end_with_server()
print(wait is time.sleep, flush=True)
while True:
    wait(0.01)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"True"
        child.stdin.close()
        assert child.wait(60) == 0


def test_the_watch_reads_sessions_that_are_over_for_their_lessons(
    tmp_path: Path, store: Store
) -> None:
    now = build.START / 1000 + 2 * 86_400
    reader = LessonReader(clock=lambda: now)
    for number in (1, 2):
        build_lessons.write_session(tmp_path, number)
    options = {"environment": {"HOME": str(tmp_path)}, "workers": 1}
    reader.take(store, **options)
    assert list_lessons(store, Filter()).unread_sessions == 1  # the second began just now
    now += 30
    reader.take(store, **options)
    now += 3600
    reader.take(store, **options)
    assert list_lessons(store, Filter()).unread_sessions == 0
