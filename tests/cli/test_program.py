"""The programs that `relight exec` can record, and what it says about the others."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from relight.cli.program import BESIDE, check_program
from relight.errors import RelightError

WITHOUT = "#!/bin/sh\necho No module named relight >&2\nexit 1"


def write_script(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{text}\n")
    path.chmod(0o755)
    return str(path)


def make_line(python: str) -> str:
    """The lines of a console script where no first line can name its Python."""
    return f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([sys.executable, "-I", "agent.py"], "-I ignores what would switch the recording on"),
        ([sys.executable, "-X", "dev", "-sE", "a"], "-sE ignores what"),
        (["claude"], "Claude Code is not recorded in this way"),
        (["python3.99"], "python3.99 cannot load Relight, so its model calls cannot be recorded"),
        (["agent.py"], "agent.py does not say which program runs it"),
    ],
)
def test_exec_refuses_what_it_cannot_record(words: list[str], message: str, tmp_path: Path) -> None:
    write_script(tmp_path / "claude", "#!/bin/sh")
    write_script(tmp_path / "python3.99", WITHOUT)  # it may be a shim of pyenv
    write_script(tmp_path / "agent.py", "print()")
    program = shutil.which(words[0], path=f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(RelightError, match=re.escape(message)) as raised:
        check_program(str(program), words)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("#!/usr/bin/env node", "only Python programs can be recorded"),
        (f"#!{sys.executable} -Es", "-Es ignores what"),
        ("#!{folder}/python3.99", "python3.99 cannot load Relight"),
        (make_line("'{folder}/a b/python3'"), "a b/python3 cannot load Relight"),
        (make_line("{folder}/python3.99"), "python3.99 cannot load Relight"),
        (make_line(f"{BESIDE}/'python3.99'"), "python3.99 cannot load Relight"),
        (make_line(f"{sys.executable} -I"), "-I ignores what"),
    ],
)
def test_exec_finds_the_python_of_a_console_script(
    first: str, message: str, tmp_path: Path
) -> None:
    for python in ("python3.99", "a b/python3"):
        write_script(tmp_path / python, WITHOUT)
    script = write_script(tmp_path / "agent", first.replace("{folder}", str(tmp_path)))
    with pytest.raises(RelightError, match=re.escape(message)):
        check_program(script, [script])


@pytest.mark.parametrize("words", [["-c", "1"], ["-mIdle"], ["-BWError", "a.py"], ["a.py", "-E"]])
def test_exec_takes_what_only_looks_like_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a file of the user with our name, which a program's start does not see
    (tmp_path / "relight.py").write_text("")
    monkeypatch.chdir(tmp_path)
    check_program(sys.executable, [sys.executable, *words])


def test_exec_says_what_runs_a_script(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path / "agent", "#!/usr/bin/env sh")
    check_program(script, [script])
    expected = "relight: agent is run by sh; the Python programs that it starts are recorded"
    assert capfd.readouterr().err.startswith(expected)
