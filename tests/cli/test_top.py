"""The sessions that run now, printed once and followed in a terminal."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import build
from relight.prices import context_window
from relight.reports.running import RunningSession, read_running_sessions
from relight.store import Store
from terminal import Cli, Screen


def write_session(home: Path, *lines: dict[str, Any]) -> Path:
    return build.write_claude(home, [build.claude_prompt("Fix the rounding"), *lines])


def read_at(store: Store, seconds: float) -> list[RunningSession]:
    return read_running_sessions(store, now=build.START + round(seconds * 1000)).sessions


def test_a_session_runs_while_its_record_grows(store: Store, tmp_path: Path) -> None:
    call = build.tool_use("t1", command="pytest -q")
    write_session(
        tmp_path,
        build.claude_answer("m1", call, at=10, stop="tool_use"),
        build.claude_result("t1", "1 passed", at=20, is_error=False),
        build.claude_answer("m2", at=30),
    )
    build.import_home(store, tmp_path)
    (one,) = read_at(store, 60)
    assert (one.source, one.project, one.model) == (
        "claude-code",
        "/home/dev/shop",
        "claude-opus-4-6",
    )
    assert (one.step, one.idle_seconds, one.turns, one.spiral) == ("answered", 30.0, 2, None)
    assert one.context_tokens == 10 + 4000 + 300
    window = context_window("claude-opus-4-6", "anthropic")
    assert window is not None
    assert one.context_share == pytest.approx(4310 / window)
    assert one.cost_usd is not None
    # a minute of the session: the rate of an hour is sixty times what it cost
    assert one.usd_per_hour == pytest.approx(one.cost_usd * 60)
    assert len(read_at(store, 329)) == 1
    assert read_at(store, 331) == []


def test_a_call_that_runs_may_take_longer(store: Store, tmp_path: Path) -> None:
    call = build.tool_use("t1", command="make")
    write_session(tmp_path, build.claude_answer("m1", call, at=10, stop="tool_use"))
    build.import_home(store, tmp_path)
    (one,) = read_at(store, 1200)
    assert one.step == "Bash runs"
    assert read_at(store, 1811) == []


def test_a_session_that_was_written_by_a_clock_ahead_is_not_running(
    store: Store, tmp_path: Path
) -> None:
    write_session(tmp_path, build.claude_answer("m1", at=3600))
    build.import_home(store, tmp_path)
    assert read_at(store, 10) == []
    (one,) = read_at(store, 3600 - 60)
    assert one.idle_seconds == 0
    assert len(read_at(store, 3700)) == 1


def test_the_same_failing_call_again_and_again_is_a_warning(store: Store, tmp_path: Path) -> None:
    lines = []
    for number in range(3):
        call = build.tool_use(f"t{number}", command="make")
        lines.append(build.claude_answer(f"m{number}", call, at=10 + number, stop="tool_use"))
        lines.append(
            build.claude_result(f"t{number}", "Exit code 2\nno", at=10.5 + number, is_error=True)
        )
    write_session(tmp_path, *lines)
    build.import_home(store, tmp_path)
    (one,) = read_at(store, 20)
    assert one.spiral == "Bash: the same failing call 3 times"
    assert one.step == "Bash error, the model works"


def test_a_sub_agent_at_work_keeps_its_session_running(store: Store, tmp_path: Path) -> None:
    path = write_session(tmp_path, build.claude_answer("m1", at=10))
    build.write_agent(path, [build.claude_answer("m2", at=500)])
    build.import_home(store, tmp_path)
    (one,) = read_at(store, 600)
    assert (one.session_id, one.turns) == (f"claude-code:{build.CLAUDE_SESSION}", 2)


def test_without_a_terminal_top_prints_once(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    done = cli.run("top")
    assert (done.returncode, done.stdout.strip()) == (0, "no session runs now")
    now = time.time() - build.START / 1000
    build.write_claude(tmp_path, [build.claude_prompt("Hi", now), build.claude_answer("m", at=now)])
    found = cli.json("top")
    assert [one["step"] for one in found["sessions"]] == ["answered"]
    assert "1 session runs" in cli.run("top", "--once").stdout


def test_top_follows_what_is_new_and_leaves_the_terminal_clean(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    words = [sys.executable, "-m", "relight", "top"]
    with Screen(words, cli.environment, tmp_path) as screen:
        screen.wait_for(lambda: screen.has("no session runs now"))
        now = time.time() - build.START / 1000
        lines = [build.claude_prompt("Hi", now), build.claude_answer("m", at=now)]
        path = build.write_claude(tmp_path, lines)
        screen.wait_for(lambda: screen.has("1 session runs"))
        with path.open("a") as file:
            call = build.tool_use("t9", command="make")
            file.write(json.dumps(build.claude_answer("m9", call, at=now + 1)) + "\n")
        screen.wait_for(lambda: screen.has("Bash runs"))
        hidden = screen.shown.count("\x1b[?25l")
        os.kill(screen.child.pid, signal.SIGINT)
        assert screen.child.wait(30) == 130
        screen.wait_for(lambda: screen.shown.count("\x1b[?25h") >= hidden > 0)
    assert screen.shown.rstrip().endswith("interrupted")
