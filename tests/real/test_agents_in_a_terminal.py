"""The newer agents in a terminal, where a session goes on and is forked by what a person types.

They run with `./dev test --real tests/real/test_agents_in_a_terminal.py`.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import build
from agent_programs import (
    AGAIN,
    OTHERWISE,
    PROGRAMS,
    PROMPT,
    Program,
    Script,
    Started,
    make_environment,
    sum_output,
)
from relight.reports.listing import list_sessions
from relight.store import Store
from terminal import Screen

pytestmark = pytest.mark.programs
# the keys that trust the folder
TRUST = {"copilot": ("1", "\r"), "gemini": ("1", "\r")}
# Gemini CLI asks another model first which model to ask
OPTIONS = {"gemini": " -m gemini-2.5-pro"}
FORK = {"copilot": "/fork", "qwen": "/branch"}
TYPED = [one for one in PROGRAMS if one.name != "droid"]  # it asks for a login


@contextmanager
def resuming(started: Started, program: Program, line: str) -> Iterator[Screen]:
    """The program in a terminal, started by its resume line, at its prompt."""
    own = Path(started.path).parent
    environment = make_environment(started.home) | started.variables
    environment["PATH"] = f"{own}:{environment['PATH']}"
    words = ["bash", "--norc", "-c", line + OPTIONS.get(program.name, "")]
    with ending_hub(started.home), Screen(words, environment, Path("/")) as screen:
        screen.wait_for(lambda: "Done." in screen.shown or "trust" in screen.shown)
        screen.settle()
        for key in TRUST.get(program.name, ()):
            screen.press(key)
            screen.settle()
        yield screen


@contextmanager
def ending_hub(home: Path) -> Iterator[None]:
    """End the daemon that Cline leaves behind in a terminal."""
    yield
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if b"--cline-hub-daemon" in words and os.fsencode(home) in words:
                os.kill(int(path.parent.name), signal.SIGTERM)


def send(screen: Screen, text: str) -> None:
    screen.press(text)
    screen.settle()  # keys that come together are taken for a text that was pasted
    screen.press("\r")


def is_exact(store: Store, home: Path, script: Script) -> bool:
    build.import_home(store, home)
    turns = store.query("select count(*), sum(output_tokens) from turn where calls > 0")
    return turns == [(len(script.truth), sum(output for _, _, output, _ in script.truth))]


@pytest.mark.parametrize("program", TYPED, ids=lambda program: program.name)
def test_a_session_goes_on_in_a_terminal_by_the_line_that_is_shown(
    tmp_path: Path, program: Program
) -> None:
    script = Script(program)
    with program.server(script) as server, build.open_home(tmp_path) as store:
        started = Started(program, tmp_path, server)
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        with resuming(started, program, str(row.resume)) as screen:
            send(screen, AGAIN)
            screen.wait_for(lambda: len(script.truth) >= 6)
            screen.settle()
            screen.wait_for(lambda: is_exact(store, tmp_path, script))
        asked = next(str(one.raw) for one in server.requests if AGAIN in str(one.raw))
        assert PROMPT in asked
        assert is_exact(store, tmp_path, script)
        assert sum_output(store) == sum(output for _, _, output, _ in script.truth)
        assert len(list_sessions(store).sessions) == 1


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.name in FORK], ids=lambda program: program.name
)
def test_a_session_that_is_forked_in_a_terminal_counts_each_call_once(
    tmp_path: Path, program: Program
) -> None:
    script = Script(program)
    with program.server(script) as server, build.open_home(tmp_path) as store:
        started = Started(program, tmp_path, server)
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        with resuming(started, program, str(row.resume)) as screen:
            send(screen, FORK[program.name])
            screen.wait_for(lambda: "orked from" in screen.shown or "Branched" in screen.shown)
            screen.settle()
            send(screen, OTHERWISE)
            screen.wait_for(lambda: len(script.truth) >= 6)
            screen.settle()
            screen.wait_for(lambda: is_exact(store, tmp_path, script))
        kinds = store.query("select parent_kind, root_id from session where parent_kind = 'fork'")
        assert len(kinds) == 1
        ((turns, calls),) = store.query("select sum(turns), sum(tool_calls) from session_day")
        assert (turns, calls) == (len(script.truth), 5)
        assert sum_output(store) == sum(output for _, _, output, _ in script.truth)
