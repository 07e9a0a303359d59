"""Hints name the command as it was typed, however the program was started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from relight.cli import relight
from relight.errors import as_typed

SCRIPT = """#!{python}
import sys
from relight.cli import main
main()
"""


def run(command: list[str], home: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if name != "RELIGHT_COMMAND"}
    return subprocess.run(
        command,
        cwd=home,
        env={**kept, "HOME": str(home), "RELIGHT_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program that an installer writes."""
    script = tmp_path / "my bin" / "relight"
    script.parent.mkdir()
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    return script


def test_a_program_on_the_path_is_named_by_its_name(program: Path, tmp_path: Path) -> None:
    done = run(["relight", "job", "show", "x"], tmp_path, PATH=f"{program.parent}:/usr/bin:/bin")
    assert "hint: `relight job list` shows them" in done.stderr


def test_a_program_elsewhere_is_named_by_its_path(program: Path, tmp_path: Path) -> None:
    done = run([str(program), "job", "show", "x"], tmp_path, PATH="/usr/bin:/bin")
    assert f"hint: `'{program}' job list` shows them" in done.stderr


def test_a_module_is_named_as_python_was_typed(tmp_path: Path) -> None:
    done = run([sys.executable, "-m", "relight", "job", "show", "x"], tmp_path)
    assert f"hint: `{sys.executable} -m relight job list` shows them" in done.stderr


def test_the_development_script_is_named(tmp_path: Path) -> None:
    relight = [sys.executable, "-m", "relight"]
    done = run([*relight, "job", "show", "x"], tmp_path, RELIGHT_COMMAND="./dev run")
    assert "hint: `./dev run job list` shows them" in done.stderr
    done = run(relight, tmp_path, RELIGHT_COMMAND="./dev run")
    assert "Try `./dev run demo`" in done.stdout


@pytest.mark.parametrize(
    "words",
    [["--home", "my store", "job", "show", "x"], ["job", "show", "x", "--home", "my store"]],
)
def test_hints_name_the_home_that_was_given(tmp_path: Path, words: list[str]) -> None:
    done = run([sys.executable, "-m", "relight", *words], tmp_path, RELIGHT_COMMAND="relight")
    hint = f"hint: `relight --home '{tmp_path}/my store' job list` shows them"
    assert hint in done.stderr


def test_a_home_that_one_command_was_given_is_not_named_by_the_next(tmp_path: Path) -> None:
    CliRunner().invoke(relight, ["--home", str(tmp_path), "sessions", "--no-import"])
    assert "--home" not in as_typed("relight doctor")


def test_help_and_usage_errors_name_it_too(tmp_path: Path) -> None:
    relight = [sys.executable, "-m", "relight"]
    shown = run([*relight, "report", "--help"], tmp_path, RELIGHT_COMMAND="./dev run").stdout
    assert shown.startswith("Usage: ./dev run report [OPTIONS]")
    assert "Example: ./dev run report --by" in shown
    assert "-m relight" in run([*relight, "--help"], tmp_path).stdout.splitlines()[0]
    assert "-m relight -m" not in run([*relight, "job", "--help"], tmp_path).stdout
    wrong = run([*relight, "report", "--nothing"], tmp_path, RELIGHT_COMMAND="./dev run")
    assert wrong.returncode == 2
    assert "Try './dev run report --help'" in wrong.stderr
