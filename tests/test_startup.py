"""Start-up is a feature: what is loaded, not how long it takes, since machines are noisy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.modules import TURN_LIMIT, run_python, trace_mixture

import build

HEAVY = {
    "rich",
    "genai_prices",
    "starlette",
    "httpx2",
    "pydantic",
    "tenacity",
    "msgspec",
    "sqlite3",
}


def loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def run_command(*words: str) -> str:
    return f"from relight.cli import main\ntry: main({list(words)!r})\nexcept SystemExit: pass"


def test_importing_relight_loads_nothing_heavy() -> None:
    assert not loaded("import relight") & HEAVY


def test_help_loads_click_alone() -> None:
    assert not loaded(run_command("--help")) & HEAVY


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["report", "--json"], {"msgspec", "sqlite3"}),
        (["report"], {"msgspec", "sqlite3"}),
        (["import"], {"msgspec", "sqlite3"}),
        (["job", "list", "--json"], {"msgspec", "sqlite3"}),
        (["scheduler", "--once"], {"msgspec", "sqlite3"}),
    ],
)
def test_a_command_loads_only_what_it_needs(
    tmp_path: Path, words: list[str], allowed: set[str]
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
    environment = f"import os; os.environ['HOME'] = {str(tmp_path)!r}\n"
    home = str(tmp_path / "relight")
    assert loaded(environment + run_command(*words, "--home", home)) & HEAVY <= allowed


@pytest.mark.sqlite("counts the modules of SQLite's path")
def test_a_report_goes_through_few_modules(tmp_path: Path) -> None:
    """As `./dev bench modules` counts them: a newcomer has to read them all."""
    build.write_claude(tmp_path, build.claude_session())
    environment = {"HOME": str(tmp_path), "RELIGHT_HOME": str(tmp_path / "relight"), "TZ": "UTC"}
    run_python(["-m", "relight", "import"], environment)
    words = ["report", "--by", "model", "--no-import"]
    traced = run_python(["-m", "bench.modules", *words], environment)
    assert len(found := json.loads(traced.splitlines()[-1])) <= 14, found


@pytest.mark.sqlite("counts the modules of SQLite's path")
def test_a_turn_of_a_mixture_goes_through_few_modules() -> None:
    assert len(found := trace_mixture()) <= TURN_LIMIT, found
